// A list of arguments that a call only reads: braces, a vector, an array or a span of T.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <ranges>
#include <span>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

template <class T>
class List {
 public:
  List() = default;
  List(std::initializer_list<T> items) : items_(items.begin(), items.size()) {}
  template <std::ranges::contiguous_range R>
    requires std::convertible_to<const R&, std::span<const T>>
  List(const R& items) : items_(items) {}

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  std::span<const T> items_;
};

}  // namespace rlx
RLX_EXPORT_END
