// Functions that are made of other ops: masks, which compare indices and are fused with what uses them;
// selections and counts.
#include <algorithm>

#include "base/fail.h"
#include "ops/composed/composite.h"
#include "ops/reductions/argminmax.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/order.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/run_sizes.h"

namespace rlx {
namespace {

// 0, 1, ... along an axis of a tensor of this rank; all other axes are 1.
Value indices_along(Graph& graph, const Dim& size, int64_t axis, int64_t rank, DType dtype = DType::i32) {
  Shape dims(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
  dims[axis] = size;
  return reshape(range(graph, size, 0, 1, dtype), dims);
}

// column - row of a matrix.
Value diagonals(Graph& graph, const Dim& rows, const Dim& columns) {
  return indices_along(graph, columns, 1, 2) - indices_along(graph, rows, 0, 2);
}

int64_t normal(int64_t axis, int64_t rank, std::string_view what) {
  const int64_t normal = axis < 0 ? axis + rank : axis;
  if (normal < 0 || normal >= rank) fail("{}: axis {} is outside of rank {}", what, axis, rank);
  return normal;
}

Value triangle(Value x, int64_t k, bool upper) {
  const Shape& dims = x.shape();
  if (dims.rank() < 2) fail("{}: {} is no matrix", upper ? "triu" : "tril", dims.text());
  const Value diagonal = diagonals(x.graph(), dims[dims.rank() - 2], dims[dims.rank() - 1]);
  const auto bound = static_cast<double>(k);
  return where(upper ? greater_equal(diagonal, bound) : less_equal(diagonal, bound), x, 0);
}

}  // namespace

Value one_hot(Value indices, Dim depth, Value on, Value off, int64_t axis) {
  const int64_t rank = indices.shape().rank() + 1;
  const int64_t at = normal(axis, rank, "one_hot");
  Shape dims = indices.shape();
  dims.insert(at, 1);
  const Value index = reshape(indices, dims);
  const Value along = indices_along(indices.graph(), depth, at, rank, indices.dtype());
  // A negative index counts from the end.
  const Value size = reshape(range(indices.graph(), 1, depth, 1, indices.dtype()), {});
  return where(logical_or(equal(along, index), equal(along, index + size)), on, off);
}

Value triu(Value x, int64_t k) { return triangle(x, k, true); }
Value tril(Value x, int64_t k) { return triangle(x, k, false); }

Value eye(Graph& graph, Dim rows, Dim columns, int64_t k, DType dtype) {
  return cast(equal(diagonals(graph, rows, columns), static_cast<double>(k)), dtype);
}

// Element i of a sequence of n comes from n - 1 - i, if that is one of it.
Value reverse_sequence(Value x, Value lengths, int64_t axis, int64_t batch_axis) {
  const int64_t rank = x.shape().rank();
  const int64_t along = normal(axis, rank, "reverse_sequence");
  const int64_t batch = normal(batch_axis, rank, "reverse_sequence");
  Shape by_batch(std::vector<Dim>(static_cast<size_t>(rank), Dim(1)));
  by_batch[batch] = x.shape()[batch];
  const Value length = reshape(cast(lengths, DType::i32), by_batch);
  const Value i = indices_along(x.graph(), x.shape()[along], along, rank);
  const Value source = where(less(i, length), length - 1 - i, i);
  return gather_elements(x, expand(source, x.shape()), along);
}

Selected compress(Value x, Value condition, int64_t axis, std::string symbol, int64_t capacity) {
  const int64_t along = normal(axis, x.shape().rank(), "compress");
  // What is beyond the end of the condition is left out; what is beyond that of x does not count.
  const Dim all = x.shape()[along];
  const Dim given = condition.shape().elements();
  if (!(given == all) && !(given.is_static() && all.is_static() && given.value() < all.value()))
    condition = slice(condition, 0, 0, Dim::min(given, all));
  const auto [indices, count] = nonzero(condition, std::move(symbol), capacity);
  return {gather(x, reshape(indices, {indices.shape()[1]}), along), count};
}

Selected masked_select(Value x, Value mask, std::string symbol, int64_t capacity) {
  if (!(x.shape() == mask.shape()))
    fail("masked_select: x {} and the mask {} must have the same shape", x.shape().text(),
         mask.shape().text());
  const Shape flat{x.shape().elements()};
  return compress(reshape(x, flat), reshape(mask, flat), 0, std::move(symbol), capacity);
}

// What is outside is counted in an element that is cut off.
Value bincount(Value x, int64_t size, Value weights) {
  const Value index = cast(reshape(x, {x.shape().elements()}), DType::i32);
  const auto beyond = static_cast<double>(size);
  const Value inside = logical_and(greater_equal(index, 0), less(index, beyond));
  Graph& graph = x.graph();
  const DType dtype = weights ? weights.dtype() : DType::i64;
  const Value updates = weights ? reshape(weights, index.shape())
                                : expand(graph.constant(Tensor::full(DType::i64, {1}, 1)), index.shape());
  const Value zeros = expand(graph.constant(Tensor::full(dtype, {1}, 0)), {size + 1});
  const Value counts =
      scatter_elements(zeros, where(inside, index, beyond), updates, 0, ScatterReduction::add);
  return slice(counts, 0, 0, size);
}

Value histogram(Value x, int64_t bins, double low, double high) {
  if (bins < 1 || !(low < high)) fail("histogram: there are {} bins from {} to {}", bins, low, high);
  std::vector<double> edges;
  for (int64_t i = 0; i <= bins; ++i)
    edges.push_back(low + (high - low) * static_cast<double>(i) / static_cast<double>(bins));
  edges.back() = high;
  const Value row = reshape(x, {x.shape().elements()});
  const Value sorted = x.graph().constant(Tensor::from_doubles(x.dtype(), {bins + 1}, edges));
  // The last interval has its upper end too.
  const Value bin = searchsorted(sorted, row, true) - 1;
  return bincount(where(equal(row, high), static_cast<double>(bins - 1), bin), bins);
}

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

namespace {

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
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {one_hot(in[0], depth, in[1], in[2], axis)};
  }
};
template <class Self>
struct Triangle : Composite<Self> {
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t k = 0;
  void visit_attributes(AttributeVisitor& v) override { v("k", k, 0); }
};
struct Triu final : Triangle<Triu> {
  static constexpr auto kName = "triu";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {triu(in[0], k)}; }
};
struct Tril final : Triangle<Tril> {
  static constexpr auto kName = "tril";
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {tril(in[0], k)}; }
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
  std::vector<Value> make(Graph& graph, const std::vector<Value>&) const {
    return {eye(graph, rows, columns, k, dtype)};
  }
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
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {reverse_sequence(in[0], in[1], axis, batch_axis)};
  }
};
struct Hardmax final : Composite<Hardmax> {
  static constexpr auto kName = "hardmax";
  static constexpr int64_t kLeast = 1, kMost = 1;
  int64_t axis = -1;
  void visit_attributes(AttributeVisitor& v) override { v("axis", axis, -1); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {hardmax(in[0], axis)}; }
};
struct BinCount final : Composite<BinCount> {
  static constexpr auto kName = "bincount";
  static constexpr int64_t kLeast = 1, kMost = 2;
  int64_t size = 1;
  void visit_attributes(AttributeVisitor& v) override { v("size", size); }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == 0 ? values_between(0, size - 1) : std::nullopt;
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {bincount(in[0], size, in[1])};
  }
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
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    const auto [values, count] = compress(in[0], in[1], axis);
    return {values, count};
  }
};
struct MaskedSelect final : Composite<MaskedSelect> {
  static constexpr auto kName = "masked_select";
  static constexpr int64_t kLeast = 2, kMost = 2;
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
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
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {histogram(in[0], bins, low, high)};
  }
};

}  // namespace

