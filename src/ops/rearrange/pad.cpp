#include "ops/rearrange/pad.h"

#include <algorithm>
#include <bit>

#include "ir/literal.h"
#include "ir/reference.h"
#include "kernels/lowering.h"
#include "kernels/pad.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_table.h"

namespace rlx {

std::vector<TensorType> Pad::infer(const InferArgs& in) const {
  in.expect_count(1);
  expect_fits(in.dtype(0), value);
  Shape out = in.shape(0);
  const int64_t rank = out.rank();
  if (static_cast<int64_t>(before.size()) != rank || static_cast<int64_t>(after.size()) != rank) {
    fail("pad: `before` has {} and `after` {} numbers, but the input {} has rank {}", before.size(),
         after.size(), out.text(), rank);
  }
  for (int64_t a = 0; a < rank; ++a) {
    const Dim length = out[a];
    const int64_t low = before[static_cast<size_t>(a)];
    const int64_t high = after[static_cast<size_t>(a)];
    out[a] = length + Dim(low) + Dim(high);
    if (out[a].is_static() && out[a].value() < 0) {
      fail("pad: {} and {} cut more from axis {} than its length {}", low, high, a, length.text());
    }
    const Dim left = length + Dim(std::min<int64_t>(low, 0)) + Dim(std::min<int64_t>(high, 0));
    if (mode != PadMode::constant && left.is_static() && left.value() <= 0 && !out[a].is(0)) {
      fail("pad: {} and {} leave nothing of axis {} of {} to repeat", std::min<int64_t>(low, 0),
           std::min<int64_t>(high, 0), a, in.shape(0).text());
    }
  }
  return {TensorType{in.dtype(0), out}};
}

namespace {

// The coordinate of x that is seen at coordinate c; -1 for none. As `source` in pad.wgsl.
int64_t source(PadMode mode, int64_t c, int64_t length) {
  const auto floor_mod = [](int64_t a, int64_t n) { return ((a % n) + n) % n; };
  switch (mode) {
    case PadMode::constant:
      return c >= 0 && c < length ? c : -1;
    case PadMode::reflect: {
      const int64_t period = std::max<int64_t>(2 * (length - 1), 1);
      const int64_t r = floor_mod(c, period);
      return r < length ? r : period - r;
    }
    case PadMode::edge:
      return std::clamp<int64_t>(c, 0, length - 1);
    case PadMode::wrap:
      return floor_mod(c, length);
  }
  return -1;
}

// How much negative numbers cut from the beginning of an axis, and the length that remains.
struct Cut {
  int64_t begin, length;
};

Cut cut_axis(const Pad& pad, size_t axis, int64_t length) {
  const int64_t begin = std::max<int64_t>(-pad.before[axis], 0);
  return {begin, std::max<int64_t>(length - begin - std::max<int64_t>(-pad.after[axis], 0), 0)};
}

}  // namespace

void Pad::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  RefTensor& y = r.out();
  y = RefTensor::from(Tensor::full(y.dtype, y.dims, value));
  const std::vector<int64_t> strides = row_major_strides(x.dims);
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (size_t a = y.dims.size(); a-- > 0;) {
      const Cut cut = cut_axis(*this, a, x.dims[a]);
      const int64_t c = source(mode, rest % y.dims[a] - std::max<int64_t>(before[a], 0), cut.length);
      rest /= y.dims[a];
      at = c < 0 || at < 0 ? -1 : at + (c + cut.begin) * strides[a];
    }
    if (at < 0) continue;
    visit_both(x, y, [&](const auto& from, auto& to) {
      to[static_cast<size_t>(i)] = from[static_cast<size_t>(at)];
    });
  }
}

