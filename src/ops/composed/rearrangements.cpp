// Functions that put elements in another order by means of views and copies.
#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "ops/composed/composite.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

int64_t axis_in(std::string_view function, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    fail("{}: there is no axis {} in a tensor of rank {}", function, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

// Nothing is left of `d` when it is divided by n, whatever the symbols.
Dim divided(std::string_view function, const Dim& d, int64_t n) {
  if (n < 1) fail("{}: the block size is {}; it must be at least 1", function, n);
  const std::optional<Dim> q = Dim::exact_div(d, n);
  if (!q) fail("{}: {} cannot be divided evenly into blocks of {}", function, d.text(), n);
  return *q;
}

void expect_image(std::string_view function, const Value& x, int64_t least) {
  if (x.shape().rank() < least)
    fail("{}: x {} must have at least {} axes", function, x.shape().text(), least);
}

// The axes before the last three, and what follows.
Shape with_leading(const Value& x, std::initializer_list<Dim> last) {
  Shape out;
  for (int64_t i = 0; i < x.shape().rank() - 3; ++i) out.push_back(x.shape()[i]);
  for (const Dim& d : last) out.push_back(d);
  return out;
}

// The leading axes stay, the last ones are in this order, counted from their first.
Value permute_last(const Value& x, std::vector<int64_t> order) {
  const int64_t lead = x.shape().rank() - std::ssize(order);
  std::vector<int64_t> perm(static_cast<size_t>(lead));
  std::iota(perm.begin(), perm.end(), 0);
  for (const int64_t i : order) perm.push_back(lead + i);
  return transpose(x, perm);
}

Value to_space(std::string_view function, const Value& x, int64_t block, DepthOrder order) {
  const int64_t rank = x.shape().rank();
  const Dim height = x.shape()[rank - 2];
  const Dim width = x.shape()[rank - 1];
  const Dim depth = divided(function, divided(function, x.shape()[rank - 3], block), block);
  const bool first = order == DepthOrder::dcr;
  const Value apart = first ? reshape(x, with_leading(x, {block, block, depth, height, width}))
                            : reshape(x, with_leading(x, {depth, block, block, height, width}));
  const Value moved =
      permute_last(apart, first ? std::vector<int64_t>{2, 3, 0, 4, 1} : std::vector<int64_t>{0, 3, 1, 4, 2});
  return reshape(moved, with_leading(x, {depth, height * Dim(block), width * Dim(block)}));
}

Value to_depth(std::string_view function, const Value& x, int64_t block, DepthOrder order) {
  const int64_t rank = x.shape().rank();
  const Dim depth = x.shape()[rank - 3];
  const Dim height = divided(function, x.shape()[rank - 2], block);
  const Dim width = divided(function, x.shape()[rank - 1], block);
  const Value apart = reshape(x, with_leading(x, {depth, height, block, width, block}));
  const bool first = order == DepthOrder::dcr;
  const Value moved =
      permute_last(apart, first ? std::vector<int64_t>{2, 4, 0, 1, 3} : std::vector<int64_t>{0, 2, 4, 1, 3});
  return reshape(moved, with_leading(x, {depth * Dim(block * block), height, width}));
}

}  // namespace

Value depth_to_space(Value x, int64_t block, DepthOrder order) {
  expect_image("depth_to_space", x, 4);
  return to_space("depth_to_space", x, block, order);
}
Value space_to_depth(Value x, int64_t block, DepthOrder order) {
  expect_image("space_to_depth", x, 4);
  return to_depth("space_to_depth", x, block, order);
}
Value pixel_shuffle(Value x, int64_t factor) {
  expect_image("pixel_shuffle", x, 3);
  return to_space("pixel_shuffle", x, factor, DepthOrder::crd);
}
Value pixel_unshuffle(Value x, int64_t factor) {
  expect_image("pixel_unshuffle", x, 3);
  return to_depth("pixel_unshuffle", x, factor, DepthOrder::crd);
}

Value flip(Value x, std::vector<int64_t> axes) {
  for (const int64_t a : axes) {
    const int64_t axis = axis_in("flip", a, x.shape().rank());
    const Dim length = x.shape()[axis];
    if (!length.is(0)) x = slice(x, axis, length - Dim(1), length, -1);
  }
  return x;
}

Value roll(Value x, std::vector<int64_t> shifts, std::vector<int64_t> axes) {
  if (shifts.size() != axes.size()) fail("roll: it has {} shifts for {} axes", shifts.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axis_in("roll", axes[i], x.shape().rank());
    const Dim length = x.shape()[axis];
    if (length.is(0)) continue;
    // The length of what comes to the front. Where it is a symbol, the shift must be shorter than the axis.
    Dim front = shifts[i] >= 0 ? Dim(shifts[i]) : length + Dim(shifts[i]);
    if (length.is_static()) front = ((shifts[i] % length.value()) + length.value()) % length.value();
    if (front.is(0)) continue;
    const Dim back = length - front;
    x = concat({slice(x, axis, back, front), slice(x, axis, 0, back)}, axis);
  }
  return x;
}

// [a, b] repeated [m, n] times is [1, a, 1, b] expanded to [m, a, n, b].
Value tile(Value x, std::vector<Dim> repeats) {
  Shape from = x.shape();
  while (from.rank() < std::ssize(repeats)) from.insert(0, 1);
  const auto missing = static_cast<size_t>(from.rank()) - repeats.size();
  repeats.insert(repeats.begin(), missing, Dim(1));
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
  return reshape(expand(reshape(x, apart), repeated), to);
}

Value center_crop_pad(Value x, std::vector<Dim> sizes, std::vector<int64_t> axes) {
  const int64_t rank = x.shape().rank();
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (sizes.size() != axes.size())
    fail("center_crop_pad: it has {} sizes for {} axes", sizes.size(), axes.size());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0);
  std::vector<int64_t> after = before;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axis_in("center_crop_pad", axes[i], rank);
    const Dim length = x.shape()[axis];
    const Dim more = sizes[i] - length;
    if (Dim::compare(length, sizes[i]).value_or(-1) > 0) {
      x = slice(x, axis, (length - sizes[i]).floor_div(2), sizes[i]);
    } else if (more.is_static()) {
      before[static_cast<size_t>(axis)] = more.value() / 2;
      after[static_cast<size_t>(axis)] = more.value() - more.value() / 2;
    } else {
      fail("center_crop_pad: axis {} of {} becomes {}; whether that is longer depends on symbols", axis,
           x.shape().text(), sizes[i].text());
    }
  }
  const auto some = [](const std::vector<int64_t>& list) {
    return std::ranges::any_of(list, [](int64_t n) { return n != 0; });
  };
  return some(before) || some(after) ? pad(x, before, after) : x;
}

