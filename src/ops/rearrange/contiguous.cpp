#include "ops/rearrange/contiguous.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "kernels/copy_into.wgsl.h"
#include "kernels/decode.wgsl.h"
#include "ops/machinery/op_table.h"

namespace rlx {

namespace {

// Whether elements 4i to 4i+3 of the view are a multiple of four and the positions after it.
bool by_fours(const View& view) {
  const View v = view.coalesced();
  if (v.rank() == 0 || v.strides.back() != 1 || v.dims.back() % 4 != 0 || v.offset % 4 != 0) return false;
  return std::ranges::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
}

// False, and nothing emitted, where the general copy is needed: it decodes a group for each element.
bool lower_decode(Lowering& l, const Operand& x, const Operand& y) {
  if (!is_encoded(x.dtype) || !by_fours(x.view)) return false;
  const int64_t count = y.view.elements();
  const Dispatch d = l.make<kernels::decode>({.x = x, .y = y}, {.count = to_u32(count)},
                                             ceil_div(count, 4 * int64_t{kernels::decode::GROUP}));
  if (!fits(d, l.caps())) return false;
  l.emit(d);
  return true;
}

}  // namespace

void lower_copy(Lowering& l, const Operand& x, const Operand& y) {
  const Operand from = x.with_view(x.view.broadcast_to(y.view.dims));
  if (!lower_decode(l, from, y)) l.flat<kernels::copy>({.x = from, .y = y}, {});
}

Operand lower_contiguous(Lowering& l, const Operand& x) {
  const Operand copy = l.scratch(value_dtype(x.dtype), x.view.dims);
  lower_copy(l, x, copy);
  return copy.with_view(copy.view, x.outer_rank);
}

namespace {

// Pieces of an operand's memory of at most `length` elements.
std::vector<View::Range> windows(const Operand& o, int64_t length) {
  std::vector<View::Range> out;
  const View::Range all = o.view.range();
  for (int64_t begin = all.begin; begin < all.end; begin += length)
    out.push_back({begin, std::min(all.end, begin + length)});
  return out;
}

// Both in one dispatch; the second may be absent.
Dispatch copy_into(const Lowering& l, const CopyInto& first, const CopyInto& second) {
  const int64_t count = first.y.view.elements();
  const int64_t other_count = second.y.present() ? second.y.view.elements() : 0;
  return l.make<kernels::copy_into>(
      {.x = first.x, .y = first.y, .other_x = second.x, .other_y = second.y},
      {.count = to_u32(count), .other_count = to_u32(other_count)},
      ceil_div(std::max(count, other_count), int64_t{kernels::copy_into::GROUP}));
}

}  // namespace

void lower_copy_into(Lowering& l, const Operand& x, const Operand& y) {
  emit_in_windows(l, copy_into(l, {x, y}, {}), 0, 1);
}

void emit_in_windows(Lowering& l, const Dispatch& whole, size_t x, size_t y) {
  if (fits(whole, l.caps())) {
    l.emit(whole);
    return;
  }
  // Half of the bindings for each, of those that other operands leave.
  const auto bytes = static_cast<int64_t>(device_bytes(whole.operands[y].dtype));
  const int64_t bindings = (l.caps().max_storage_buffers - std::ssize(whole.operands) + 2) / 2;
  const int64_t length =
      static_cast<int64_t>(l.caps().max_binding_bytes / kBindingAlignment * kBindingAlignment) / bytes *
          bindings -
      kBindingAlignment;
  for (const View::Range& from : windows(whole.operands[x], length)) {
    for (const View::Range& to : windows(whole.operands[y], length)) {
      Dispatch d = whole;
      d.operands[x].window = from;
      d.operands[y].window = to;
      l.emit(std::move(d));
    }
  }
}

void lower_copies_into(Lowering& l, std::span<const CopyInto> copies) {
  for (size_t i = 0; i < copies.size(); ++i) {
    if (i + 1 < copies.size()) {
      const Dispatch two = copy_into(l, copies[i], copies[i + 1]);
      if (fits(two, l.caps())) {
        l.emit(two);
        ++i;
        continue;
      }
    }
    lower_copy_into(l, copies[i].x, copies[i].y);
  }
}

std::vector<TensorType> Contiguous::infer(const InferArgs& in) const {
  in.expect_count(1);
  return {in[0]};
}

void Contiguous::reference(RefContext& r) const { r.out() = r.in(0); }

namespace ops {
void register_contiguous(OpTable& table) {
  table.add<Contiguous>({.formula = "y = x, in its own memory, decoded",
                         .operands = "x: of any layout, perhaps encoded",
                         .outputs = "y: the same elements",
                         .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
                         .variants = {"copy"},
                         .samples = {"contiguous(T[3,17])", "contiguous(T[1])", "contiguous(T[0,3])",
                                     "contiguous(T[257])", "contiguous(T[65537])", "contiguous(T[])"},
                         .internal = true});
}
}  // namespace ops

}  // namespace rlx