namespace {

constexpr size_t kAxes = std::tuple_size_v<decltype(kernels::pad::Params::out)>;

// Neighbouring axes of x as the kernel sees them.
struct Axis {
  int64_t length = 1, out = 1, before = 0;
  bool padded() const { return length != out || before != 0; }
};

// Axes joined where the padding allows it: those without padding and, in modes that treat a padded axis as
// one run of elements, also a padded axis with those after it. At least one.
std::vector<Axis> joined_axes(const std::vector<int64_t>& dims, const Pad& pad) {
  const bool runs = pad.mode == PadMode::constant || pad.mode == PadMode::wrap;
  std::vector<Axis> axes;
  for (size_t a = 0; a < dims.size(); ++a) {
    const Axis axis{dims[a], dims[a] + pad.before[a] + pad.after[a], pad.before[a]};
    if (!axes.empty() && !axis.padded() && (runs || !axes.back().padded())) {
      axes.back().length *= axis.length;
      axes.back().out *= axis.length;
      axes.back().before *= axis.length;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({});
  return axes;
}

void lower_pad(Lowering& l, const Operand& x, const Operand& y, const Pad& pad) {
  const std::vector<Axis> axes = joined_axes(x.view.dims, pad);
  if (axes.size() > kAxes) {
    // More than the kernel walks: pad the second half of the axes first, into scratch memory.
    Pad first = pad;
    Pad second = pad;
    std::vector<int64_t> dims = x.view.dims;
    for (size_t a = 0; a < dims.size(); ++a) {
      Pad& other = a < dims.size() / 2 ? first : second;
      other.before[a] = other.after[a] = 0;
      dims[a] += first.before[a] + first.after[a];
    }
    const Operand middle = l.scratch(y.dtype, dims);
    lower_pad(l, x, middle, first);
    lower_pad(l, middle, y, second);
    return;
  }
  kernels::pad::Params params = {.value = value_bits(y.dtype, pad.value)};
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[axes.size() - 1 - i];  // the kernel has the last axis first
    params.out[i] = to_u32(to_i32(axis.out));
    params.length[i] = to_i32(axis.length);
    params.before[i] = to_i32(axis.before);
  }
  l.flat<kernels::pad>({.x = x.with_view(x.view, x.view.rank()), .y = y}, params,
                       {.AXES = static_cast<uint32_t>(axes.size()), .MODE = static_cast<uint32_t>(pad.mode)});
}

}  // namespace

void Pad::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  Operand x = l.in(0);
  Pad left = *this;
  for (size_t a = 0; a < before.size() && mode != PadMode::constant; ++a) {
    const Cut cut = cut_axis(*this, a, x.view.dims[a]);
    x.view = x.view.slice(static_cast<int64_t>(a), cut.begin, cut.length);
    left.before[a] = std::max<int64_t>(before[a], 0);
    left.after[a] = std::max<int64_t>(after[a], 0);
  }
  lower_pad(l, x, l.out(), left);
}

Value pad(Value x, std::vector<int64_t> before, std::vector<int64_t> after, PadMode mode, double value) {
  auto op = std::make_shared<Pad>();
  op->before = std::move(before);
  op->after = std::move(after);
  op->mode = mode;
  op->value = value;
  return add_node(op, {x});
}

namespace ops {
void register_pad(OpTable& table) {
  table.add<Pad>(
      {.formula = "x with elements around it: a value, x mirrored, its ends or x again; negative numbers "
                  "first cut x",
       .operands = "x: what is padded",
       .attributes =
           "before: how many elements are added at the beginning of each axis, or cut off if negative\n"
           "after: how many are added at the end of each axis, likewise\n"
           "mode: whether what is added is value, x mirrored without repeating its ends, its end elements, "
           "or x over again\n"
           "value: the element that is added, if the mode is constant",
       .outputs = "y: x with the added elements",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"pad"},
       .samples = {
           "pad(T[3,17]) {before=[1,2], after=[0,3], value=1}",
           "pad(T[2,3,5,7]) {before=[0,0,1,2], after=[0,0,3,0]}",
           "pad(T[3,5]) {before=[2,4], after=[1,7], mode=\"reflect\"}",
           "pad(T[1,3]) {before=[2,1], after=[1,9], mode=\"reflect\"}",
           "pad(T[3,5,2]) {before=[0,2,0], after=[4,1,0], mode=\"edge\"}",
           "pad(T[3,5,2]) {before=[7,2,0], after=[0,11,0], mode=\"wrap\"}",
           "pad(T[5,7]) {before=[-1,2], after=[1,-3], value=1}",
           "pad(T[5,6]) {before=[-2,3], after=[3,-4], mode=\"reflect\"}",
           "pad(T[4,6]) {before=[-2,1], after=[5,-4], mode=\"wrap\"}", "pad(T[257]) {before=[-3], after=[3]}",
           "pad(T[]) {before=[], after=[]}", "pad(T[0,3]) {before=[1,0], after=[1,0], value=1}",
           "pad(T[3]) {before=[-2], after=[-1]}", "pad(T[65537]) {before=[3], after=[1], mode=\"wrap\"}",
           "pad(T[257,257]) {before=[1,1], after=[1,1]}",
           "pad(T[2,1,2,1,2,1,2]) {before=[1,1,1,1,1,1,1], after=[0,1,0,1,0,1,0], value=1}",
           "pad(T[2,1,2,1,2,1,2,1,2]) {before=[1,1,1,1,1,1,1,1,1], after=[0,1,0,1,0,1,0,1,0], value=1}"}});
}
}  // namespace ops

}  // namespace rlx