namespace {

struct Flip final : Composite<Flip> {
  static constexpr auto kName = "flip";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> axes;
  void visit_attributes(AttributeVisitor& v) override { v("axes", axes); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {flip(in[0], axes)}; }
};
struct Roll final : Composite<Roll> {
  static constexpr auto kName = "roll";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> shifts, axes;
  void visit_attributes(AttributeVisitor& v) override {
    v("shifts", shifts);
    v("axes", axes);
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {roll(in[0], shifts, axes)}; }
};
struct Tile final : Composite<Tile> {
  static constexpr auto kName = "tile";
  static constexpr int64_t kLeast = 1, kMost = 1;
  Shape repeats;
  void visit_attributes(AttributeVisitor& v) override { v("repeats", repeats); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {tile(in[0], {repeats.begin(), repeats.end()})};
  }
};
struct CenterCropPad final : Composite<CenterCropPad> {
  static constexpr auto kName = "center_crop_pad";
  static constexpr int64_t kLeast = 1, kMost = 1;
  Shape sizes;
  std::vector<int64_t> axes;
  void visit_attributes(AttributeVisitor& v) override {
    v("sizes", sizes);
    v("axes", axes, {});
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {center_crop_pad(in[0], {sizes.begin(), sizes.end()}, axes)};
  }
};

template <class Self>
struct Blocks : Composite<Self> {
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t block = 2;
  DepthOrder order = DepthOrder::dcr;
  void visit_attributes(AttributeVisitor& v) override {
    v("block", block);
    v.choice("order", order, {"dcr", "crd"}, std::optional(DepthOrder::dcr));
  }
};
struct DepthToSpace final : Blocks<DepthToSpace> {
  static constexpr auto kName = "depth_to_space";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {depth_to_space(in[0], block, order)};
  }
};
struct SpaceToDepth final : Blocks<SpaceToDepth> {
  static constexpr auto kName = "space_to_depth";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {space_to_depth(in[0], block, order)};
  }
};
template <class Self>
struct Shuffled : Composite<Self> {
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t factor = 2;
  void visit_attributes(AttributeVisitor& v) override { v("factor", factor); }
};
struct PixelShuffle final : Shuffled<PixelShuffle> {
  static constexpr auto kName = "pixel_shuffle";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {pixel_shuffle(in[0], factor)};
  }
};
struct PixelUnshuffle final : Shuffled<PixelUnshuffle> {
  static constexpr auto kName = "pixel_unshuffle";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {pixel_unshuffle(in[0], factor)};
  }
};

}  // namespace

