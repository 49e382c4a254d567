// Reshape, Flatten, Squeeze, Unsqueeze, Identity: the same elements in another shape.
#include <algorithm>

#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void reshape_rule(Call& c) {
  c.expect_inputs(1, 2);
  std::vector<Dim> wanted;
  if (c.opset() < 5) {
    for (const int64_t d : c.integers("shape")) wanted.emplace_back(d);
  } else {
    wanted = c.dims(1, "the shape");
  }
  const Shape from = c.shape(0);
  const bool zero_is_zero = c.flag("allowzero", false);
  Shape to;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool copies = wanted[i].is(0) && !zero_is_zero;
    if (copies && static_cast<int64_t>(i) >= from.rank())
      fail("its shape copies axis {}, which the input does not have", i);
    to.push_back(copies ? from[static_cast<int64_t>(i)] : wanted[i]);
  }
  // An empty tensor leaves -1 open, unless all the rest is known not to be 0.
  const auto unknown = std::ranges::find_if(to, [](const Dim& d) { return d.is(-1); });
  if (unknown != to.end() && from.elements().is(0)) {
    Dim rest(1);
    for (const Dim& d : to) {
      if (!d.is(-1)) rest *= d;
    }
    Shape filled;
    for (const Dim& d : to) filled.push_back(d.is(-1) && !rest.is(0) ? Dim(0) : d);
    to = filled;
  }
  c.out(reshape(c.in(0), to));
}

void flatten_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Shape from = c.shape(0);
  const int64_t axis = c.integer("axis", 1);
  const int64_t at = axis == from.rank() ? axis : axis == 0 ? 0 : Call::normalized(axis, from.rank());
  Dim rows(1);
  Dim columns(1);
  for (int64_t i = 0; i < from.rank(); ++i) (i < at ? rows : columns) *= from[i];
  c.out(reshape(c.in(0), {rows, columns}));
}

void squeeze_rule(Call& c) {
  c.expect_inputs(1, 2);
  const Shape from = c.shape(0);
  const auto axes = c.axes(1, from.rank());
  Shape to;
  for (int64_t i = 0; i < from.rank(); ++i) {
    const bool dropped = axes ? std::ranges::contains(*axes, i) : from[i].is(1);
    if (dropped && from[i].is_static() && !from[i].is(1))
      fail("axis {} of {} cannot be squeezed", i, from.text());
    if (!dropped) to.push_back(from[i]);
  }
  c.out(reshape(c.in(0), to));
}

void unsqueeze_rule(Call& c) {
  c.expect_inputs(1, 2);
  const int64_t added =
      c.has(1) ? std::ssize(c.numbers(1, "the list of axes")) : std::ssize(c.integers("axes"));
  auto axes = c.axes(1, c.rank(0) + added);
  if (!axes) fail("its axes are not given");
  std::ranges::sort(*axes);
  Shape to = c.shape(0);
  for (const int64_t a : *axes) to.insert(a, 1);
  c.out(reshape(c.in(0), to));
}

void identity_rule(Call& c) {
  c.expect_inputs(1, 1);
  if (!c.only_tensors()) return c.out(0, c.any(0));
  c.out(c.in(0));
}

}  // namespace

namespace rules {
void register_reshape(RuleTable& table) {
  table.add("Reshape", reshape_rule);
  table.add("Flatten", flatten_rule);
  table.add("Squeeze", squeeze_rule);
  table.add("Unsqueeze", unsqueeze_rule);
  table.add("Identity", identity_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
