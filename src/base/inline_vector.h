// A vector whose first elements lie in itself: lists that are short nearly always need no allocation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace rlx {

// As std::vector, except that up to N elements are not on the heap, and that it converts from and to one.
template <class T, size_t N>
class InlineVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() noexcept {}
  explicit InlineVector(size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> list) { append(list.begin(), list.end()); }
  template <std::forward_iterator I>
  InlineVector(I first, I last) {
    append(first, last);
  }
  InlineVector(const std::vector<T>& other) { append(other.begin(), other.end()); }
  InlineVector(const InlineVector& other) { append(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  ~InlineVector() { release(); }
  operator std::vector<T>() const { return {begin(), end()}; }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  iterator begin() { return data_; }
  iterator end() { return data_ + size_; }
  const_iterator begin() const { return data_; }
  const_iterator end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ < capacity_) return *std::construct_at(data_ + size_++, std::forward<Args>(args)...);
    T made(std::forward<Args>(args)...);  // they may be among the elements that move
    reserve(2 * capacity_);
    return *std::construct_at(data_ + size_++, std::move(made));
  }
  void push_back(const T& value) { emplace_back(value); }
  void push_back(T&& value) { emplace_back(std::move(value)); }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }
  void resize(size_t count, const T& value = T()) {
    while (size_ > count) pop_back();
    reserve(count);
    while (size_ < count) std::construct_at(data_ + size_++, value);
  }
  template <std::forward_iterator I>
  void assign(I first, I last) {
    clear();
    append(first, last);
  }
  iterator insert(const_iterator at, T value) { return insert(at, &value, &value + 1); }
  template <std::forward_iterator I>
  iterator insert(const_iterator at, I first, I last) {
    const auto index = at - begin();
    const size_t before = size_;
    append(first, last);
    std::rotate(begin() + index, begin() + before, end());
    return begin() + index;
  }
  iterator erase(const_iterator at) {
    T* const place = begin() + (at - begin());
    std::move(place + 1, end(), place);
    pop_back();
    return place;
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) { return std::ranges::equal(a, b); }

 private:
  void reserve(size_t count) {
    if (count <= capacity_) return;
    T* const larger = std::allocator<T>().allocate(count);
    std::uninitialized_move(begin(), end(), larger);
    const size_t size = size_;
    release();
    data_ = larger;
    size_ = size;
    capacity_ = count;
  }
  template <class I>
  void append(I first, I last) {
    const auto count = static_cast<size_t>(std::distance(first, last));
    reserve(size_ + count);
    std::uninitialized_copy(first, last, end());
    size_ += count;
  }
  // Takes what `other` holds, which is empty afterwards; this one is empty before.
  void take(InlineVector& other) noexcept {
    if (other.data_ == other.own_) {
      std::uninitialized_move(other.begin(), other.end(), data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.own_);
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    }
  }
  void release() {
    clear();
    if (data_ == own_) return;
    std::allocator<T>().deallocate(data_, capacity_);
    data_ = own_;
    capacity_ = N;
  }

  T* data_ = own_;
  size_t size_ = 0;
  size_t capacity_ = N;
  union {
    T own_[N];  // of which the first size_ exist, unless they are on the heap
  };
};

// As std::erase_if does for other containers.
template <class T, size_t N, class F>
void erase_if(InlineVector<T, N>& list, F&& unwanted) {
  const auto kept = std::remove_if(list.begin(), list.end(), std::forward<F>(unwanted));
  while (list.end() != kept) list.pop_back();
}

}  // namespace rlx
