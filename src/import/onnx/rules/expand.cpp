// Expand and Tile: elements that are repeated.
#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void expect_sizes(const std::vector<Dim>& dims) {
  for (const Dim& d : dims) {
    if (d.is_static() && d.value() < 0) fail("it repeats {} times", d.value());
  }
}

// ONNX broadcasts both ways: where the wanted shape has a 1, the input's size stays.
void expand_rule(Call& c) {
  c.expect_inputs(2, 2);
  const std::vector<Dim> wanted = c.dims(1, "the shape");
  expect_sizes(wanted);
  const Shape to = broadcast(c.shape(0), Shape(wanted), "Expand");
  c.out(expand(c.in(0), to));
}

void tile_rule(Call& c) {
  c.expect_inputs(2, 2);
  const std::vector<Dim> repeats = c.dims(1, "the list of repeats");
  expect_sizes(repeats);
  if (std::ssize(repeats) != c.rank(0)) fail("it has {} repeats for {} axes", repeats.size(), c.rank(0));
  c.out(tile(c.in(0), repeats));
}

}  // namespace

namespace rules {
void register_expand(RuleTable& table) {
  table.add("Expand", expand_rule);
  table.add("Tile", tile_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
