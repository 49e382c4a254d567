// What ops use when they lower: operands of kernels, and dispatches. No GPU here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/inline_vector.h"
#include "base/limits.h"
#include "ir/dtype.h"
#include "ir/view.h"
#include "kernels/candidate.h"
#include "kernels/kernel.h"
#include "rlx/caps.h"
#include "rlx/dtype.h"

namespace rlx {

// The type of an element's value in WGSL: f32, i32, u32, bool or vec2f.
std::string_view wgsl_type(DType dtype);
// What the function held_as of the prelude calls the type.
constexpr uint32_t held_kind(DType dtype) { return dtype == DType::f16 ? 1 : dtype == DType::bf16 ? 2 : 0; }

// A tensor as a kernel sees it: a layout of a storage (a piece of memory that the plan places).
struct Operand {
  int32_t storage = -1;  // -1: absent (an optional operand)
  DType dtype = DType::f32;
  View view;
  // How many leading axes x_base(o) walks; x_step(i) walks the rest, x_flat(i) and x_at(i) all of them.
  int64_t outer_rank = 0;
  // Only these elements of the storage are bound; the kernel asks x_has(p). Empty: all.
  View::Range window{0, 0};
  // False: bound as single elements although the kernel declares x4, for a variant that reads them one by
  // one.
  bool x4 = true;

  bool present() const { return storage >= 0; }
  Operand with_view(View v, int64_t outer = 0) const {
    Operand o = *this;
    o.view = std::move(v);
    o.outer_rank = outer;
    return o;
  }
};

using OperandList = InlineVector<Operand, 6>;

// The value of a spec constant. Its name is a literal, or the one in the kernel's declaration.
struct SpecValue {
  std::string_view name;
  uint32_t value = 0;
  bool is_bool = false;

  std::string wgsl() const { return !is_bool ? std::to_string(value) + "u" : value != 0 ? "true" : "false"; }
  friend bool operator==(const SpecValue&, const SpecValue&) = default;
};
inline SpecValue spec_value(std::string_view name, uint32_t v) { return {name, v, false}; }
inline SpecValue spec_value(std::string_view name, bool v) { return {name, v ? 1u : 0u, true}; }
using SpecList = InlineVector<SpecValue, 16>;

// What a kernel has as its struct Params.
using ParamBytes = InlineVector<std::byte, 128>;

// One launch of a kernel: all that binder and runtime need to know.
struct Dispatch {
  KernelPtr kernel;
  OperandList operands;  // in the order of the kernel's declarations
  SpecList specs;
  ParamBytes params;
  int64_t groups = 0;    // workgroups; the grid is split over x, y, z by the binder
  bool partial = false;  // writes only the elements i for which owns(i) is true
  int32_t node = -1;     // of the graph, for messages and reports
  Candidate variant;     // of the op's table; without a name if it has none
  // Dispatches of a node with the same number were made by one choice of a candidate, which is estimated to
  // take `choice_ns` in all; -1: by none.
  int32_t choice = -1;
  double choice_ns = 0;
  struct InPlace {
    int32_t output, input;  // operands that may share memory: only the writer of an element reads it
    friend bool operator==(const InPlace&, const InPlace&) = default;
  };
  InlineVector<InPlace, 4> in_place;
};

// Elements that share a 32-bit word in device memory, so that one invocation must write them together.
int64_t elements_per_word(DType dtype, const Caps& caps);

}  // namespace rlx
