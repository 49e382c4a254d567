// Main kernels, encodings and models on GPUs that are not there: what their drivers' compilers make of them,
// and what plans under their limits are. tests/on_simulated_gpu.sh runs these; the sweep and the tests of
// products compile there, too.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "base/format.h"
#include "encodings/encoding.h"
#include "import/onnx/model_file.h"
#include "measure/bench_cases.h"
#include "measure/compiler_report.h"
#include "measure/networks.h"
#include "rlx/error.h"
#include "rlx/onnx.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "tests/gpu/gpu_compiler.h"
#include "tests/support/encoded.h"
#include "tests/support/full.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;

TEST(GpuCompilers, MainKernelsDoNotSpill) {
  if (!only_compiles()) return;
  const size_t before = spilling_modules().size();
  for (const std::string_view name : measure::main_cases()) {
    SCOPED_TRACE(name);
    compile_for_gpu(measure::find_case(name)->graph());
  }
  for (size_t i = before; i < spilling_modules().size(); ++i)
    ADD_FAILURE() << spilling_modules()[i].kernel << ": " << spilling_modules()[i].spills << " spills";
}

// With the units that the device has, if any.
TEST(GpuCompilers, TakeMatrixKernels) {
  if (!only_compiles()) return;
  const size_t before = spilling_modules().size();
  for (const auto& [op, text] : std::map<std::string, std::string>{
           {"matmul", "%x = input : f16[512, 512]\n%w = input : f16[512, 512]\n%y = matmul(%x, %w)"},
           {"conv", "%x = input : f16[1, 64, 56, 56]\n%w = input : f16[64, 64, 3, 3]\n%y = conv(%x, %w)"},
           {"attention", "%q = input : f16[1, 12, 256, 64]\n%y = attention(%q, %q, %q) {mask=\"causal\"}"}}) {
    SCOPED_TRACE(op);
    compile_for_gpu(parse_graph("graph g {\n" + text + "\noutput y = %y\n}"), {.kernels = {{op, "matrix"}}});
  }
  compile_for_gpu(parse_graph("graph g {\n%x = input : i8[64, 512]\n%w = input : i8[256, 512]\n"
                              "%t = transpose(%w) {perm=[1, 0]}\n%y = matmul(%x, %t)\noutput y = %y\n}"),
                  {.kernels = {{"matmul", "dot4 matrix"}}});
  compile_for_gpu(parse_graph("graph g {\n%x = input : f32[64, 512]\n%w = input : f32[512, 256]\n"
                              "%y = matmul(%x, %w)\noutput y = %y\n}"),
                  {.kernels = {{"matmul", "halved matrix"}}, .precision = Precision::mixed});
  for (size_t i = before; i < spilling_modules().size(); ++i)
    ADD_FAILURE() << spilling_modules()[i].kernel << ": " << spilling_modules()[i].spills << " spills";
}

TEST(GpuCompilers, TakeEveryEncoding) {
  if (!only_compiles()) return;
  for (const Encoding& e : encoding_table().all()) {
    SCOPED_TRACE(e.name);
    const int64_t k = 2 * block_elements(e.dtype);
    for (const int64_t rows : {1, 33}) {
      if (rows > 1 && !is_quick(e.dtype)) continue;
      Graph g;
      const Value x = g.input("x", DType::f32, {rows, k});
      g.output("y", matmul(x, transpose(g.param("w", e.dtype, {256, k}))));
      compile_for_gpu(g);
    }
  }
}

// The stored inputs of a model say which sizes its symbols have.
SymbolValues stored_sizes(const Graph& graph, const fs::path& folder) {
  SymbolValues out;
  int64_t number = 0;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const fs::path file = folder / formatted("test_data_set_0/input_{}.pb", number++);
    if (!fs::exists(file)) continue;
    const auto bytes = std::make_shared<const FileBytes>(file.string());
    const Tensor value =
        onnx::TensorData(bytes, "").tensor(onnx::parse_tensor(bytes->bytes(), file.string()));
    const Shape& shape = n.outputs[0].shape;
    for (int64_t axis = 0; axis < shape.rank() && axis < std::ssize(value.shape()); ++axis) {
      if (const auto symbol = shape[axis].as_symbol())
        out[*symbol] = value.shape()[static_cast<size_t>(axis)];
    }
  }
  return out;
}

TEST(GpuCompilers, PlanEveryModel) {
  if (!only_compiles()) return;
  for (const char* group : {"transformers", "architectures", "microsoft", "quantised", "recurrent"}) {
    for (const fs::directory_entry& entry :
         fs::directory_iterator(in_source("tests/fixtures/onnx") + "/" + group)) {
      const fs::path file = entry.path() / "model.onnx";
      if (!fs::exists(file)) continue;
      SCOPED_TRACE(file.string());
      onnx::LoadOptions load;
      if (entry.path().filename() == "unet_dynamic_f32")
        load.symbols = {{"height", 2 * Dim::symbol("h")}, {"width", 2 * Dim::symbol("w")}};
      try {
        const onnx::Model model = onnx::load(file.string(), load);
        SymbolValues sizes = stored_sizes(model.graph, entry.path());
        for (const std::string& symbol : model.graph.symbols()) sizes.try_emplace(symbol, 8);
        plan_for_gpu(model.graph, {.symbols = sizes});
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
}

TEST(GpuCompilers, PlanNetworks) {
  if (!only_compiles()) return;
  for (const measure::Network& network : measure::networks()) {
    if (!fs::exists(network.path()))
      GTEST_SKIP() << "missing: " << network.path() << ", which ./rlx models downloads";
    SCOPED_TRACE(network.name);
    SymbolValues sizes;
    for (const std::string& dim : network.dims)
      sizes[dim.substr(0, dim.find('='))] = std::stoll(dim.substr(dim.find('=') + 1));
    onnx::LoadOptions load;
    for (const auto& [name, size] : sizes) load.symbols[name] = size;
    if (network.true_input) load.values[network.true_input] = Tensor::of<bool>({1}, {true});
    const onnx::Model model = onnx::load(network.path(), load);
    if (full_run()) {
      compile_for_gpu(model.graph);
    } else {
      plan_for_gpu(model.graph);
    }
  }
}

// The last one: a list for whoever reads the log.
TEST(GpuCompilersAfterAll, ListSpills) {
  if (!only_compiles()) return;
  for (const Spilling& s : spilling_modules())
    std::printf("spills: %s %lld\n", s.kernel.c_str(), static_cast<long long>(s.spills));
}

}  // namespace
}  // namespace rlx::testing
