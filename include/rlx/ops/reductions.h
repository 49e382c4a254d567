// Many elements as one, and running sums.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// --- Reductions ---

// Over the given axes, or all if none are given. NaN wins in max and min.
Value sum(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value mean(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value max(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value min(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The sum of |x|, the root of the sum of squares, the sum of squares.
Value l1_norm(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value l2_norm(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value sum_square(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The logarithm of the sum, and of the sum of e^x, which does not overflow.
Value log_sum(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value log_sum_exp(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// Whether any or all elements are not 0: bool.
Value any(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value all(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The mean of (x - mean)^2; the sum is divided by n - correction instead of n.
Value variance(Value x, std::vector<int64_t> axes = {}, bool keepdims = false, int64_t correction = 0);
Value prod(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
enum class SegmentReduction { sum, mean, max, min, prod };
// y[s] = the reduction of the slices x[i] along `axis` with ids[i] == s, for s < segments; ids need not be
// sorted, and slices with any other id count nowhere. A segment without slices has 0 (sum), 1 (prod), NaN
// (mean), minus or plus infinity (max, min), or the end of an integer type's range.
Value segment_reduce(Value x, Value ids, Dim segments, SegmentReduction reduction = SegmentReduction::sum,
                     int64_t axis = 0);
Value argmax(Value x, int64_t axis = -1, bool keepdims = false);  // i64; the first one among equals
Value argmin(Value x, int64_t axis = -1, bool keepdims = false);
Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);

// --- Scans along an axis ---

// y[i] = x[0] + ... + x[i]; exclusive: without x[i], so that y[0] is 0; reverse: from the other end.
Value cumsum(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cumprod(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cummax(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);  // NaN wins
Value cummin(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);

}  // namespace rlx
RLX_EXPORT_END
