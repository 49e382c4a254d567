// Decides how the operands of a dispatch are bound and writes the WGSL that reaches them.
//
// WebGPU wants access modes in the module, forbids binding a buffer for both reading and writing, or the same
// bytes twice, and limits the size and number of bindings. So kernels touch operands only through accessors,
// and this is the one place that knows where the bytes are:
//   x_t               the value type (f32, i32, u32, bool or vec2f; f32 of an encoded operand)
//   x_present         false for an optional operand that is not given
//   x_base(o)         the position in the view's memory of index o over the outer axes (Operand::outer_rank)
//   x_step(i)         what index i over the inner axes adds to it
//   x_flat(i)         the position of index i over all axes
//   x_get(p)          the element at position p; x_at(i) is x_get(x_flat(i))
//   x_get4(p)         four elements from position p on, a multiple of four (declared x4)
//   x_has(p)          whether position p lies in the operand's window
//   y_put(p, v), y_put4(p, v)   writes
//   y_add(p, v), y_min(p, v), y_max(p, v), y_exchange(p, v)
//                     change an element atomically and return its old value (declared atomic)
//   y_from_bits(w)    a value from its bits (bool: 0 or 1), for constants in parameters
//   y_pack, y_store(first)      whole words of element(i), for kernels that use lib/flat
// Operands of an encoded type (src/encodings) can be read by x_get, x_at and x_get4 as any other. Kernels
// that declare one `encoded` also have
//   x_GROUP           how many neighbours a group has, a multiple of four
//   x_Group           what they share, decoded
//   x_group(p)        the group that holds position p
//   x_group_four(g, i)          elements 4i to 4i+3 of a group
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"
#include "rlx/caps.h"

namespace rlx {

// Where the plan put a storage.
struct Placement {
  int32_t buffer = -1;
  int64_t offset = 0;  // bytes, a multiple of kBindingAlignment
  int64_t bytes = 0;
};

struct BoundRange {
  int32_t buffer = -1;
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const BoundRange&, const BoundRange&) = default;
};

// How one group of axes of a view is walked, as far as the module text depends on it.
struct WalkPattern {
  int32_t rank = 0;
  bool unit = true;  // the last axis has stride 1
  friend bool operator==(const WalkPattern&, const WalkPattern&) = default;
};

// The axes that a walk goes over: those of x_base, of x_step, or all of them (x_flat).
enum class WalkPart : uint8_t { outer, inner, flat };
inline constexpr WalkPart kWalkParts[] = {WalkPart::outer, WalkPart::inner, WalkPart::flat};

struct OperandPattern {
  bool present = false;
  DType dtype = DType::f32;
  int32_t first_binding = 0;  // among the storage bindings
  int32_t segments = 1;
  bool windowed = false;
  bool aligned4 = false;  // positions that are multiples of 4 are also multiples of 4 in the binding
  WalkPattern walks[3];   // by WalkPart
  friend bool operator==(const OperandPattern&, const OperandPattern&) = default;

  WalkPattern& walk(WalkPart part) { return walks[static_cast<size_t>(part)]; }
  const WalkPattern& walk(WalkPart part) const { return walks[static_cast<size_t>(part)]; }
};

bool calls_walk(const OperandDecl& operand, WalkPart part);

// The uniform `views` begins with these words, followed by those of each operand that is present (ViewWord).
// The layout is defined here only: the binder fills it in, and module_text declares it, in this order.
inline constexpr std::string_view kViewsHead[] = {"first_group", "group_count"};
struct ViewWord {
  // start: where an encoded operand's storage begins, in words from the begin of the binding. Its offset
  // counts elements from there; that of other operands counts from the begin of the binding.
  enum class Kind : uint8_t { offset, start, window_begin, window_length, dim, stride } kind;
  WalkPart part = WalkPart::outer;
  int32_t axis = 0;
};
template <class F>
void for_each_view_word(const OperandDecl& operand, const OperandPattern& p, F&& word) {
  using enum ViewWord::Kind;
  if (!p.present) return;
  word(ViewWord{offset});
  if (is_encoded(p.dtype)) word(ViewWord{start});
  if (p.windowed) {
    word(ViewWord{window_begin});
    word(ViewWord{window_length});
  }
  for (const WalkPart part : kWalkParts) {
    if (!calls_walk(operand, part)) continue;
    const int32_t rank = p.walk(part).rank;
    for (int32_t axis = 1; axis < rank; ++axis) word(ViewWord{dim, part, axis});
    for (int32_t axis = 0; axis < rank; ++axis) word(ViewWord{stride, part, axis});
  }
}

// Whether kernels whose main takes an Invocation get that of lib/lanes_cpu: the device is the CPU, and a
// lane's place in its workgroup follows from that in its subgroup.
bool cpu_lanes(const Caps& caps);
// Pieces of work of a workgroup of a kernel that uses lib/flat or lib/each.
int64_t flat_pieces(const Caps& caps);

// How a storage binding is declared.
enum class Element : uint8_t { f32, f16, i32, u32, vec2f, vec4f, vec4h, word, atomic_word, atomic_i32 };

struct BindingPattern {
  Element element = Element::word;
  bool writable = false;
  friend bool operator==(const BindingPattern&, const BindingPattern&) = default;
};

// Everything besides the kernel that the module text depends on.
struct Pattern {
  InlineVector<OperandPattern, 6> operands;
  InlineVector<BindingPattern, 8> bindings;
  SpecList specs;
  int64_t segment_bytes = 0;
  bool partial = false;
  bool f16 = false;        // the module enables f16
  bool cpu_lanes = false;  // invocations are those of lib/lanes_cpu
  friend bool operator==(const Pattern&, const Pattern&) = default;
};

struct BoundDispatch {
  KernelPtr kernel;
  Pattern pattern;
  InlineVector<BoundRange, 8> ranges;  // one for each storage binding
  ParamBytes params;
  InlineVector<uint32_t, 48> views;  // the words of the generated uniform `views`
  uint32_t grid[3] = {0, 0, 0};
  int32_t node = -1;
  Candidate variant;
};

// More than one dispatch if there are more workgroups than a grid of x*y*z can have. The module text also
// serves the views of `like`, which may have more axes: a slice that grows is simpler at some lengths than at
// others.
using BoundParts = InlineVector<BoundDispatch, 1>;
BoundParts bind_dispatch(const Dispatch& dispatch, const std::vector<Placement>& placements, const Caps& caps,
                         const Pattern* like = nullptr);

// The complete module.
std::string module_text(const Kernel& kernel, const Pattern& pattern);

// The distance in bytes from the first to past the last element that the operand's view touches.
int64_t reach_bytes(const Operand& operand);
// Whether the dispatch can be bound on the device wherever its storages are placed.
bool fits(const Dispatch& dispatch, const Caps& caps);
// Whether each encoded operand lies in one binding. Decoders make many reads; a choice between bindings in
// each of them gives modules that some drivers need gigabytes for.
bool encoded_are_whole(const Dispatch& dispatch, const Caps& caps);
// The number of storage bindings it needs, for messages.
int64_t bindings_needed(const Dispatch& dispatch, const Caps& caps);

// The module with all operands contiguous and f32 (i32 if declared int), which tests of kernel sources
// compile. Those declared encoded have this encoding.
std::string default_module_text(const KernelPtr& kernel, DType encoding = DType::q8_0);

}  // namespace rlx
