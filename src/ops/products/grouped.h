// A view whose axes are in three groups, each of any rank: [batch.., lines.., k..] for operands,
// [batch.., rows.., cols..] for results.
#pragma once

#include "kernels/dispatch.h"

namespace rlx::products {

struct Extent {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
};

struct Grouped {
  Operand operand;
  int64_t first_axes = 0, second_axes = 0;  // the rest are the third group

  View group(int64_t which) const;
  // How far apart neighbours along the last axis of a group are.
  int64_t last_stride(int64_t which) const;
  // Whether any four neighbours in group `which`, the first a multiple of four, are one aligned vector.
  bool quads(int64_t which) const;
  // What these indices of the groups touch, as the window of an operand.
  View::Range reach(const Extent& first, const Extent& second, const Extent& third) const;
};

}  // namespace rlx::products
