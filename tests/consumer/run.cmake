# Installs BUILD_DIR into a fresh prefix, then builds CONSUMER_DIR against it and runs the result.

set(work_dir ${BUILD_DIR}/install-consumer)
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work_dir}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${CONSUMER_DIR} -B ${work_dir}/build
  -D CMAKE_PREFIX_PATH=${work_dir}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${work_dir}/build)
run(${work_dir}/build/consumer)
