// Functions that are made of other ops: masks, which compare indices and are fused with what uses them;
// selections and counts.
#include <algorithm>

#include "base/fail.h"
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

}  // namespace rlx
