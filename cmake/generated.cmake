# Sources generated during the build: the embedded kernels and the tables of ops, encodings and ONNX rules.
# Result: RLX_GENERATED_kernels, _ops, _encodings and _import for these layers, and the target rlx_kernel_headers, which
# those that include the kernels' headers wait for. The generators leave a file alone when its content would not change.

# Kernels: generated/kernels/<stem>.wgsl.h for each kernel, kernels.cpp with the texts of all of them and a list (a
# source file for each would take longer to compile), lib.wgsl.h and .cpp for the shared fragments. The generator is built
# first, with the library's own parser; everything else waits for it, so it is not optimised.
add_executable(rlx_embed_kernels tools/embed_kernels.cpp src/kernels/parse.cpp src/base/error.cpp src/base/format.cpp)
target_include_directories(rlx_embed_kernels PRIVATE include src)
target_compile_features(rlx_embed_kernels PRIVATE cxx_std_23)
target_compile_options(rlx_embed_kernels PRIVATE -O0)

# A kernel stands beside its op; files in a folder lib are fragments.
file(GLOB_RECURSE fragments CONFIGURE_DEPENDS src/kernels/lib/*.wgsl src/ops/*/lib/*.wgsl)
file(GLOB kernels CONFIGURE_DEPENDS src/ops/*/*.wgsl)
set(embedded)
foreach(file lib.wgsl.h lib.wgsl.cpp kernels.cpp)
  list(APPEND embedded ${RLX_GENERATED_DIR}/kernels/${file})
endforeach()
foreach(kernel IN LISTS kernels)
  cmake_path(GET kernel FILENAME name)
  list(APPEND embedded ${RLX_GENERATED_DIR}/kernels/${name}.h)
endforeach()
add_custom_command(
  OUTPUT ${embedded}
  COMMAND rlx_embed_kernels ${RLX_GENERATED_DIR} ${kernels} ${fragments}
  DEPENDS rlx_embed_kernels ${kernels} ${fragments}
  COMMENT "Embedding kernels"
  VERBATIM)

add_custom_target(rlx_kernel_headers DEPENDS ${embedded})
set(RLX_GENERATED_kernels ${embedded})

# The tables of ops, of encodings and of ONNX rules: generated/NAME.cpp calls the register functions of all sources in a folder.
set(table_script ${PROJECT_SOURCE_DIR}/tools/register_table.py)
function(add_table name folder namespace table header)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${folder}/*.cpp)
  set(out ${RLX_GENERATED_DIR}/${name}.cpp)
  add_custom_command(
    OUTPUT ${out}
    COMMAND Python3::Interpreter ${table_script} --out ${out} --table ${table} --namespace ${namespace}
      --header ${header} ${sources}
    DEPENDS ${table_script} ${sources}
    COMMENT "Generating ${name}.cpp"
    VERBATIM)
  string(REGEX MATCH "^[a-z]+" layer ${folder})
  set(RLX_GENERATED_${layer} ${out} PARENT_SCOPE)
endfunction()
add_table(op_table ops rlx::ops OpTable ops/machinery/op_table.h)
add_table(encoding_table encodings rlx::encodings EncodingTable encodings/encoding.h)
add_table(onnx_rule_table import/onnx/rules rlx::onnx::rules RuleTable import/onnx/rules.h)
