// Functions of other files by name, for graph texts and `rlx ops`.
#include "ops/composed/composite.h"
#include "ops/machinery/op_table.h"
#include "ops/reductions/argminmax.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"

namespace rlx {

Value hardmax(Value x, int64_t axis) {
  const int64_t rank = x.shape().rank();
  if (axis < -rank || axis >= rank) fail("hardmax: there is no axis {} in a tensor of rank {}", axis, rank);
  const int64_t along = axis < 0 ? axis + rank : axis;
  Shape line(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
  line[along] = x.shape()[along];
  const Value index = reshape(range(x.graph(), x.shape()[along]), line);
  const auto largest = std::make_shared<ArgMinMax>(true);
  largest->axis = along;
  largest->keepdims = true;
  largest->or_none = true;  // nothing is compared with it then
  return cast(equal(add_node(largest, {x}), index), x.dtype());
}

// Computed in f32 and rounded once.
Value lp_normalize(Value x, int64_t p, int64_t axis) {
  if (p != 1 && p != 2) fail("lp_normalize: p is {}; it must be 1 or 2", p);
  const Value wide = cast(x, DType::f32);
  const Value norm = p == 1 ? l1_norm(wide, {axis}, true) : l2_norm(wide, {axis}, true);
  return cast(wide / norm, x.dtype());
}

Value mean_variance_norm(Value x, std::vector<int64_t> axes, double eps) {
  const Value wide = cast(x, DType::f32);
  const Value centered = wide - mean(wide, axes, true);
  const Value deviation = sqrt(mean(square(centered), std::move(axes), true));
  return cast(centered / (deviation + eps), x.dtype());
}

namespace {

using Inputs = std::vector<Value>;

struct Flip final : Composite<Flip> {
  static constexpr auto kName = "flip";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> axes;
  void visit_attributes(AttributeVisitor& v) override { v("axes", axes); }
  Inputs make(Graph&, const Inputs& in) const { return {flip(in[0], axes)}; }
};
struct Roll final : Composite<Roll> {
  static constexpr auto kName = "roll";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> shifts, axes;
  void visit_attributes(AttributeVisitor& v) override {
    v("shifts", shifts);
    v("axes", axes);
  }
  Inputs make(Graph&, const Inputs& in) const { return {roll(in[0], shifts, axes)}; }
};
struct Tile final : Composite<Tile> {
  static constexpr auto kName = "tile";
  static constexpr int64_t kLeast = 1, kMost = 1;
  Shape repeats;
  void visit_attributes(AttributeVisitor& v) override { v("repeats", repeats); }
  Inputs make(Graph&, const Inputs& in) const { return {tile(in[0], {repeats.begin(), repeats.end()})}; }
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
  Inputs make(Graph&, const Inputs& in) const {
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
  Inputs make(Graph&, const Inputs& in) const { return {depth_to_space(in[0], block, order)}; }
};
struct SpaceToDepth final : Blocks<SpaceToDepth> {
  static constexpr auto kName = "space_to_depth";
  Inputs make(Graph&, const Inputs& in) const { return {space_to_depth(in[0], block, order)}; }
};
template <class Self>
struct Shuffled : Composite<Self> {
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t factor = 2;
  void visit_attributes(AttributeVisitor& v) override { v("factor", factor); }
};
struct PixelShuffle final : Shuffled<PixelShuffle> {
  static constexpr auto kName = "pixel_shuffle";
  Inputs make(Graph&, const Inputs& in) const { return {pixel_shuffle(in[0], factor)}; }
};
struct PixelUnshuffle final : Shuffled<PixelUnshuffle> {
  static constexpr auto kName = "pixel_unshuffle";
  Inputs make(Graph&, const Inputs& in) const { return {pixel_unshuffle(in[0], factor)}; }
};

Tolerance norm_tolerance(const Shape& x) {
  return {.ulps = 64, .terms = static_cast<double>(x.elements().value()), .scale = 8};
}

struct InstanceNorm final : Composite<InstanceNorm> {
  static constexpr auto kName = "instance_norm";
  static constexpr int64_t kLeast = 1, kMost = 3;
  double eps = 1e-5;
  ConvLayout layout = ConvLayout::channels_first;
  void visit_attributes(AttributeVisitor& v) override {
    v("eps", eps, 1e-5);
    v.choice("layout", layout, {"channels_first", "channels_last"},
             std::optional(ConvLayout::channels_first));
  }
  Inputs make(Graph&, const Inputs& in) const { return {instance_norm(in[0], in[1], in[2], eps, layout)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};
struct LpNormalize final : Composite<LpNormalize> {
  static constexpr auto kName = "lp_normalize";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t p = 2, axis = -1;
  void visit_attributes(AttributeVisitor& v) override {
    v("p", p, 2);
    v("axis", axis, -1);
  }
  Inputs make(Graph&, const Inputs& in) const { return {lp_normalize(in[0], p, axis)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};
struct MeanVarianceNorm final : Composite<MeanVarianceNorm> {
  static constexpr auto kName = "mean_variance_norm";
  static constexpr int64_t kLeast = 1, kMost = 1;
  std::vector<int64_t> axes;
  double eps = 1e-9;
  void visit_attributes(AttributeVisitor& v) override {
    v("axes", axes, {});
    v("eps", eps, 1e-9);
  }
  Inputs make(Graph&, const Inputs& in) const { return {mean_variance_norm(in[0], axes, eps)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return norm_tolerance(inputs[0].shape);
  }
};

struct OneHot final : Composite<OneHot> {
  static constexpr auto kName = "one_hot";
  static constexpr int64_t kLeast = 3, kMost = 3;
  Dim depth = 1;
  int64_t axis = -1;
  void visit_attributes(AttributeVisitor& v) override {
    v("depth", depth);
    v("axis", axis, -1);
  }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 0 ? values_between(0, depth - 1) : std::nullopt;
  }
  Inputs make(Graph&, const Inputs& in) const { return {one_hot(in[0], depth, in[1], in[2], axis)}; }
};
template <class Self>
struct Triangle : Composite<Self> {
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t k = 0;
  void visit_attributes(AttributeVisitor& v) override { v("k", k, 0); }
};
struct Triu final : Triangle<Triu> {
  static constexpr auto kName = "triu";
  Inputs make(Graph&, const Inputs& in) const { return {triu(in[0], k)}; }
};
struct Tril final : Triangle<Tril> {
  static constexpr auto kName = "tril";
  Inputs make(Graph&, const Inputs& in) const { return {tril(in[0], k)}; }
};
struct Eye final : Composite<Eye> {
  static constexpr auto kName = "eye";
  static constexpr int64_t kLeast = 0, kMost = 0;
  Dim rows = 1, columns = 1;
  int64_t k = 0;
  DType dtype = DType::f32;
  void visit_attributes(AttributeVisitor& v) override {
    v("rows", rows);
    v("columns", columns);
    v("k", k, 0);
    v("dtype", dtype, DType::f32);
  }
  Inputs make(Graph& graph, const Inputs&) const { return {eye(graph, rows, columns, k, dtype)}; }
};
struct ReverseSequence final : Composite<ReverseSequence> {
  static constexpr auto kName = "reverse_sequence";
  static constexpr int64_t kLeast = 2, kMost = 2;
  int64_t axis = 0, batch_axis = 1;
  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, 0);
    v("batch_axis", batch_axis, 1);
  }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    const Shape& x = inputs[0].shape;
    return input == 1 ? values_between(1, x[normal_axis(axis, x.rank())]) : std::nullopt;
  }
  Inputs make(Graph&, const Inputs& in) const { return {reverse_sequence(in[0], in[1], axis, batch_axis)}; }
};
struct Hardmax final : Composite<Hardmax> {
  static constexpr auto kName = "hardmax";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t axis = -1;
  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, -1); }
  Inputs make(Graph&, const Inputs& in) const { return {hardmax(in[0], axis)}; }
};
struct BinCount final : Composite<BinCount> {
  static constexpr auto kName = "bincount";
  static constexpr int64_t kLeast = 1, kMost = 2;
  int64_t size = 1;
  void visit_attributes(AttributeVisitor& v) override { v("size", size); }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 0 ? values_between(0, size - 1) : std::nullopt;
  }
  Inputs make(Graph&, const Inputs& in) const { return {bincount(in[0], size, in[1])}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = 1, .terms = static_cast<double>(inputs[0].shape.elements().value()), .scale = 40};
  }
};
// In a text the results have the sizes of their upper bounds; `nonzero` with a count gives true ones.
struct Compress final : Composite<Compress> {
  static constexpr auto kName = "compress";
  static constexpr int64_t kLeast = 2, kMost = 2;
  int64_t axis = 0;
  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, 0); }
  Inputs make(Graph&, const Inputs& in) const {
    const auto [values, count] = compress(in[0], in[1], axis);
    return {values, count};
  }
};
struct MaskedSelect final : Composite<MaskedSelect> {
  static constexpr auto kName = "masked_select";
  static constexpr int64_t kLeast = 2, kMost = 2;
  Inputs make(Graph&, const Inputs& in) const {
    const auto [values, count] = masked_select(in[0], in[1]);
    return {values, count};
  }
};
struct Histogram final : Composite<Histogram> {
  static constexpr auto kName = "histogram";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t bins = 1;
  double low = 0, high = 1;
  void visit_attributes(AttributeVisitor& v) override {
    v("bins", bins);
    v("low", low, 0);
    v("high", high, 1);
  }
  Inputs make(Graph&, const Inputs& in) const { return {histogram(in[0], bins, low, high)}; }
};
struct Einsum final : Composite<Einsum> {
  static constexpr auto kName = "einsum";
  static constexpr int64_t kLeast = 1, kMost = kMany;
  std::string equation;
  void visit_attributes(AttributeVisitor& v) override { v("equation", equation); }
  Inputs make(Graph&, const Inputs& in) const { return {einsum(equation, in)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    double terms = 1;
    for (const TensorType& t : inputs)
      terms = std::max(terms, static_cast<double>(t.shape.elements().value()));
    return {.ulps = 4, .terms = terms, .scale = 4 * std::sqrt(terms)};
  }
};

}  // namespace

