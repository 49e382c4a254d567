# Installs BUILD_DIR into a fresh prefix, then builds users' projects against it and runs them: CONSUMER_DIR, and the
# example with custom ops.

set(work_dir ${BUILD_DIR}/install-consumer)
file(REMOVE_RECURSE ${work_dir})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work_dir}/prefix)
function(configure name source)
  run(${CMAKE_COMMAND} -G Ninja -S ${source} -B ${work_dir}/${name}
    -D CMAKE_PREFIX_PATH=${work_dir}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER} ${ARGN})
endfunction()
function(build name source)
  configure(${name} ${source} ${ARGN})
  run(${CMAKE_COMMAND} --build ${work_dir}/${name})
endfunction()

# The formats of pictures are for those who ask for them.
build(consumer ${CONSUMER_DIR} -D CMAKE_DISABLE_FIND_PACKAGE_PNG=ON)
run(${work_dir}/consumer/consumer)
build(media ${CONSUMER_DIR} -D RLX_COMPONENTS=media)
run(${work_dir}/media/media ${CONSUMER_DIR}/../../examples/ocr/cafe.png)
execute_process(
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${CONSUMER_DIR} -B ${work_dir}/no_png -D CMAKE_PREFIX_PATH=${work_dir}/prefix
    -D CMAKE_CXX_COMPILER=${CXX_COMPILER} -D RLX_COMPONENTS=media -D CMAKE_DISABLE_FIND_PACKAGE_PNG=ON
  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
if(result EQUAL 0 OR NOT complaint MATCHES "PNG")
  message(FATAL_ERROR "the component media must ask for PNG; it said: ${complaint}")
endif()

set(example ${CONSUMER_DIR}/../../examples/custom_ops)
build(custom_ops ${example})
run(${work_dir}/custom_ops/custom_ops)
run(${work_dir}/custom_ops/rlx_with_ops ops l1_share)
run(${work_dir}/custom_ops/rlx_with_ops run ${example}/picture.rlx --dim width=257 --random 1 --verify)

# Documents, with the licence and what the README leads to.
foreach(document LICENSE README.md docs/custom-ops.md docs/profile.png examples/quickstart.cpp)
  if(NOT EXISTS ${work_dir}/prefix/share/doc/rlx/${document})
    message(FATAL_ERROR "the installed tree lacks ${document}")
  endif()
endforeach()