namespace ops {
void register_rearrangements(OpTable& table) {
  add_composite<Flip>(
      table, "x in reverse order along the axes",
      {.operands = "x: what is reversed", .attributes = "axes: along which to reverse the order"}, kAnyType,
      {"(T[3,17]) {axes=[-1]}", "(T[2,5,7]) {axes=[0,2]}", "(T[0,4]) {axes=[1]}"});
  add_composite<Roll>(
      table, "x moved towards the end of the axes; what leaves an end comes back at the other",
      {.operands = "x: what is moved",
       .attributes = "shifts: how far, for each of the axes; negative: towards the beginning\n"
                     "axes: along which to move"},
      kAnyType, {"(T[3,17]) {shifts=[5], axes=[1]}", "(T[2,5,7]) {shifts=[-1,9], axes=[0,2]}"});
  add_composite<Tile>(
      table, "x again and again along each axis",
      {.operands = "x: what is repeated",
       .attributes = "repeats: how often along each axis, aligned at the last; more numbers than "
                     "axes give x new leading axes"},
      kAnyType, {"(T[3,5]) {repeats=[2,3]}", "(T[4]) {repeats=[2,1,3]}", "(T[2,3]) {repeats=[2]}"});
  add_composite<CenterCropPad>(table, "the middle of x, or x in the middle of zeros",
                               {.operands = "x: what is cropped or padded",
                                .attributes = "sizes: those of the result, for each of the axes\n"
                                              "axes: which have new sizes; empty: all"},
                               kAnyType, {"(T[5,8]) {sizes=[3,11]}", "(T[2,9,4]) {sizes=[4], axes=[1]}"});
  add_composite<DepthToSpace>(
      table, "channels of x [batch, channels, height, width] as blocks of pixels",
      {.operands = "x: [batch, channels, height, width]",
       .attributes = "block: the height and width of a block\n"
                     "order: what channels consist of: [block, block, depth] (dcr) or [depth, "
                     "block, block] (crd)",
       .outputs = "y: [batch, channels / block^2, height * block, width * block]"},
      kAnyType, {"(T[2,8,3,5]) {block=2}", "(T[1,18,2,2]) {block=3, order=\"crd\"}"});
  add_composite<SpaceToDepth>(
      table, "blocks of pixels of x [batch, channels, height, width] as channels",
      {.operands = "x: [batch, channels, height, width]",
       .attributes = "block: the height and width of a block\n"
                     "order: what channels consist of: [block, block, depth] (dcr) or [depth, "
                     "block, block] (crd)",
       .outputs = "y: [batch, channels * block^2, height / block, width / block]"},
      kAnyType, {"(T[2,3,4,6]) {block=2}", "(T[1,2,6,3]) {block=3, order=\"crd\"}"});
  add_composite<PixelShuffle>(table, "depth_to_space in PyTorch's order, for any leading axes",
                              {.operands = "x: [.., channels, height, width]",
                               .attributes = "factor: how many times as high and wide the result is",
                               .outputs = "y: [.., channels / factor^2, height * factor, width * factor]"},
                              kAnyType, {"(T[3,8,3,5]) {factor=2}", "(T[4,2,2]) {factor=2}"});
  add_composite<PixelUnshuffle>(table, "space_to_depth in PyTorch's order, for any leading axes",
                                {.operands = "x: [.., channels, height, width]",
                                 .attributes = "factor: how many times as high and wide x is",
                                 .outputs = "y: [.., channels * factor^2, height / factor, width / factor]"},
                                kAnyType, {"(T[3,2,4,6]) {factor=2}"});
}
}  // namespace ops

}  // namespace rlx
