// Nodes that draw random numbers.
#include <bit>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// ONNX's seeds are floats: each is a seed of ours by its bits.
Importer::Stream draw(Call& c) {
  std::optional<uint64_t> seed;
  if (c.has_attribute("seed")) seed = std::bit_cast<uint32_t>(static_cast<float>(c.real("seed")));
  return c.importer().draw(c.frame(), seed);
}

void random_numbers(Call& c, const Shape& shape, ElementType type, bool uniform) {
  const DType dtype = c.carried(type);
  if (!is_float(dtype)) fail("its numbers are of the type {}; they must be floats", to_string(type));
  const auto [seed, stream] = draw(c);
  const Value y =
      uniform ? random_uniform(c.graph(), shape, seed, c.real("low", 0), c.real("high", 1), dtype, stream)
              : random_normal(c.graph(), shape, seed, c.real("mean", 0), c.real("scale", 1), dtype, stream);
  c.out(0, y, type);
}

template <bool kUniform>
void random_rule(Call& c) {
  c.expect_inputs(0, 0);
  if (!c.has_attribute("shape")) fail("the attribute 'shape' is missing");
  random_numbers(c, Shape(c.integers("shape")), c.element_type("dtype", ElementType::float32), kUniform);
}

template <bool kUniform>
void random_like_rule(Call& c) {
  c.expect_inputs(1, 1);
  random_numbers(c, c.shape(0), c.element_type("dtype", c.type(0)), kUniform);
}

void bernoulli_rule(Call& c) {
  c.expect_inputs(1, 1);
  const ElementType type = c.element_type("dtype", c.type(0));
  const auto [seed, stream] = draw(c);
  c.out(0, bernoulli(c.in(0), seed, c.carried(type), stream), type);
}

void multinomial_rule(Call& c) {
  c.expect_inputs(1, 1);
  if (c.rank(0) != 2) fail("its input {} must be [batch, classes]", c.shape(0).text());
  const ElementType type = c.element_type("dtype", ElementType::int32);
  const auto [seed, stream] = draw(c);
  const Value y = multinomial(c.in(0), c.integer("sample_size", 1), seed, stream);
  c.out(0, cast(y, c.carried(type)), type);
}

// Before opset 12 it does nothing here: models of that time that are run are not trained.
void dropout_rule(Call& c) {
  c.expect_inputs(1, 3);
  const Value x = c.in(0);
  c.ignores(c.opset() < 12 ? "ratio is_test" : "seed");  // of training
  const bool training = c.opset() >= 12 && c.has(2) && c.real(2, "training_mode") != 0;
  const double ratio = c.opset() < 12 ? 0 : c.has(1) ? c.real(1, "the ratio") : 0.5;
  Dropped out = {.y = x, .mask = {}};
  if (training && ratio != 0) {
    std::optional<uint64_t> given;
    if (c.has_attribute("seed")) given = static_cast<uint64_t>(c.integer("seed"));
    const auto [seed, stream] = c.importer().draw(c.frame(), given);
    out = dropout(x, ratio, seed, stream);
  }
  c.out(out.y);
  if (!c.wants(1)) return;
  const bool as_bool = c.opset() >= 10;
  if (!out.mask) out.mask = expand(c.graph().scalar(as_bool ? DType::bool_ : x.dtype(), 1), x.shape());
  c.out(1, out.mask, as_bool ? ElementType::boolean : c.type(0));
}

}  // namespace

namespace rules {
void register_random(RuleTable& table) {
  table.add("RandomUniform", random_rule<true>);
  table.add("RandomNormal", random_rule<false>);
  table.add("RandomUniformLike", random_like_rule<true>);
  table.add("RandomNormalLike", random_like_rule<false>);
  table.add("Bernoulli", bernoulli_rule);
  table.add("Multinomial", multinomial_rule);
  table.add("Dropout", dropout_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
