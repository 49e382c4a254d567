// Models of transformers as PyTorch exports them, against onnxruntime
// (tests/fixtures/make_onnx_transformers.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "import/onnx/model_file.h"
#include "rlx/onnx.h"
#include "rlx/rlx.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(RLX_SOURCE_DIR) / "tests/fixtures/onnx/transformers";
constexpr int64_t kLayers = 2;

Tensor stored(const fs::path& path) {
  const auto bytes = std::make_shared<const FileBytes>(path.string());
  return onnx::TensorData(bytes, "").tensor(onnx::parse_tensor(bytes->bytes(), path.string()));
}

NamedTensors stored_inputs(const fs::path& folder, const Executable& exe) {
  NamedTensors out;
  for (const TensorInfo& info : exe.inputs())
    out.emplace(info.name, stored(folder / ("test_data_set_0/input_" + std::to_string(out.size()) + ".pb")));
  return out;
}

// Both sides round what a layer adds to the residual stream some six times (norm, projections, attention, the
// activation), each by half a unit of the largest value; the errors are independent.
double allowed(const Tensor& want) {
  double largest = 0;
  for (const double v : want.doubles()) largest = std::max(largest, std::fabs(v));
  const double unit = want.dtype() == DType::f16 ? 0x1p-11 : 0x1p-22;
  return 2 * std::sqrt(6.0 * kLayers + 4) * unit * largest;
}

void expect_close(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.type_text(), want.type_text());
  const double most = allowed(want);
  double worst = 0;
  for (int64_t i = 0; i < want.elements(); ++i)
    worst = std::max(worst, std::fabs(got.real(i) - want.real(i)));
  EXPECT_LE(worst, most);
}

class ExportedModels : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedModels, AgreeWithOnnxruntime) {
  const fs::path folder = kFolder / GetParam();
  const onnx::Model model = onnx::load((folder / "model.onnx").string());
  Executable exe = compile(model.graph);
  exe.set_params(model.weights);
  const NamedTensors outputs = exe.run(stored_inputs(folder, exe));
  for (size_t i = 0; i < model.graph.outputs().size(); ++i) {
    SCOPED_TRACE(model.graph.outputs()[i].name);
    expect_close(outputs.at(model.graph.outputs()[i].name),
                 stored(folder / ("test_data_set_0/output_" + std::to_string(i) + ".pb")));
  }
  // As many for each layer as the BERT of rlx/models.h takes. The rest is the embedding, the mask and the
  // head; where sizes are symbols, positions and masks are computed in each run, and caches are joined.
  const int64_t around = GetParam().contains("static")  ? 8
                         : GetParam().contains("cache") ? 18
                         : GetParam().contains("bert")  ? 17
                                                        : 16;
  EXPECT_LE(exe.dispatch_count(), 7 * kLayers + around);
}

INSTANTIATE_TEST_SUITE_P(All, ExportedModels,
                         ::testing::Values("bert_static_f32", "bert_dynamic_f32", "bert_static_f16",
                                           "bert_dynamic_f16", "gpt2_static_f32", "gpt2_dynamic_f32",
                                           "gpt2_static_f16", "gpt2_dynamic_f16", "gpt2_cache_f32"),
                         [](const auto& info) { return info.param; });

// A prompt and then one token at a time, with the caches as states, against the whole text at once.
TEST(ExportedCaches, DecodeWithCachesOnTheDevice) {
  const Device device = Device::open();
  const onnx::Model whole = onnx::load((kFolder / "gpt2_dynamic_f32/model.onnx").string());
  Executable all = compile(whole.graph, device);
  all.set_params(whole.weights);
  const std::vector<int64_t> tokens = {3, 14, 15, 9, 26, 5, 35, 8, 9, 7, 9, 3};
  const auto count = std::ssize(tokens);
  const auto ids = [&](int64_t from, int64_t end) {
    return Tensor::from_ints(DType::i64, {1, end - from}, {tokens.begin() + from, tokens.begin() + end});
  };
  const auto ones = [](int64_t n) { return Tensor::full(DType::i64, {1, n}, 1); };
  const Tensor want = all.run({{"input_ids", ids(0, count)}, {"attention_mask", ones(count)}}).at("logits");

  const onnx::Model model =
      onnx::load((kFolder / "gpt2_cache_f32/model.onnx").string(), {.cache_capacity = 16});
  EXPECT_EQ(model.caches.size(), 4U);
  EXPECT_EQ(model.caches[0].length, "total_length");
  EXPECT_EQ(model.graph.outputs().size(), 1U);
  Executable exe = compile(model.graph, device);
  exe.set_params(model.weights);
  int64_t past = 0;
  for (const int64_t n : {5, 1, 1, 3, 1, 1}) {
    const Tensor got =
        exe.run({{"input_ids", ids(past, past + n)}, {"attention_mask", ones(past + n)}}).at("logits");
    for (int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.real(i), want.real(past * 50 + i), allowed(want)) << "after " << past << " tokens";
    past += n;
  }
}

}  // namespace
}  // namespace rlx
