// Constant, ConstantOfShape and Range: values that come from nowhere.
#include <cmath>
#include <limits>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void constant_rule(Call& c) {
  c.expect_inputs(0, 0);
  if (c.has_attribute("value")) {
    c.out(0, c.leaf("value"));
  } else if (c.has_attribute("value_int")) {
    c.out(0, Ints::scalar(c.integer("value_int")), ElementType::int64);
  } else if (c.has_attribute("value_ints")) {
    const std::vector<int64_t> all = c.integers("value_ints");
    c.out(0, c.leaf(Tensor::of({std::ssize(all)}, all), ElementType::int64));
  } else if (c.has_attribute("value_float")) {
    const auto value = static_cast<float>(c.real("value_float"));
    c.out(0, c.graph().constant(Tensor::scalar(value)), ElementType::float32);
  } else if (c.has_attribute("value_floats")) {
    const std::vector<double> all = c.reals("value_floats");
    const std::vector<float> values(all.begin(), all.end());
    c.out(0, c.leaf(Tensor::of({std::ssize(values)}, values), ElementType::float32));
  } else {
    c.refuse(Refusal::not_a_tensor, "it holds strings or a sparse tensor");
  }
}

void constant_of_shape_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Shape shape(c.dims(0, "the shape"));
  const ElementType type = c.has_attribute("value") ? c.tensor_type("value") : ElementType::float32;
  const Tensor one = c.has_attribute("value") ? c.tensor("value") : Tensor::zeros(DType::f32, {1});
  if (one.elements() != 1) fail("its value has {} elements instead of 1", one.elements());
  for (const Dim& d : shape) {
    if (d.is_static() && d.value() < 0) fail("its shape has a dimension of {}", d.value());
  }
  // One value in memory, however large the shape.
  c.out(0,
        expand(c.graph().constant(Tensor(one.dtype(), {}, {one.bytes().begin(), one.bytes().end()})), shape),
        type);
}

// The first number, and how many there are.
void range_rule(Call& c) {
  c.expect_inputs(3, 3);
  const ElementType type = c.type(0);
  if (is_float(type)) {
    const double start = c.real(0, "the first number");
    const double limit = c.real(1, "the limit");
    const double step = c.real(2, "the step");
    if (step == 0) fail("its step is 0");
    const double steps_needed = std::max(std::ceil((limit - start) / step), 0.0);
    if (!(steps_needed < 1e15)) fail("it goes from {} to {} in steps of {}", start, limit, step);
    const auto count = static_cast<int64_t>(steps_needed);
    const Value steps = range(c.graph(), count, 0, 1, c.carried(type));
    return c.out(0, steps * step + start, type);
  }
  const std::vector<Dim> start = c.dims(0, "the first number");
  const std::vector<Dim> limit = c.dims(1, "the limit");
  const int64_t step = c.number(2, "the step");
  if (step == 0 || step == std::numeric_limits<int64_t>::min() || start.size() != 1 || limit.size() != 1)
    fail("it takes three numbers, and a step that is not 0");
  Dim count = step > 0 ? (limit[0] - start[0]).ceil_div(step) : (start[0] - limit[0]).ceil_div(-step);
  if (count.is_static() && count.value() < 0) count = 0;
  c.out(0, range(c.graph(), count, start[0], step, c.carried(type)), type);
}

}  // namespace

namespace rules {
void register_constant(RuleTable& table) {
  table.add("Constant", constant_rule);
  table.add("ConstantOfShape", constant_of_shape_rule);
  table.add("Range", range_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
