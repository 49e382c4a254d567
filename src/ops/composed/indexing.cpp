// Parts of a tensor as NumPy's basic indexing gives them: slices, and a reshape for axes that come and go.
#include <algorithm>

#include "base/format.h"
#include "rlx/ops/rearrange.h"
#include "rlx/value.h"

namespace rlx {
namespace {

// A place in a range, for an axis of this size: at most at its end, and one below 0 counted from there.
Dim place(int64_t given, const Dim& size) {
  return given >= 0 ? Dim::min(given, size) : size - Dim::min(-std::max(given, -INT64_MAX), size);
}

Value slice_of(Value x, int64_t axis, const Range& range) {
  const Dim size = x.shape()[axis];
  if (range.step == 0)
    fail(ErrorKind::invalid_argument, "a Range has the step 0 (axis {} of {})", axis, x.shape().text());
  if (range.step > 0) {
    const Dim first = place(range.first.value_or(0), size);
    const Dim last = range.last ? place(*range.last, size) : size;
    const Dim distance = last - Dim::min(first, last);
    if (range.step == 1) return slice(x, axis, first, distance);
    if (!size.is_static()) return slice(x, axis, first, distance.ceil_div(range.step), range.step);
  } else if (!size.is_static()) {
    if (range.first || range.last) {
      fail(ErrorKind::unsupported,
           "a Range with the step {} and with ends needs a size that is known; axis {} of {} has none (use "
           "slice)",
           range.step, axis, x.shape().text());
    }
    return slice(x, axis, size - Dim::min(1, size), size.ceil_div(-std::max(range.step, -INT64_MAX)),
                 range.step);
  }
  // Backwards, the places before the first and after the last are -1 and size - 1.
  const bool backwards = range.step < 0;
  const int64_t lowest = backwards ? -1 : 0, highest = size.value() - (backwards ? 1 : 0);
  const auto at = [&](std::optional<int64_t> given, int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size.value() : *given, lowest, highest);
  };
  const int64_t first = at(range.first, backwards ? highest : lowest);
  const int64_t last = at(range.last, backwards ? lowest : highest);
  const int64_t distance = backwards ? first - last : last - first;
  // No step need be longer than the axis.
  const int64_t step = std::clamp(range.step, -size.value() - 1, size.value() + 1);
  const int64_t count = distance <= 0 ? 0 : (distance - 1) / (backwards ? -step : step) + 1;
  return slice(x, axis, count == 0 ? 0 : first, count, step);
}

Value element_of(Value x, int64_t axis, int64_t number) {
  const Dim size = x.shape()[axis];
  if (size.is_static() && (number < -size.value() || number >= size.value()))
    fail(ErrorKind::invalid_argument, "the index {} is outside axis {} of {}", number, axis,
         x.shape().text());
  return slice(x, axis, number < 0 ? size + number : Dim(number), 1);
}

}  // namespace

Value Value::part(const std::vector<Index>& indices) const {
  const auto is = [](Index::Kind kind) { return [kind](const Index& i) { return i.kind() == kind; }; };
  const int64_t rank = shape().rank();
  const auto indexed = std::ranges::count_if(indices, [](const Index& i) {
    return i.kind() == Index::Kind::number || i.kind() == Index::Kind::range;
  });
  if (indexed > rank)
    fail(ErrorKind::invalid_argument, "{} {} given for {}, which has {} axes", indexed,
         indexed == 1 ? "index was" : "indices were", shape().text(), rank);
  const auto ellipses = std::ranges::count_if(indices, is(Index::Kind::ellipsis));
  if (ellipses > 1)
    fail(ErrorKind::invalid_argument, "{} times `ellipsis` in one index; once is the most", ellipses);

  Value x = *this;
  std::vector<Dim> dims;  // of the result
  int64_t axis = 0;       // of x, whose axes stay until the end
  const auto keep = [&](int64_t count) {
    for (; count > 0; --count) dims.push_back(x.shape()[axis++]);
  };
  for (const Index& i : indices) {
    switch (i.kind()) {
      case Index::Kind::number:
        x = element_of(x, axis++, i.number());
        break;
      case Index::Kind::range:
        x = slice_of(x, axis, i.range());
        keep(1);
        break;
      case Index::Kind::ellipsis:
        keep(rank - indexed);
        break;
      case Index::Kind::new_axis:
        dims.emplace_back(1);
        break;
    }
  }
  keep(rank - axis);
  const bool same_axes = std::ranges::all_of(indices, [](const Index& i) {
    return i.kind() == Index::Kind::range || i.kind() == Index::Kind::ellipsis;
  });
  return same_axes ? x : reshape(x, Shape(dims));
}

}  // namespace rlx
