#include "ops/rearrange/contiguous.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "kernels/copy_blocks.wgsl.h"
#include "kernels/copy_fours.wgsl.h"
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

// The first elements of blocks of four by four along the axis `other` and the last one. Where eight blocks
// by eight can follow each other they do: what is read of a cache line is then written while it is there.
View in_blocks(const View& v, int64_t other) {
  constexpr int64_t kTile = 8;
  const int64_t last = v.rank() - 1;
  View out = v;
  View tile = {{}, {}, 0};
  for (const int64_t axis : {other, last}) {
    int64_t& length = out.dims[static_cast<size_t>(axis)];
    int64_t& stride = out.strides[static_cast<size_t>(axis)];
    length /= 4;
    stride *= 4;
    const int64_t inner = length % kTile == 0 ? kTile : 1;
    tile.dims.push_back(inner);
    tile.strides.push_back(stride);
    length /= inner;
    stride *= inner;
  }
  out.dims.insert(out.dims.end(), tile.dims.begin(), tile.dims.end());
  out.strides.insert(out.strides.end(), tile.strides.begin(), tile.strides.end());
  return out;
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

// These emit nothing, and return false, where they do not apply.
bool lower_fours(Lowering& l, const Operand& x, const Operand& y) {
  if (y.view.offset % 4 != 0 || !by_fours(x.view)) return false;
  return l.each<kernels::copy_fours>({.x = x, .y = y}, {}, y.view.elements() / 4);
}

bool lower_blocks(Lowering& l, const Operand& x, const Operand& y) {
  View from = x.view.coalesced();
  const int64_t last = from.rank() - 1;
  const auto side_by_side = std::ranges::find(from.strides, 1);
  const int64_t other = side_by_side - from.strides.begin();
  if (last < 1 || other >= last || from.offset % 4 != 0 || y.view.offset % 4 != 0) return false;
  const auto whole = [](int64_t n) { return n % 4 == 0; };
  if (!whole(from.dims[static_cast<size_t>(other)]) || !whole(from.dims.back())) return false;
  if (std::ranges::count_if(from.strides, whole) != last) return false;
  View to = View::contiguous(from.dims);
  to.offset = y.view.offset;
  const int64_t x_step = from.strides.back();
  const int64_t y_step = to.strides[static_cast<size_t>(other)];
  for (View* v : {&from, &to}) *v = in_blocks(*v, other);
  const int64_t blocks = from.elements();
  // Their views have only the first element of each block.
  Operand in = x.with_view(std::move(from));
  Operand out = y.with_view(std::move(to));
  in.window = x.view.range();
  out.window = y.view.range();
  return l.each<kernels::copy_blocks>({.x = in, .y = out},
                                      {.x_step = to_u32(x_step), .y_step = to_u32(y_step)}, blocks);
}

}  // namespace

void lower_copy(Lowering& l, const Operand& x, const Operand& y) {
  const Operand from = x.with_view(x.view.broadcast_to(y.view.dims));
  if (from.view.elements() == 0 || lower_decode(l, from, y)) return;
  const bool fours = !is_encoded(x.dtype) && x.dtype == y.dtype && x.dtype != DType::c64;
  if (fours && (lower_fours(l, from, y) || lower_blocks(l, from, y))) return;
  l.flat<kernels::copy>({.x = from, .y = y}, {});
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
