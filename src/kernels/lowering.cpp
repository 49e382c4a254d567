#include "kernels/lowering.h"

#include <algorithm>

#include "kernels/binder.h"
#include "kernels/dispatch_limit.h"

namespace rlx {
namespace {

// Flat kernels start at multiples of this, so that no word is shared by two dispatches.
constexpr int64_t kFlatGrain = 1024;

// Whether element i of the output is made from element i of this operand, and from no other.
bool in_step(const OperandDecl& decl) {
  return decl.out || (decl.calls.walks_flat() && !decl.calls.elsewhere);
}

bool has_extension(const Caps& caps, std::string_view name) {
  return name == "f16"         ? caps.shader_f16
         : name == "subgroups" ? caps.subgroups
                               : !caps.subgroup_matrices.empty();
}

// What the kernel needs besides bindings.
void check_needs(const Dispatch& d, const Caps& caps) {
  for (const std::string& name : d.kernel->enables) {
    if (!has_extension(caps, name))
      fail(ErrorKind::unsupported,
           "kernel {} enables {}, which the device {} does not have or was told not to use", d.kernel->name,
           name, caps.adapter);
  }
  for (size_t i = 0; i < d.operands.size(); ++i) {
    const OperandDecl& decl = d.kernel->operands[i];
    check(decl.kind != OperandDecl::Kind::encoded || is_encoded(d.operands[i].dtype),
          "an operand that is declared encoded has an encoded type");
    check(!decl.out || !is_encoded(d.operands[i].dtype), "no kernel writes an encoded operand");
    if (d.kernel->operands[i].atomic && d.operands[i].dtype == DType::c64)
      fail(ErrorKind::unsupported, "kernel {} changes {} atomically, which cannot be done with c64",
           d.kernel->name, d.kernel->operands[i].name);
  }
}

void set_word(Dispatch& d, size_t index, int64_t value) {
  const uint32_t word = to_u32(value);
  check(d.params.size() >= (index + 1) * sizeof word,
        "a split kernel has its range in its first two parameters");
  std::memcpy(d.params.data() + index * sizeof word, &word, sizeof word);
}

int64_t output_index(const Kernel& kernel) {
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    if (kernel.operands[i].out) return static_cast<int64_t>(i);
  }
  fail(ErrorKind::internal, "the kernel {} has no output", kernel.name);
}

}  // namespace

int32_t Scratch::take(int64_t bytes, int32_t node) {
  auto storage = static_cast<int32_t>(storages_.size());
  if (reused_ && taken_.size() < reused_->size()) {
    storage = (*reused_)[taken_.size()];
  } else {
    storages_.push_back({std::nullopt, bytes, node});
  }
  taken_.push_back(storage);
  bytes_.push_back(bytes);
  return storage;
}

int32_t Scratch::overflow() {
  if (overflow_ < 0) {
    overflow_ = static_cast<int32_t>(storages_.size());
    storages_.push_back({.overflow = true});
  }
  return overflow_;
}

Operand Lowering::scratch(DType dtype, Dims dims) {
  Operand o;
  o.dtype = dtype;
  o.view = View::contiguous(std::move(dims));
  o.storage = scratch_.take(storage_bytes(dtype, o.view.elements()), node_);
  return o;
}

Operand Lowering::table(const Tensor& values) {
  Operand o;
  o.dtype = values.dtype();
  o.view = View::contiguous(values.shape());
  std::vector<Storage>& storages = scratch_.storages();
  const auto found =
      std::ranges::find_if(storages, [&](const Storage& s) { return s.table && *s.table == values; });
  o.storage = static_cast<int32_t>(found - storages.begin());
  if (found == storages.end()) {
    storages.push_back({std::nullopt, storage_bytes(o.dtype, o.view.elements()), node_,
                        std::make_shared<const Tensor>(values)});
  }
  return o;
}

Operand Lowering::overflow(DType dtype) {
  Operand o;
  if (dtype != DType::i64) return o;
  o.storage = scratch_.overflow();
  o.dtype = DType::i32;
  o.view = View::contiguous({1});
  o.view.offset = node_;
  return o;
}

