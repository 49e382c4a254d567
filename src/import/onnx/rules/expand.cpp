// Expand and Tile: elements that are repeated.
#include "import/onnx/rules.h"

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

// [a, b] repeated [m, n] times is [1, a, 1, b] expanded to [m, a, n, b].
void tile_rule(Call& c) {
  c.expect_inputs(2, 2);
  const std::vector<Dim> repeats = c.dims(1, "the list of repeats");
  expect_sizes(repeats);
  const Shape from = c.shape(0);
  if (std::ssize(repeats) != from.rank()) fail("it has {} repeats for {} axes", repeats.size(), from.rank());
  Shape apart;
  Shape repeated;
  Shape to;
  for (int64_t i = 0; i < from.rank(); ++i) {
    const Dim& times = repeats[static_cast<size_t>(i)];
    if (!times.is(1)) {
      apart.push_back(1);
      repeated.push_back(times);
    }
    apart.push_back(from[i]);
    repeated.push_back(from[i]);
    to.push_back(from[i] * times);
  }
  c.out(reshape(expand(reshape(c.in(0), apart), repeated), to));
}

}  // namespace

namespace rules {
void register_expand(RuleTable& table) {
  table.add("Expand", expand_rule);
  table.add("Tile", tile_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
