// A model in f16 becomes as many dispatches as the same model with every f16 made f32 (then its casts are
// nothing).
#include <gtest/gtest.h>

#include <filesystem>

#include "ops/machinery/op_table.h"
#include "passes/rewrite.h"
#include "rlx/onnx.h"
#include "runtime/compile_graph.h"
#include "runtime/resizable_program.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

AttrValue in_f32(AttrValue value) {
  if (auto* type = std::get_if<DType>(&value); type && *type == DType::f16) *type = DType::f32;
  if (auto* type = std::get_if<TensorType>(&value); type && type->dtype == DType::f16)
    type->dtype = DType::f32;
  if (auto* t = std::get_if<Tensor>(&value); t && t->dtype() == DType::f16)
    value = Tensor::from_doubles(DType::f32, t->shape(), t->doubles());
  return value;
}

Graph in_f32(const Graph& graph) {
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    Attrs attrs = attributes(*n.op);
    for (auto& [name, value] : attrs) value = in_f32(value);
    const std::shared_ptr<Op> op = n.op->clone();
    set_attributes(*op, attrs);
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    rewriter.replace(id, op, std::move(inputs));
  }
  return rewriter.finish();
}

size_t dispatches(const Graph& graph, const SymbolValues& sizes) {
  // On a GPU a product may be cut along k in one type and not in the other.
  const Caps caps{.adapter = "any", .kind = AdapterKind::cpu};
  const CompiledGraph compiled = compile_for_target({.caps = caps}, graph, {.symbols = sizes});
  return lower_resizable(compiled.split.main, compiled.target, {}, {}).program.dispatches.size();
}

struct HalfForm {
  std::string name;
  SymbolValues sizes = {};
};

std::ostream& operator<<(std::ostream& out, const HalfForm& m) { return out << m.name; }

class HalfForms : public ::testing::TestWithParam<HalfForm> {};

TEST_P(HalfForms, TakeAsManyDispatchesAsF32) {
  const std::string folder = in_source("tests/fixtures/onnx/" + GetParam().name);
  const onnx::Model model = onnx::load(folder + "/model.onnx");
  EXPECT_LE(dispatches(model.graph, GetParam().sizes), dispatches(in_f32(model.graph), GetParam().sizes));
}

const SymbolValues kText = {{"batch", 2}, {"sequence", 11}};
const SymbolValues kDecoder = {{"sequence", 1}, {"past_sequence_length", 7}};

INSTANTIATE_TEST_SUITE_P(
    Models, HalfForms,
    ::testing::Values(
        HalfForm{"transformers/bert_dynamic_f16", kText}, HalfForm{"transformers/gpt2_dynamic_f16", kText},
        HalfForm{"architectures/llama_cache_f16", kDecoder}, HalfForm{"architectures/llama_static_f16"},
        HalfForm{"architectures/qwen_static_f16"}, HalfForm{"architectures/gemma_static_f16"},
        HalfForm{"architectures/bert_opset14_f16"}, HalfForm{"architectures/bert_converted_f16"},
        HalfForm{"architectures/whisper_encoder_static_f16"},
        HalfForm{"architectures/whisper_decoder_opset14_f16", {{"frames", 11}, {"past_sequence_length", 6}}},
        HalfForm{"architectures/t5_static_f16"}, HalfForm{"architectures/t5_loaded_f16"},
        HalfForm{"architectures/vit_dynamic_f16", {{"batch", 2}}}),
    [](const ::testing::TestParamInfo<HalfForm>& info) {
      return std::filesystem::path(info.param.name).filename().string();
    });

}  // namespace
}  // namespace rlx::testing
