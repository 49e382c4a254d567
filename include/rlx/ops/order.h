// Sorting, quantiles, counting.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Elements in another order, and where each was along the axis (i64).
struct Ordered {
  Value values;
  Value indices;
};
// Equal values stay in their order, NaN is greater than any number.
Ordered sort(Value x, int64_t axis = -1, bool descending = false);
Value argsort(Value x, int64_t axis = -1, bool descending = false);
// The k largest in descending order, or the k smallest in ascending order. k may depend on symbols.
Ordered topk(Value x, Dim k, int64_t axis = -1, bool largest = true);
enum class Interpolation {
  linear,
  lower,
  higher,
  nearest,  // the even one if both are as near
  midpoint,
};
struct QuantileOptions {
  std::vector<int64_t> axes = {};  // all when empty
  bool keepdims = false;
  // Between the two elements that a quantile lies between. Integers need lower, higher or nearest.
  Interpolation interpolation = Interpolation::linear;
  // NaN counts as missing, and the result is NaN only where nothing is left; otherwise it is NaN where any
  // element is.
  bool ignore_nan = false;
};
// The element at (n - 1) q among the n elements along the axes in ascending order, for each q in [0, 1] along
// a new first axis.
Value quantile(Value x, std::vector<double> q, const QuantileOptions& options = {});
// The quantile 0.5 without that axis: NumPy's median; PyTorch's with the interpolation `lower`.
Value median(Value x, const QuantileOptions& options = {});
// How many elements of each row of `sorted` [.., n], in ascending order, are less than each value [.., m] of
// the same row; `right`: less or equal. i64.
Value searchsorted(Value sorted, Value values, bool right = false);
// y[i] = how many elements of x are i, or the sum of their weights; those outside of 0 .. size count nowhere.
Value bincount(Value x, int64_t size, Value weights = {});
// How many elements of x lie in each of `bins` intervals of equal length from low to high; the last one is
// closed.
Value histogram(Value x, int64_t bins, double low, double high);

}  // namespace rlx
RLX_EXPORT_END
