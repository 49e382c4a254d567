// Models as PyTorch exports them, against onnxruntime (tests/fixtures/make_onnx_transformers.py and
// make_onnx_architectures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "import/onnx/model_file.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/onnx.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "tests/support/compare.h"
#include "tests/support/full.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(in_source("tests/fixtures/onnx"));

struct Exported {
  std::string name;        // its folder
  int64_t layers = 2;      // one after the other
  int64_t dispatches = 0;  // at most
  std::map<std::string, Dim, std::less<>> symbols = {};
  bool only_full = false;
};

std::ostream& operator<<(std::ostream& out, const Exported& e) { return out << e.name; }

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
double allowed(const Tensor& want, int64_t layers = 2) {
  const double unit = want.dtype() == DType::f16 ? 0x1p-11 : 0x1p-22;
  return 2 * std::sqrt(6.0 * static_cast<double>(layers) + 4) * unit * testing::largest_size(want.doubles());
}

class ExportedModels : public ::testing::TestWithParam<Exported> {};

TEST_P(ExportedModels, AgreeWithOnnxruntime) {
  if (GetParam().only_full && !testing::full_run())
    GTEST_SKIP() << "its shaders take long: ./rlx test --full";
  const fs::path folder = kFolder / GetParam().name;
  const onnx::Model model = onnx::load((folder / "model.onnx").string(), {.symbols = GetParam().symbols});
  Executable exe = compile(model.graph);
  exe.set_params(model.weights);
  const NamedTensors outputs = exe.run(stored_inputs(folder, exe));
  for (size_t i = 0; i < model.graph.outputs().size(); ++i) {
    SCOPED_TRACE(model.graph.outputs()[i].name);
    const Tensor want = stored(folder / ("test_data_set_0/output_" + std::to_string(i) + ".pb"));
    EXPECT_TRUE(
        testing::within(outputs.at(model.graph.outputs()[i].name), want, allowed(want, GetParam().layers)));
  }
  EXPECT_LE(exe.dispatch_count(), GetParam().dispatches);
}

std::string test_name(const ::testing::TestParamInfo<Exported>& info) {
  return fs::path(info.param.name).filename();
}

// As many for each layer as the BERT of rlx/models.h takes, which is 7. The rest is the embedding, the mask
// and the head; where sizes are symbols, positions and masks are computed in each run, and caches are joined.
INSTANTIATE_TEST_SUITE_P(Transformers, ExportedModels,
                         ::testing::Values(Exported{"transformers/bert_static_f32", 2, 22},
                                           Exported{"transformers/bert_dynamic_f32", 2, 31},
                                           Exported{"transformers/bert_static_f16", 2, 22},
                                           Exported{"transformers/bert_dynamic_f16", 2, 31},
                                           Exported{"transformers/gpt2_static_f32", 2, 22},
                                           Exported{"transformers/gpt2_dynamic_f32", 2, 30},
                                           Exported{"transformers/gpt2_static_f16", 2, 22},
                                           Exported{"transformers/gpt2_dynamic_f16", 2, 30},
                                           Exported{"transformers/gpt2_cache_f32", 2, 32}),
                         test_name);

INSTANTIATE_TEST_SUITE_P(
    Architectures, ExportedModels,
    ::testing::Values(
        Exported{"architectures/llama_cache_f32", 2, 40}, Exported{"architectures/llama_cache_f16", 2, 40},
        Exported{"architectures/llama_static_f16", 2, 26}, Exported{"architectures/qwen_static_f16", 2, 30},
        Exported{"architectures/gemma_static_f16", 2, 35}, Exported{"architectures/bert_opset14_f16", 2, 21},
        Exported{"architectures/bert_converted_f16", 2, 21},
        Exported{"architectures/whisper_decoder_opset14_f16", 2, 39},
        Exported{"architectures/t5_loaded_f16", 4, 56},
        Exported{"architectures/whisper_encoder_dynamic_f32", 2, 22},
        Exported{"architectures/whisper_encoder_static_f16", 2, 22, {}, true},
        Exported{"architectures/whisper_decoder_cache_f32", 2, 39},
        Exported{"architectures/t5_dynamic_f32", 4, 68}, Exported{"architectures/t5_static_f16", 4, 63},
        Exported{"architectures/vit_dynamic_f16", 2, 20}, Exported{"architectures/vit_static_f32", 2, 19},
        Exported{"architectures/resnet_dynamic_f32", 4, 12},
        Exported{"architectures/resnet_static_f16", 4, 12, {}, true},
        // It halves and doubles the picture.
        Exported{"architectures/unet_dynamic_f32",
                 3,
                 26,
                 {{"height", 2 * Dim::symbol("h")}, {"width", 2 * Dim::symbol("w")}}},
        Exported{"architectures/unet_static_f16", 3, 27}),
    test_name);

// A prompt and then one token at a time, with the caches as states, against the whole text at once.
TEST(ExportedCaches, DecodeWithCachesOnTheDevice) {
  const Device device = Device::open();
  const onnx::Model whole = onnx::load((kFolder / "transformers/gpt2_dynamic_f32/model.onnx").string());
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
      onnx::load((kFolder / "transformers/gpt2_cache_f32/model.onnx").string(), {.cache_capacity = 16});
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

// Rotated keys go into the cache, and heads share them: the same whether tokens come at once or in parts.
TEST(ExportedCaches, LlamaDecodesWithCachesOnTheDevice) {
  const onnx::Model model =
      onnx::load((kFolder / "architectures/llama_cache_f32/model.onnx").string(), {.cache_capacity = 16});
  Executable exe = compile(model.graph);
  exe.set_params(model.weights);
  const std::vector<int64_t> tokens = {3, 14, 15, 9, 26, 5, 35};
  const auto run = [&](int64_t from, int64_t end) {
    std::vector<int64_t> positions;
    for (int64_t i = from; i < end; ++i) positions.push_back(i);
    return exe
        .run({{"input_ids",
               Tensor::from_ints(DType::i64, {1, end - from}, {tokens.begin() + from, tokens.begin() + end})},
              {"position_ids", Tensor::from_ints(DType::i64, {1, end - from}, positions)},
              {"attention_mask", Tensor::full(DType::i64, {1, end}, 1)}})
        .at("logits");
  };
  const Tensor want = run(0, std::ssize(tokens));
  exe.reset_states();
  int64_t past = 0;
  for (const int64_t n : {3, 1, 2, 1}) {
    const Tensor got = run(past, past + n);
    for (int64_t i = 0; i < got.elements(); ++i)
      ASSERT_NEAR(got.real(i), want.real(past * 50 + i), allowed(want)) << "after " << past << " tokens";
    past += n;
  }
}

}  // namespace
}  // namespace rlx
