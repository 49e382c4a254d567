#include "ops/products/grouped.h"

#include <algorithm>

namespace rlx::products {

View Grouped::group(int64_t which) const {
  const int64_t second = first_axes + second_axes;
  const int64_t begin = which == 0 ? 0 : which == 1 ? first_axes : second;
  const int64_t end = which == 0 ? first_axes : which == 1 ? second : operand.view.rank();
  return operand.view.slice_axes(begin, end);
}

int64_t Grouped::last_stride(int64_t which) const {
  const View axes = group(which).coalesced();
  return axes.rank() == 0 ? 1 : axes.strides.back();
}

bool Grouped::quads(int64_t which) const {
  if (operand.view.offset % 4 != 0) return false;
  for (int64_t g = 0; g < 3; ++g) {
    View axes = group(g).coalesced();
    if (g == which) {
      if (axes.rank() == 0 || axes.strides.back() != 1 || axes.dims.back() % 4 != 0) return false;
      axes.strides.pop_back();
    }
    if (!std::ranges::all_of(axes.strides, [](int64_t s) { return s % 4 == 0; })) return false;
  }
  return true;
}

View::Range Grouped::reach(const Extent& first, const Extent& second, const Extent& third) const {
  if (operand.view.elements() == 0) return {operand.view.offset, operand.view.offset};
  View::Range all{operand.view.offset, operand.view.offset + 1};
  const Extent* const extents[] = {&first, &second, &third};
  for (int64_t g = 0; g < 3; ++g) {
    View axes = group(g);
    axes.offset = 0;
    const View::Range r = axes.range_of(extents[g]->begin, extents[g]->end);
    all.begin += r.begin;
    all.end += r.end - 1;
  }
  return all;
}

}  // namespace rlx::products
