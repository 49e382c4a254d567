#include <algorithm>
#include <limits>
#include <numeric>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "ir/op.h"

namespace rlx::onnx {
namespace {

// A bound as ONNX means it: negative ones count from the end, and those outside are moved to the ends. Where
// it depends on symbols whether one lies outside, it is taken to lie inside; the run says so if it does not.
Dim bounded(const Dim& at, const Dim& size, int64_t low, const Dim& high) {
  const bool negative = at.is_static() ? at.value() < 0 : !at.is_size() && (Dim(0) - at).is_size();
  Dim from_start = negative ? at + size : at;
  if (at.is_static() && (at.value() > (1LL << 40) || at.value() < -(1LL << 40)))
    return negative ? Dim(low) : high;
  if ((Dim(low) - from_start).is_size()) return Dim(low);
  if ((from_start - high).is_size()) return high;
  return from_start;
}

// A whole number on the device as another one plus a constant.
struct Shifted {
  ValueId of;
  int64_t by = 0;
};

Shifted shifted(Call& c, Value v) {
  Shifted out{.of = v.id()};
  while (true) {
    const Node& n = c.graph().producer(out.of);
    const std::string_view op = n.op->name();
    if (op == "reshape" || op == "cast") {
      out.of = n.inputs[0];
      continue;
    }
    if (op != "add") return out;
    const bool first = c.importer().constant(c.graph().value(n.inputs[0])).has_value();
    const auto number = c.importer().constant(c.graph().value(n.inputs[first ? 0 : 1]));
    if (!number || number->elements() != 1) return out;
    out.by += number->integer(0);
    out.of = n.inputs[first ? 1 : 0];
  }
}

// x[i : i + 3], where only the run knows i: what begins outside of x is moved inside.
bool slice_at_run(Call& c) {
  if (c.opset() < 10 || c.known(1) || c.known(2) || c.constant(1) || c.constant(2)) return false;
  const Value start = c.in(1);
  const Value end = c.in(2);
  if (!start.shape().elements().is(1) || !end.shape().elements().is(1)) return false;
  if (c.has(4) && c.number(4, "the list of steps") != 1) return false;
  const Shifted from = shifted(c, start);
  const Shifted to = shifted(c, end);
  if (from.of != to.of || to.by < from.by) return false;
  const int64_t axis = c.has(3) ? Call::normalized(c.number(3, "the list of axes"), c.rank(0)) : 0;
  const Value at = reshape(start, {1});
  c.out(gather(c.in(0), at + range(c.graph(), to.by - from.by, 0, 1, at.dtype()), axis));
  return true;
}

void slice_rule(Call& c) {
  c.expect_inputs(1, 5);
  if (slice_at_run(c)) return;
  std::vector<Dim> starts;
  std::vector<Dim> ends;
  std::vector<int64_t> axes;
  std::vector<int64_t> steps;
  const Shape from = c.shape(0);
  if (c.opset() < 10) {
    for (const int64_t i : c.integers("starts")) starts.emplace_back(i);
    for (const int64_t i : c.integers("ends")) ends.emplace_back(i);
    if (c.has_attribute("axes")) axes = c.integers("axes");
  } else {
    starts = c.dims(1, "the list of starts");
    ends = c.dims(2, "the list of ends");
    if (c.has(3)) axes = c.numbers(3, "the list of axes");
    if (c.has(4)) steps = c.numbers(4, "the list of steps");
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size()) {
    fail("it has {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
         steps.size());
  }
  Value x = c.in(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = Call::normalized(axes[i], from.rank());
    const int64_t step = steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      fail("its step on axis {} is {}", axis, step);
    const Dim& size = from[axis];
    // Backwards, the end may be before the first element.
    const bool forwards = step > 0;
    const Dim start = bounded(starts[i], size, 0, forwards ? size : size - 1);
    const Dim end = bounded(ends[i], size, forwards ? 0 : -1, forwards ? size : size - 1);
    const Dim reach = forwards ? end - start : start - end;
    Dim length = reach.ceil_div(std::min<int64_t>(forwards ? step : -step, 1LL << 40));
    if (length.is_static() && length.value() < 0) length = 0;
    if (size.is(0)) length = 0;
    if (start == Dim(0) && length == size && step == 1) continue;
    x = slice(x, axis, length.is(0) ? Dim(0) : start, length, length.is(0) || length.is(1) ? 1 : step);
  }
  c.out(x);
}

}  // namespace

namespace rules {
void register_slice(RuleTable& table) { table.add("Slice", slice_rule); }
}  // namespace rules

}  // namespace rlx::onnx
