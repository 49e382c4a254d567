#include "ir/view.h"

#include "base/checked.h"
#include "base/format.h"
#include "rlx/shape.h"

namespace rlx {
namespace {
size_t at(int64_t i) { return static_cast<size_t>(i); }
}  // namespace

int64_t product(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n = checked_mul(n, d);
  return n;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (int64_t i = static_cast<int64_t>(dims.size()) - 1; i >= 0; --i) {
    strides[at(i)] = step;
    step = checked_mul(step, dims[at(i)]);
  }
  return strides;
}

Dims dims_of(const Shape& shape) {
  Dims dims;
  for (const Dim& d : shape) dims.push_back(d.value());
  return dims;
}

View View::contiguous(Dims dims) {
  Dims strides = row_major_strides(dims);
  return View{std::move(dims), std::move(strides), 0};
}

int64_t View::elements() const { return product(dims); }

bool View::is_contiguous() const {
  if (elements() == 0) return true;
  const Dims dense = row_major_strides(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

View::Range View::range() const {
  if (elements() == 0) return {offset, offset};
  Range r{offset, offset + 1};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t reach = (dims[i] - 1) * strides[i];
    (reach < 0 ? r.begin : r.end) += reach;
  }
  return r;
}

View::Range View::range_of(int64_t begin, int64_t end) const {
  View box = *this;
  int64_t left = elements();
  int64_t first = begin;
  int64_t last = end - 1;
  for (int64_t axis = 0; axis < rank(); ++axis) {
    left /= dims[static_cast<size_t>(axis)];
    const int64_t from = first / left;
    const int64_t to = last / left;
    box = box.slice(axis, from, to - from + 1);
    if (from != to) break;
    first %= left;
    last %= left;
  }
  return box.range();
}

View View::permute(const Dims& order) const {
  View out{.dims = {}, .strides = {}, .offset = offset};
  for (int64_t axis : order) {
    out.dims.push_back(dims[at(axis)]);
    out.strides.push_back(strides[at(axis)]);
  }
  return out;
}

View View::slice(int64_t axis, int64_t start, int64_t length, int64_t step) const {
  View out = *this;
  if (length > 0) out.offset += start * strides[at(axis)];
  out.dims[at(axis)] = length;
  out.strides[at(axis)] *= step;
  return out;
}

View View::broadcast_to(const Dims& target) const {
  View out{target, Dims(target.size(), 0), offset};
  const size_t shift = target.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    out.strides[shift + i] = dims[i] == 1 && target[shift + i] != 1 ? 0 : strides[i];
  }
  return out;
}

View View::coalesced() const {
  View out{.dims = {}, .strides = {}, .offset = offset};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!out.dims.empty() && out.strides.back() == dims[i] * strides[i]) {
      out.dims.back() *= dims[i];
      out.strides.back() = strides[i];
    } else {
      out.dims.push_back(dims[i]);
      out.strides.push_back(strides[i]);
    }
  }
  return out;
}

std::optional<View> View::reshape(const Dims& target) const {
  if (elements() == 0) {
    View empty = contiguous(target);
    empty.offset = offset;
    return empty;
  }
  // Each joined axis of the source is split into a run of target axes whose product it is.
  const View source = coalesced();
  View out{target, Dims(target.size(), 0), offset};
  int64_t axis = static_cast<int64_t>(target.size()) - 1;
  for (int64_t s = source.rank() - 1; s >= 0; --s) {
    int64_t left = source.dims[at(s)];
    int64_t stride = source.strides[at(s)];
    while (left > 1) {
      if (axis < 0 || left % target[at(axis)] != 0) return std::nullopt;
      out.strides[at(axis)] = stride;
      stride *= target[at(axis)];
      left /= target[at(axis)];
      --axis;
    }
  }
  return out;  // what remains has length 1
}

View View::split_axis(int64_t axis, int64_t outer) const {
  View out = *this;
  const int64_t inner = dims[at(axis)] / outer;
  out.dims[at(axis)] = inner;
  out.dims.insert(out.dims.begin() + axis, outer);
  out.strides.insert(out.strides.begin() + axis, strides[at(axis)] * inner);
  return out;
}

View View::slice_axes(int64_t begin, int64_t end) const {
  return View{
      {dims.begin() + begin, dims.begin() + end}, {strides.begin() + begin, strides.begin() + end}, offset};
}

std::string View::text() const {
  std::string out = "[";
  out += joined(std::views::zip(dims, strides),
                [](const auto& axis) { return formatted("{}*{}", std::get<0>(axis), std::get<1>(axis)); });
  return out + (offset ? formatted("]+{}", offset) : "]");
}

}  // namespace rlx
