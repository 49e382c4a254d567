# Installs BUILD_DIR into a fresh prefix, then builds users' projects against it and runs them: CONSUMER_DIR, and the
# example with custom ops.

set(work_dir ${BUILD_DIR}/install-consumer)
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work_dir}/prefix)
function(build name source)
  run(${CMAKE_COMMAND} -G Ninja -S ${source} -B ${work_dir}/${name}
    -D CMAKE_PREFIX_PATH=${work_dir}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER})
  run(${CMAKE_COMMAND} --build ${work_dir}/${name})
endfunction()

build(consumer ${CONSUMER_DIR})
run(${work_dir}/consumer/consumer)

set(example ${CONSUMER_DIR}/../../examples/custom_ops)
build(custom_ops ${example})
run(${work_dir}/custom_ops/custom_ops)
run(${work_dir}/custom_ops/rlx_with_ops ops l1_share)
run(${work_dir}/custom_ops/rlx_with_ops run ${example}/picture.rlx --dim width=257 --random 1 --verify)
