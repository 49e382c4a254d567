// Scatter, ScatterElements, ScatterND and TensorScatter.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

ScatterReduction reduction_of(const Call& c) {
  const std::string name = c.text("reduction", "none");
  if (name == "none") return ScatterReduction::none;
  if (name == "add") return ScatterReduction::add;
  if (name == "mul") return ScatterReduction::mul;
  if (name == "max") return ScatterReduction::max;
  if (name == "min") return ScatterReduction::min;
  fail("its reduction is '{}'", excerpt(name));
}

void scatter_elements_rule(Call& c) {
  c.expect_inputs(3, 3);
  const Value y = scatter_elements(c.in(0), c.in(1), c.in(2), c.axis("axis", 0, c.rank(0)), reduction_of(c));
  c.out(c.wrapped(y, c.type(0)));
}

void scatter_nd_rule(Call& c) {
  c.expect_inputs(3, 3);
  c.out(c.wrapped(scatter_nd(c.in(0), c.in(1), c.in(2), reduction_of(c)), c.type(0)));
}

// A cache with the update from place `write_indices` of each batch on: element j of the axis is element
// j - place of the update, if it has that.
void tensor_scatter_rule(Call& c) {
  c.expect_inputs(2, 3);
  const Value cache = c.in(0);
  const Value update = c.in(1);
  const int64_t rank = cache.shape().rank();
  const int64_t axis = c.axis("axis", -2, rank);
  const std::string mode = c.text("mode", "linear");
  if (mode != "linear" && mode != "circular") fail("its mode is '{}'", excerpt(mode));
  const Dim size = cache.shape()[axis];
  const auto along = [&](int64_t at, const Dim& dim) {
    Shape dims(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
    dims[at] = dim;
    return dims;
  };
  Value from = reshape(range(c.graph(), size), along(axis, size));
  if (c.has(2)) from = from - cast(reshape(c.in(2), along(0, cache.shape()[0])), DType::i64);
  if (mode == "circular") from = mod(from, c.materialize(Ints::scalar(size), ElementType::int64));
  const Value inside =
      logical_and(greater_equal(from, 0),
                  less(from, c.materialize(Ints::scalar(update.shape()[axis]), ElementType::int64)));
  const Value taken = gather_elements(update, expand(maximum(from, 0), cache.shape()), axis);
  c.out(where(inside, taken, cache));
}

}  // namespace

namespace rules {
void register_scatter(RuleTable& table) {
  table.add("Scatter", scatter_elements_rule);
  table.add("ScatterElements", scatter_elements_rule);
  table.add("ScatterND", scatter_nd_rule);
  table.add("TensorScatter", tensor_scatter_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
