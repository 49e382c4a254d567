#include <algorithm>
#include <limits>
#include <numeric>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "ir/op.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

// No axis has as many elements: such a bound is one of the ends.
constexpr int64_t kBeyond = INT32_MAX;

// Whether a bound counts from the end. One that depends on sizes and may be negative for some of them is
// taken not to be: `n - 3` is meant for three elements or more, and the run says so where there are fewer.
bool counts_from_end(const Dim& at) { return !at.is_size() && (Dim(0) - at).is_size(); }

// A bound as ONNX means it, before it is moved to the ends of the axis: negative ones count from the end.
Dim from_start(const Dim& at, const Dim& size) {
  if (!at.is_static()) return counts_from_end(at) ? at + size : at;
  if (at.value() >= kBeyond) return size;
  if (at.value() <= -kBeyond) return Dim(-1);
  return at.value() < 0 ? at + size : at;
}

// Whether it may turn out to be negative, which then is an error of the run.
bool is_assumed(const Dim& at) { return !at.is_static() && !at.is_size() && !counts_from_end(at); }

struct Part {
  Dim start, length;
  int64_t step;
  Dim first;  // the start, as long as it lies inside
};

// What ONNX says, for every size: bounds outside of the axis are moved to its ends.
Part part_of(const Dim& size, const Dim& start, const Dim& end, int64_t step) {
  const bool forwards = step > 0;
  const Dim first = is_assumed(start) ? start : Dim::max(from_start(start, size), 0);
  // Backwards, the end may be before the first element.
  const Dim last = from_start(end, size);
  Part out{.start = Dim::min(first, forwards ? size : size - 1), .length = 0, .step = step, .first = first};
  Dim reach = forwards ? Dim::min(last, size) - first : out.start - Dim::max(last, -1);
  if (!is_assumed(start) && !is_assumed(end)) reach = Dim::max(reach, 0);
  const int64_t apart = forwards ? step : -step;
  out.length = apart >= kBeyond ? Dim::min(reach, 1) : reach.ceil_div(apart);
  if (out.length.is_static() && out.length.value() <= 0)
    return {.start = 0, .length = 0, .step = 1, .first = 0};
  if (out.length.is(1) || apart >= kBeyond) out.step = forwards ? 1 : -1;
  return out;
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

// Without the minima that make no difference.
Part settled(const Importer& importer, Part part) {
  const Dim length = importer.settled(part.length);
  // What has a length that says so lies inside.
  const bool inside = !(length == part.length) && minima(length).empty();
  part.start = inside ? part.first : importer.settled(part.start);
  part.length = length;
  return part;
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
    const Part part = settled(c.importer(), part_of(from[axis], starts[i], ends[i], step));
    if (part.start == Dim(0) && part.length == from[axis] && part.step == 1) continue;
    x = slice(x, axis, part.start, part.length, part.step);
  }
  c.out(x);
}

}  // namespace

namespace rules {
void register_slice(RuleTable& table) { table.add("Slice", slice_rule); }
}  // namespace rules

}  // namespace rlx::onnx
