// Kernels on matrix units: which fragments of lib/ they use, and how many lanes their subgroups have.
#pragma once

#include <string>
#include <vector>

#include "ir/dtype.h"
#include "rlx/caps.h"

namespace rlx {

// Whether a kernel says how many lanes its subgroups have: where the device has several sizes and listens.
inline bool pins_subgroups(const Caps& caps) {
  return caps.subgroup_size_control && caps.subgroup_min_size < caps.subgroup_max_size;
}

// The lanes of a subgroup; the most there can be where the device decides. Of emulated units as many as a
// unit of 8 x 8 has sums: with few sums in a lane the code is short, and takes seconds less to compile.
inline uint32_t matrix_width(const Caps& caps) {
  if (caps.emulated_matrices) return 64;
  return pins_subgroups(caps) ? caps.subgroup_min_size : caps.subgroup_max_size;
}

// Of a factor or a sum.
inline int64_t unit_bytes(DType type) { return static_cast<int64_t>(device_bytes(type)); }

inline std::vector<std::string> matrix_fragments(const Caps& caps) {
  if (caps.emulated_matrices) return {"matrix_emulated"};
  return {"matrix_units", pins_subgroups(caps) ? "matrix_main_pinned" : "matrix_main"};
}

}  // namespace rlx
