// The accessors of an operand as WGSL: what a shader reads and writes a tensor with (the list is in
// binder.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/binder.h"
#include "kernels/kernel.h"

namespace rlx {

// The type of an array element of a binding.
std::string_view element_text(Element e);
std::string_view value_type(DType dtype, OperandDecl::Kind kind);
// The value as an operand of this kind has it: those declared `int` are i32.
std::string as_kind(const std::string& value, DType dtype, OperandDecl::Kind kind);

class AccessorWriter {
 public:
  AccessorWriter(const Kernel& kernel, const Pattern& pattern, size_t index);

  // What the operand has in the struct `views`.
  void members(std::string& out) const;
  void accessors(std::string& out) const;

 private:
  bool reads() const { return decl_.calls.get || decl_.calls.at; }
  // Of the struct `views`.
  std::string member(const ViewWord& w) const;

  void absent(std::string& out) const;
  void walk(std::string& out, WalkPart part) const;
  void has(std::string& out) const;
  void from_bits(std::string& out, std::string_view type) const;

  // The size of one array element of the binding.
  int64_t element_bytes() const;
  bool is_atomic() const { return element_ == Element::atomic_word || element_ == Element::atomic_i32; }
  // The type of an array element's value.
  std::string_view raw_type() const;
  bool packed() const {
    return device_bytes(p_.dtype) < 4 && element_ != Element::f16 && element_ != Element::vec4h;
  }
  int64_t per_word() const { return packed() ? 4 / static_cast<int64_t>(device_bytes(p_.dtype)) : 1; }
  bool is_words() const { return element_ == Element::word || element_ == Element::atomic_word; }

  // The statements that `body(binding, index)` makes, for the segment in which array element `index` lies.
  std::string in_segment(std::string_view index,
                         const std::function<std::string(int, std::string_view)>& body) const;
  // fn x_raw(i) reads one array element of the binding(s).
  void raw(std::string& out) const;
  // fn x_raw_set(i, v) writes one array element.
  void raw_set(std::string& out) const;

  // --- Reading (accessors_read.cpp) ---

  // An expression that reads element `index` of a binding's array.
  std::string load(const std::string& binding, const std::string& index) const;
  // The value of element e (0 .. per_word) of a word.
  std::string decode(const std::string& word, const std::string& e) const;
  // The value at position q of the binding's elements (offset included).
  std::string read(const std::string& q) const;
  void get(std::string& out) const;
  void get4(std::string& out) const;
  // Everything that reads an encoded operand.
  void decoding(std::string& out) const;

  // --- Writing (accessors_write.cpp) ---

  // The bits of a value, in the low end of a word.
  std::string encode(const std::string& v) const;
  // v as the binding's element type.
  std::string as_element(const std::string& v) const;
  void put(std::string& out) const;
  void put_plain(std::string& out) const;
  void put_atomic(std::string& out) const;
  void put4(std::string& out) const;
  void store_words(std::string& out) const;
  // y_add and the like: WGSL's own atomics where the binding has integers of that type, else a
  // compare-and-swap loop on the word that holds the element.
  void atomics(std::string& out) const;

  const Kernel& kernel_;
  const Pattern& pattern_;
  const OperandDecl& decl_;
  const OperandPattern& p_;
  Element element_;
  std::string x_;
};

}  // namespace rlx