namespace ops {
void register_masks(OpTable& table) {
  add_composite<OneHot>(
      table, "on where the index along a new axis is that in indices, else off",
      {.operands = "indices: negative ones count from the end, those outside are nowhere\n"
                   "on (any): a scalar, or broadcast to the result\n"
                   "off (any): likewise, of the same type",
       .attributes = "depth: the length of the new axis\n"
                     "axis: where the new axis is in the result",
       .outputs = "y (any): as indices with the new axis, of the type of on"},
      "i32 i64",
      {"(T[3,5] in -4..6, f32[], f32[]) {depth=4}", "(T[17] in 0..3, i32[], i32[]) {depth=4, axis=0}"});
  add_composite<Triu>(
      table, "the upper triangle of the last two axes from diagonal k on, else 0",
      {.operands = "x: matrices [.., rows, columns]",
       .attributes = "k: the first diagonal that is kept; 0: the main diagonal, positive: above it"},
      kAnyType, {"(T[5,7])", "(T[2,7,5]) {k=-2}", "(T[3,3]) {k=9}"});
  add_composite<Tril>(
      table, "the lower triangle of the last two axes up to diagonal k, else 0",
      {.operands = "x: matrices [.., rows, columns]",
       .attributes = "k: the last diagonal that is kept; 0: the main diagonal, positive: above it"},
      kAnyType, {"(T[5,7])", "(T[2,7,5]) {k=2}"});
  add_composite<Eye>(table, "1 on diagonal k, else 0",
                     {.operands = "",
                      .attributes = "rows: how many rows\n"
                                    "columns: how many columns\n"
                                    "k: the diagonal of ones; 0: the main diagonal, positive: above it\n"
                                    "dtype: the type of the result",
                      .outputs = "y (any): [rows, columns]"},
                     "f32", {"() {rows=5, columns=7}", "() {rows=3, columns=2, k=-1, dtype=i32}"});
  add_composite<ReverseSequence>(
      table,
      "the first lengths[b] elements along the axis in reverse order, for each index b along batch_axis",
      {.operands = "x: what is reversed in part\n"
                   "lengths (integer): a vector, how many elements are reversed for each index "
                   "along batch_axis",
       .attributes = "axis: along which to reverse\n"
                     "batch_axis: the axis that lengths are for"},
      kAnyType, {"(T[5,3], i64[3] in 0..5)", "(T[3,7,2], i32[3] in 1..7) {axis=1, batch_axis=0}"});
  add_composite<Hardmax>(table, "1 at the first of the largest elements along the axis, else 0",
                         {.operands = "x: what is compared", .attributes = "axis: along which to compare"},
                         kFloatTypes,
                         {"(T[3,17])", "(T[2,5,7] in 0..2) {axis=1}", "(T[0,2]) {axis=0}", "(T[0,2])"});
  add_composite<BinCount>(
      table, "y[i] = how many elements of x are i, or the sum of their weights",
      {.operands = "x: whole numbers, of any shape\n"
                   "weights? (float integer): as x, what each element counts; 1 if left out",
       .attributes = "size: the size of the result; elements of x that are negative or not below "
                     "it are not counted",
       .outputs = "y (float integer): [size], of the type of weights, or i64"},
      "i32 i64 u8", {"(T[40] in 0..9) {size=8}", "(T[5,13] in 0..9, f32[5,13]) {size=12}"});
  add_composite<Compress>(
      table, "the entries of x along the axis for which the condition is true, and their number",
      {.operands = "x: what entries are taken from\n"
                   "condition (bool): a vector, which entries are taken; none past its end",
       .attributes = "axis: along which entries lie",
       .outputs = "values: the entries, with room for all; what follows the first `count` "
                  "means nothing\n"
                  "count (i32): [], how many there are"},
      kAnyType,
      {"(T[5,7], bool[5])", "(T[3,17], bool[17]) {axis=-1}", "(T[0,3], bool[2])", "(T[3,4], bool[6])",
       "(T[3,4], bool[0])"});
  add_composite<MaskedSelect>(
      table, "the elements of x for which the mask is true, and their number",
      {.operands = "x: what elements are taken from\n"
                   "mask (bool): as x, which elements are taken",
       .outputs = "values: a vector of the elements, with room for all; what follows the "
                  "first `count` means nothing\n"
                  "count (i32): [], how many there are"},
      kAnyType, {"(T[257], bool[257])", "(T[3,17], bool[3,17])"});
  add_composite<Histogram>(
      table, "how many elements of x lie in each of `bins` intervals of equal length from low to high",
      {.operands = "x: of any shape",
       .attributes = "bins: how many intervals\n"
                     "low: where the first interval begins\n"
                     "high: where the last one ends, included in it",
       .outputs = "y (i64): [bins]"},
      "f32 f16", {"(T[257]) {bins=7, low=-1, high=1}", "(T[3,17]) {bins=1}"});
}
}  // namespace ops

}  // namespace rlx