Dispatch Lowering::make(KernelPtr kernel, OperandList operands, std::span<const std::byte> params,
                        int64_t groups, SpecList specs) const {
  Dispatch d;
  params = params.first(kernel->params_bytes);  // an empty struct has a size in C++
  d.params.assign(params.begin(), params.end());
  d.kernel = std::move(kernel);
  d.operands = std::move(operands);
  d.specs = std::move(specs);
  d.groups = groups;
  d.node = node_;
  d.variant = variant_;
  d.choice = choice_;
  if (choice_ >= 0) d.choice_ns = choice_ns_;
  return d;
}

void Lowering::emit(Dispatch d) {
  if (d.groups == 0) return;
  check_needs(d, caps_);
  if (!fits(d, caps_)) {
    fail(ErrorKind::unsupported,
         "kernel {} needs {} storage bindings of at most {} bytes, but the device has {} per shader",
         d.kernel->name, bindings_needed(d, caps_), caps_.max_binding_bytes, caps_.max_storage_buffers);
  }
  check_dispatch_count(0, std::ssize(dispatches_) + 1);
  dispatches_.push_back(std::move(d));
}

void Lowering::split(int64_t extent, int64_t grain, const PartMaker& make_part) {
  for (Dispatch& d : parts(extent, grain, make_part)) emit(std::move(d));
}

std::vector<Dispatch> Lowering::parts(int64_t extent, int64_t grain, const PartMaker& make_part) const {
  std::vector<Dispatch> out;
  int64_t length = extent;
  for (int64_t begin = 0; begin < extent;) {
    Dispatch d = make_part(begin, std::min(length, extent - begin));
    // A later part can need more than the first: its rows may lie on both sides of a gap.
    const bool bound = fits(d, caps_);
    if (length > grain && !bound) {
      length = round_up(ceil_div(length, 2), grain);
      continue;
    }
    check_dispatch_count(0, std::ssize(out) + 1);
    out.push_back(std::move(d));
    if (!bound) break;  // the caller tries something else, or says so
    begin += length;
  }
  return out;
}

bool Lowering::each(Dispatch whole, int64_t pieces) {
  whole.groups = ceil_div(pieces, flat_pieces(caps_));
  set_word(whole, 0, 0);
  set_word(whole, 1, pieces);
  if (!fits(whole, caps_)) return false;
  emit(std::move(whole));
  return true;
}

void Lowering::flat(Dispatch whole) {
  const auto y = static_cast<size_t>(output_index(*whole.kernel));
  const int64_t count = whole.operands[y].view.elements();
  check(whole.operands[y].view.is_contiguous(), "a flat kernel writes a contiguous output");
  if (count == 0) return;
  const int64_t pack = elements_per_word(whole.operands[y].dtype, caps_);
  const auto part = [&](int64_t begin, int64_t length) {
    Dispatch d = whole;
    d.groups = ceil_div(length, flat_pieces(caps_) * pack);
    set_word(d, 0, begin);
    set_word(d, 1, begin + length);
    if (length == count) return d;
    for (size_t i = 0; i < d.operands.size(); ++i) {
      Operand& o = d.operands[i];
      if (!o.present() || o.view.elements() != count || !o.view.is_contiguous()) continue;
      if (!in_step(d.kernel->operands[i])) continue;
      o.window = {o.view.offset + begin, o.view.offset + begin + length};
    }
    return d;
  };
  // If inputs can be bound in pieces, the output needs no pieces smaller than a binding.
  const bool has_windows = whole.kernel->owns;
  const auto element = static_cast<int64_t>(device_bytes(whole.operands[y].dtype));
  const auto bound_elements =
      static_cast<int64_t>(caps_.max_binding_bytes) / element / kFlatGrain * kFlatGrain;
  const int64_t least = has_windows ? std::max(kFlatGrain, bound_elements) : kFlatGrain;
  int64_t length = count;
  while (length > least && !fits(part(0, length), caps_)) {
    length = std::max(least, round_up(ceil_div(length, 2), kFlatGrain));
  }
  for (int64_t begin = 0; begin < count; begin += length) {
    Dispatch d = part(begin, std::min(length, count - begin));
    if (fits(d, caps_) || !has_windows) {
      emit(std::move(d));
    } else {
      split_windows(d);
    }
  }
}