namespace ops {
void register_composites(OpTable& table) {
  const std::string any = "f32 f16 bf16 i32 u32 i64 i8 u8";
  const std::string floats = "f32 f16 bf16";
  struct Lines {
    std::string_view operands;
    std::string_view attributes = "";
    std::string_view outputs = "y: the result";
  };
  const auto add = [&]<class Op>(Op, std::string formula, const Lines& lines, std::string types,
                                 std::vector<std::string> samples) {
    for (std::string& s : samples) s = std::string(Op::kName) + s;
    table.add<Op>({.formula = std::move(formula),
                   .operands = lines.operands,
                   .attributes = lines.attributes,
                   .outputs = lines.outputs,
                   .types = std::move(types),
                   .variants = {"expanded"},
                   .samples = std::move(samples)});
  };
  add(Flip(), "x in reverse order along the axes",
      {.operands = "x: what is reversed", .attributes = "axes: along which to reverse the order"}, any,
      {"(T[3,17]) {axes=[-1]}", "(T[2,5,7]) {axes=[0,2]}", "(T[0,4]) {axes=[1]}"});
  add(Roll(), "x moved towards the end of the axes; what leaves an end comes back at the other",
      {.operands = "x: what is moved",
       .attributes = "shifts: how far, for each of the axes; negative: towards the beginning\n"
                     "axes: along which to move"},
      any, {"(T[3,17]) {shifts=[5], axes=[1]}", "(T[2,5,7]) {shifts=[-1,9], axes=[0,2]}"});
  add(Tile(), "x again and again along each axis",
      {.operands = "x: what is repeated",
       .attributes = "repeats: how often along each axis, aligned at the last; more numbers than "
                     "axes give x new leading axes"},
      any, {"(T[3,5]) {repeats=[2,3]}", "(T[4]) {repeats=[2,1,3]}", "(T[2,3]) {repeats=[2]}"});
  add(CenterCropPad(), "the middle of x, or x in the middle of zeros",
      {.operands = "x: what is cropped or padded",
       .attributes = "sizes: those of the result, for each of the axes\n"
                     "axes: which have new sizes; empty: all"},
      any, {"(T[5,8]) {sizes=[3,11]}", "(T[2,9,4]) {sizes=[4], axes=[1]}"});
  add(DepthToSpace(), "channels of x [batch, channels, height, width] as blocks of pixels",
      {.operands = "x: [batch, channels, height, width]",
       .attributes = "block: the height and width of a block\n"
                     "order: what channels consist of: [block, block, depth] (dcr) or [depth, "
                     "block, block] (crd)",
       .outputs = "y: [batch, channels / block^2, height * block, width * block]"},
      any, {"(T[2,8,3,5]) {block=2}", "(T[1,18,2,2]) {block=3, order=\"crd\"}"});
  add(SpaceToDepth(), "blocks of pixels of x [batch, channels, height, width] as channels",
      {.operands = "x: [batch, channels, height, width]",
       .attributes = "block: the height and width of a block\n"
                     "order: what channels consist of: [block, block, depth] (dcr) or [depth, "
                     "block, block] (crd)",
       .outputs = "y: [batch, channels * block^2, height / block, width / block]"},
      any, {"(T[2,3,4,6]) {block=2}", "(T[1,2,6,3]) {block=3, order=\"crd\"}"});
  add(PixelShuffle(), "depth_to_space in PyTorch's order, for any leading axes",
      {.operands = "x: [.., channels, height, width]",
       .attributes = "factor: how many times as high and wide the result is",
       .outputs = "y: [.., channels / factor^2, height * factor, width * factor]"},
      any, {"(T[3,8,3,5]) {factor=2}", "(T[4,2,2]) {factor=2}"});
  add(PixelUnshuffle(), "space_to_depth in PyTorch's order, for any leading axes",
      {.operands = "x: [.., channels, height, width]",
       .attributes = "factor: how many times as high and wide x is",
       .outputs = "y: [.., channels * factor^2, height / factor, width / factor]"},
      any, {"(T[3,2,4,6]) {factor=2}"});
  add(InstanceNorm(), "group_norm with a group for each channel",
      {.operands = "x: [batch, channels, spatial..], or as the layout says\n"
                   "gamma? (float): [channels], factors; ones if left out\n"
                   "beta? (float): [channels], added to that; zeros if left out",
       .attributes = "eps: added to the variance\n"
                     "layout: the order of axes of x and the result"},
      floats, {"(T[2,3,17])", "(T[2,3,5,7], T[3], T[3])", "(T[2,5,7,3], T[3]) {layout=\"channels_last\"}"});
  add(LpNormalize(), "x / (sum |x|^p)^(1/p) along the axis",
      {.operands = "x: what is divided by its norm",
       .attributes = "p: 1 or 2\n"
                     "axis: along which the norm is taken"},
      floats, {"(T[3,17])", "(T[2,5,7]) {p=1, axis=1}"});
  add(MeanVarianceNorm(), "(x - mean) / (sqrt(variance) + eps) over the axes",
      {.operands = "x: what is normalised",
       .attributes = "axes: over which mean and variance are taken; empty: all\n"
                     "eps: added to the root of the variance"},
      floats, {"(T[3,17]) {axes=[1], eps=0.001}", "(T[2,3,5,7]) {axes=[0,2,3], eps=0.001}"});
  add(OneHot(), "on where the index along a new axis is that in indices, else off",
      {.operands = "indices: negative ones count from the end, those outside are nowhere\n"
                   "on (any): a scalar, or broadcast to the result\n"
                   "off (any): likewise, of the same type",
       .attributes = "depth: the length of the new axis\n"
                     "axis: where the new axis is in the result",
       .outputs = "y (any): as indices with the new axis, of the type of on"},
      "i32 i64",
      {"(T[3,5] in -4..6, f32[], f32[]) {depth=4}", "(T[17] in 0..3, i32[], i32[]) {depth=4, axis=0}"});
  add(Triu(), "the upper triangle of the last two axes from diagonal k on, else 0",
      {.operands = "x: matrices [.., rows, columns]",
       .attributes = "k: the first diagonal that is kept; 0: the main diagonal, positive: above it"},
      any, {"(T[5,7])", "(T[2,7,5]) {k=-2}", "(T[3,3]) {k=9}"});
  add(Tril(), "the lower triangle of the last two axes up to diagonal k, else 0",
      {.operands = "x: matrices [.., rows, columns]",
       .attributes = "k: the last diagonal that is kept; 0: the main diagonal, positive: above it"},
      any, {"(T[5,7])", "(T[2,7,5]) {k=2}"});
  add(Eye(), "1 on diagonal k, else 0",
      {.operands = "",
       .attributes = "rows: how many rows\n"
                     "columns: how many columns\n"
                     "k: the diagonal of ones; 0: the main diagonal, positive: above it\n"
                     "dtype: the type of the result",
       .outputs = "y (any): [rows, columns]"},
      "f32", {"() {rows=5, columns=7}", "() {rows=3, columns=2, k=-1, dtype=i32}"});
  add(ReverseSequence(),
      "the first lengths[b] elements along the axis in reverse order, for each index b along batch_axis",
      {.operands = "x: what is reversed in part\n"
                   "lengths (integer): a vector, how many elements are reversed for each index "
                   "along batch_axis",
       .attributes = "axis: along which to reverse\n"
                     "batch_axis: the axis that lengths are for"},
      any, {"(T[5,3], i64[3] in 0..5)", "(T[3,7,2], i32[3] in 1..7) {axis=1, batch_axis=0}"});
  add(Hardmax(), "1 at the first of the largest elements along the axis, else 0",
      {.operands = "x: what is compared", .attributes = "axis: along which to compare"}, floats,
      {"(T[3,17])", "(T[2,5,7] in 0..2) {axis=1}", "(T[0,2]) {axis=0}", "(T[0,2])"});
  add(BinCount(), "y[i] = how many elements of x are i, or the sum of their weights",
      {.operands = "x: whole numbers, of any shape\n"
                   "weights? (float integer): as x, what each element counts; 1 if left out",
       .attributes = "size: the size of the result; elements of x that are negative or not below "
                     "it are not counted",
       .outputs = "y (float integer): [size], of the type of weights, or i64"},
      "i32 i64 u8", {"(T[40] in 0..9) {size=8}", "(T[5,13] in 0..9, f32[5,13]) {size=12}"});
  add(Compress(), "the entries of x along the axis for which the condition is true, and their number",
      {.operands = "x: what entries are taken from\n"
                   "condition (bool): a vector, which entries are taken; none past its end",
       .attributes = "axis: along which entries lie",
       .outputs = "values: the entries, with room for all; what follows the first `count` "
                  "means nothing\n"
                  "count (i32): [], how many there are"},
      any,
      {"(T[5,7], bool[5])", "(T[3,17], bool[17]) {axis=-1}", "(T[0,3], bool[2])", "(T[3,4], bool[6])",
       "(T[3,4], bool[0])"});
  add(MaskedSelect(), "the elements of x for which the mask is true, and their number",
      {.operands = "x: what elements are taken from\n"
                   "mask (bool): as x, which elements are taken",
       .outputs = "values: a vector of the elements, with room for all; what follows the "
                  "first `count` means nothing\n"
                  "count (i32): [], how many there are"},
      any, {"(T[257], bool[257])", "(T[3,17], bool[3,17])"});
  add(Histogram(), "how many elements of x lie in each of `bins` intervals of equal length from low to high",
      {.operands = "x: of any shape",
       .attributes = "bins: how many intervals\n"
                     "low: where the first interval begins\n"
                     "high: where the last one ends, included in it",
       .outputs = "y (i64): [bins]"},
      "f32 f16", {"(T[257]) {bins=7, low=-1, high=1}", "(T[3,17]) {bins=1}"});
  add(Einsum(), "Einstein's summation: equation=\"bij,bjk->bik\"",
      {.operands = "inputs...: a tensor for each term of the equation",
       .attributes = "equation: a letter for each axis of the inputs and of the result; letters "
                     "that the result lacks are summed over, and `...` stands for axes that broadcast"},
      floats,
      {"(T[2,5,7], T[2,7,3]) {equation=\"bij,bjk->bik\"}", "(T[5,5]) {equation=\"ii->i\"}",
       "(T[4], T[3]) {equation=\"i,j\"}"});
}
}  // namespace ops

}  // namespace rlx
