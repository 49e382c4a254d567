#include "kernels/lowering.h"

#include <algorithm>

#include "kernels/binder.h"

namespace rlx {
namespace {

// Flat kernels start at multiples of this, so that no word is shared by two dispatches.
constexpr int64_t kFlatGrain = 1024;

bool calls(const Kernel& kernel, const std::string& function) {
  return kernel.source.find(function + "(") != std::string::npos;
}

// Whether element i of the output is made from element i of this operand: flat kernels reach such operands by x_at(i) or
// x_flat(i), and those that they read elsewhere by x_base and x_step.
bool in_step(const Kernel& kernel, const OperandDecl& decl) {
  return decl.out || calls(kernel, decl.name + "_at") || calls(kernel, decl.name + "_flat");
}

void set_word(Dispatch& d, size_t index, int64_t value) {
  const uint32_t word = to_u32(value);
  check(d.params.size() >= (index + 1) * sizeof word, "a split kernel has its range in its first two parameters");
  std::memcpy(d.params.data() + index * sizeof word, &word, sizeof word);
}

int64_t output_index(const Kernel& kernel) {
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    if (kernel.operands[i].out) return static_cast<int64_t>(i);
  }
  fail(ErrorKind::internal, "the kernel {} has no output", kernel.name);
}

}  // namespace

Operand Lowering::scratch(DType dtype, std::vector<int64_t> dims) {
  Operand o;
  o.storage = static_cast<int32_t>(storages_.size());
  o.dtype = dtype;
  o.view = View::contiguous(std::move(dims));
  storages_.push_back({Storage::Kind::temp, storage_bytes(dtype, o.view.elements()), node_});
  return o;
}

Dispatch Lowering::make(std::shared_ptr<const Kernel> kernel, std::vector<Operand> operands,
                        std::span<const std::byte> params, int64_t groups, std::vector<SpecValue> specs) const {
  Dispatch d;
  params = params.first(kernel->params_bytes);  // an empty struct has a size in C++
  d.params.assign(params.begin(), params.end());
  d.kernel = std::move(kernel);
  d.operands = std::move(operands);
  d.specs = std::move(specs);
  d.groups = groups;
  d.node = node_;
  d.variant = variant_;
  return d;
}

void Lowering::emit(Dispatch d) {
  if (d.groups == 0) return;
  if (!fits(d, caps_)) {
    fail(ErrorKind::unsupported,
         "kernel {} needs {} storage bindings of at most {} bytes, but the device has {} for a shader", d.kernel->name,
         bindings_needed(d, caps_), caps_.max_binding_bytes, caps_.max_storage_buffers);
  }
  dispatches_.push_back(std::move(d));
}

void Lowering::split(int64_t extent, int64_t grain, const std::function<Dispatch(int64_t, int64_t)>& make_part) {
  if (extent == 0) return;
  int64_t length = extent;
  while (length > grain && !fits(make_part(0, length), caps_)) length = round_up(ceil_div(length, 2), grain);
  for (int64_t begin = 0; begin < extent; begin += length) emit(make_part(begin, std::min(length, extent - begin)));
}

void Lowering::flat(Dispatch whole) {
  const auto y = static_cast<size_t>(output_index(*whole.kernel));
  const int64_t count = whole.operands[y].view.elements();
  check(whole.operands[y].view.is_contiguous(), "a flat kernel writes a contiguous output");
  if (count == 0) return;
  const int64_t pack = elements_per_word(whole.operands[y].dtype, caps_);
  const auto part = [&](int64_t begin, int64_t length) {
    Dispatch d = whole;
    d.groups = ceil_div(length, kFlatGroup * pack);
    set_word(d, 0, begin);
    set_word(d, 1, begin + length);
    if (length == count) return d;
    for (size_t i = 0; i < d.operands.size(); ++i) {
      Operand& o = d.operands[i];
      if (!o.present() || o.view.elements() != count || !o.view.is_contiguous()) continue;
      if (!in_step(*d.kernel, d.kernel->operands[i])) continue;
      o.window = {o.view.offset + begin, o.view.offset + begin + length};
    }
    return d;
  };
  // Where inputs can come in pieces, the output needs no pieces smaller than a binding.
  const bool has_windows = calls(*whole.kernel, "fn owns");
  const auto element = static_cast<int64_t>(device_bytes(whole.operands[y].dtype));
  const auto bound_elements = static_cast<int64_t>(caps_.max_binding_bytes) / element / kFlatGrain * kFlatGrain;
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

// Inputs come in pieces, the largest first: each dispatch writes the elements whose sources lie in its pieces.
void Lowering::split_windows(Dispatch d) {
  d.partial = true;
  size_t largest = 0;
  int64_t most = -1;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& o = d.operands[i];
    const bool whole = o.window.begin == o.window.end;
    if (!o.present() || d.kernel->operands[i].out || !whole || !calls(*d.kernel, d.kernel->operands[i].name + "_has")) continue;
    const View::Range r = o.view.range();
    const int64_t bytes = (r.end - r.begin) * static_cast<int64_t>(device_bytes(o.dtype));
    if (bytes > most) {
      most = bytes;
      largest = i;
    }
  }
  if (most < 0 || fits(d, caps_)) {
    emit(std::move(d));
    return;
  }
  const View::Range all = d.operands[largest].view.range();
  const auto element = static_cast<int64_t>(device_bytes(d.operands[largest].dtype));
  const int64_t grain = kBindingAlignment / element;
  const auto part = [&](int64_t begin, int64_t length) {
    Dispatch piece = d;
    piece.operands[largest].window = {all.begin + begin, std::min(all.begin + begin + length, all.end)};
    return piece;
  };
  // Half a binding always lies in one or two; if that is still too much, another input must come in pieces too.
  const int64_t least = std::max(grain, static_cast<int64_t>(caps_.max_binding_bytes) / 2 / element / grain * grain);
  int64_t length = all.end - all.begin;
  while (length > least && !fits(part(0, length), caps_)) length = std::max(least, round_up(ceil_div(length, 2), grain));
  for (int64_t begin = 0; begin < all.end - all.begin; begin += length) split_windows(part(begin, length));
}

void Lowering::rows(Dispatch whole, int64_t row_count, int64_t rows_per_group) {
  split(row_count, rows_per_group, [&](int64_t begin, int64_t length) {
    Dispatch d = whole;
    d.groups = ceil_div(length, rows_per_group);
    set_word(d, 0, begin);
    set_word(d, 1, begin + length);
    if (length == row_count) return d;
    for (Operand& o : d.operands) {
      if (!o.present() || o.outer_rank == 0) continue;
      const View outer = o.view.slice_axes(0, o.outer_rank).coalesced();
      if (outer.rank() != 1) continue;
      const View inner = o.view.slice_axes(o.outer_rank, o.view.rank());
      const View::Range r = inner.range();
      const int64_t first = begin * outer.strides[0];
      const int64_t last = (begin + length - 1) * outer.strides[0];
      o.window = {r.begin + std::min(first, last), r.end + std::max(first, last)};
    }
    return d;
  });
}

}  // namespace rlx
