// A strided layout of a tensor in the memory of some buffer, in elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/inline_vector.h"

namespace rlx {

class Shape;

// A number for each axis. Views are made and dropped at each lowering, and hardly any has more axes.
using Dims = InlineVector<int64_t, 6>;

struct View {
  Dims dims;
  Dims strides;  // 0 repeats, a negative one runs backwards
  int64_t offset = 0;

  static View contiguous(Dims dims);

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t elements() const;
  bool is_contiguous() const;  // row-major without gaps; the offset may be anything
  // The first element that is touched and one past the last; equal when empty.
  struct Range {
    int64_t begin, end;
  };
  Range range() const;
  // Where the elements with row-major indices [begin, end) can lie: leading axes on which they agree are
  // fixed, the first on which they differ is cut, and the rest are taken whole.
  Range range_of(int64_t begin, int64_t end) const;

  View permute(const Dims& order) const;
  View slice(int64_t axis, int64_t start, int64_t length, int64_t step = 1) const;
  View broadcast_to(const Dims& target) const;  // right-aligned
  // The same elements in row-major order under other dims, when strides can express it.
  std::optional<View> reshape(const Dims& target) const;
  // Neighbouring axes joined where strides allow, axes of length 1 dropped.
  View coalesced() const;
  // Splits `axis` into [outer, length / outer].
  View split_axis(int64_t axis, int64_t outer) const;
  View slice_axes(int64_t begin, int64_t end) const;  // only those axes, offset kept

  // Calls f with the position of each element, in row-major order.
  template <class F>
  void for_each_position(F&& f) const {
    Dims index(dims.size(), 0);
    int64_t at = offset;
    for (int64_t left = elements(); left > 0; --left) {
      f(at);
      for (size_t axis = dims.size(); axis-- > 0;) {
        at += strides[axis];
        if (++index[axis] < dims[axis]) break;
        at -= strides[axis] * dims[axis];
        index[axis] = 0;
      }
    }
  }

  std::string text() const;
  friend bool operator==(const View&, const View&) = default;
};

Dims row_major_strides(const Dims& dims);
int64_t product(const Dims& dims);
// The shape as numbers; an error when a dim is symbolic.
Dims dims_of(const Shape& shape);
// An axis that inference has accepted, counted from the front.
constexpr int64_t normal_axis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

}  // namespace rlx