// Binds inputs in pieces, the largest input first: each dispatch writes the elements whose sources lie in its
// pieces.
void Lowering::split_windows(Dispatch d) {
  d.partial = true;
  size_t largest = 0;
  int64_t most = -1;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& o = d.operands[i];
    const bool whole = o.window.begin == o.window.end;
    if (!o.present() || d.kernel->operands[i].out || !whole || !d.kernel->operands[i].calls.has) continue;
    if (reach_bytes(o) > most) {
      most = reach_bytes(o);
      largest = i;
    }
  }
  if (most < 0 || fits(d, caps_)) {
    emit(std::move(d));
    return;
  }
  const View::Range all = d.operands[largest].view.range();
  const DType dtype = d.operands[largest].dtype;
  // Whole blocks, of which one may be larger than the alignment.
  const int64_t grain = std::max(device_elements_in(dtype, kBindingAlignment), block_elements(dtype));
  const auto part = [&](int64_t begin, int64_t length) {
    Dispatch piece = d;
    piece.operands[largest].window = {all.begin + begin, std::min(all.begin + begin + length, all.end)};
    return piece;
  };
  // A piece of half a binding lies in one or two bindings; if that is still too much, another input must be
  // bound in pieces too.
  const int64_t half = device_elements_in(dtype, static_cast<int64_t>(caps_.max_binding_bytes) / 2);
  const int64_t least = std::max(grain, half / grain * grain);
  int64_t length = all.end - all.begin;
  while (length > least && !fits(part(0, length), caps_))
    length = std::max(least, round_up(ceil_div(length, 2), grain));
  for (int64_t begin = 0; begin < all.end - all.begin; begin += length) split_windows(part(begin, length));
}

View::Range rows_window(const Operand& o, int64_t begin, int64_t length) {
  View outer = o.view.slice_axes(0, o.outer_rank).coalesced();
  outer.offset = 0;
  const View::Range inner = o.view.slice_axes(o.outer_rank, o.view.rank()).range();
  const View::Range bases = outer.range_of(begin, begin + length);
  return {inner.begin + bases.begin, inner.end + bases.end - 1};
}

bool Lowering::rows(const Dispatch& whole, int64_t row_count, int64_t rows_per_group) {
  const auto part = [&](int64_t begin, int64_t length) {
    Dispatch d = whole;
    d.groups = ceil_div(length, rows_per_group);
    set_word(d, 0, begin);
    set_word(d, 1, begin + length);
    if (length == row_count) return d;
    for (Operand& o : d.operands) {
      if (!o.present() || o.outer_rank == 0) continue;
      o.window = rows_window(o, begin, length);
    }
    return d;
  };
  std::vector<Dispatch> dispatches = parts(row_count, rows_per_group, part);
  if (!std::ranges::all_of(dispatches, [&](const Dispatch& d) { return fits(d, caps_); })) return false;
  for (Dispatch& d : dispatches) emit(std::move(d));
  return true;
}

void allow_in_place(Dispatch& d) {
  const auto count = static_cast<int32_t>(d.operands.size());
  const auto operand = [&](int32_t i) -> const Operand& { return d.operands[static_cast<size_t>(i)]; };
  const auto is_out = [&](int32_t i) { return d.kernel->operands[static_cast<size_t>(i)].out; };
  for (int32_t out = 0; out < count; ++out) {
    for (int32_t in = 0; in < count; ++in) {
      const Operand& y = operand(out);
      const Operand& x = operand(in);
      if (!is_out(out) || is_out(in) || !x.present() || !y.present()) continue;
      const bool read_elsewhere = std::ranges::any_of(
          d.operands, [&](const Operand& o) { return o.storage == x.storage && o.view != x.view; });
      if (x.dtype == y.dtype && x.view == y.view && !read_elsewhere) d.in_place.push_back({out, in});
    }
  }
}

}  // namespace rlx
