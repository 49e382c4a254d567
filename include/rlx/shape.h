// Dimensions that are numbers or expressions in named symbols, and shapes made of them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What each symbol stands for: {{"batch", 4}, {"seq", 128}}.
using SymbolValues = std::map<std::string, int64_t, std::less<>>;

// A whole number, or a polynomial in symbols such as batch*seq + 1; kept in one canonical form, so that two
// dims are equal exactly when their texts are. floor_div, min and max make opaque factors: floor(n/2),
// min(m,n).
class Dim {
 public:
  Dim() = default;  // 0
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Dim(T number) : constant_(static_cast<int64_t>(number)) {}
  // The symbol of that name. Arithmetic needs a Dim first: Dim("past") + 1, or "past"_dim + 1; "past" + 1 is
  // the pointer to "ast".
  Dim(const char* symbol_name) : Dim(symbol(symbol_name)) {}
  Dim(const std::string& symbol_name) : Dim(symbol(symbol_name)) {}
  static Dim symbol(std::string name);
  static Dim parse(std::string_view text);  // what text() returns, and ordinary arithmetic on it

  bool is_static() const { return !terms_; }
  int64_t value() const;  // an error when symbolic
  bool is(int64_t number) const { return is_static() && constant_ == number; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim& operator*=(const Dim& b) { return *this = *this * b; }
  Dim& operator+=(const Dim& b) { return *this = *this + b; }
  friend bool operator==(const Dim& a, const Dim& b);

  Dim floor_div(int64_t divisor) const;
  Dim floor_div(const Dim& divisor) const;
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);
  // Below 0, 0 or above 0 as a is less than, equal to or greater than b whatever the symbols, which are sizes
  // and so not negative; nothing where that depends on them.
  static std::optional<int> compare(const Dim& a, const Dim& b);
  bool is_size() const;  // not negative whatever the symbols
  Dim ceil_div(int64_t divisor) const { return (*this + Dim(divisor - 1)).floor_div(divisor); }
  // a / b if there is no remainder whatever the values of the symbols, else nothing.
  static std::optional<Dim> exact_div(const Dim& a, const Dim& b);

  Dim bind(const SymbolValues& values) const;  // symbols that are not bound stay
  Dim replace(const std::string& symbol_name, const Dim& by) const;
  void collect_symbols(std::set<std::string>& into) const;
  std::string text() const;
  // The symbol's name when the dim is exactly one symbol.
  std::optional<std::string> as_symbol() const;

 private:
  struct Atom;  // a symbol, or what is computed from two dims
  struct Term;  // coefficient times atoms
  using Terms = std::vector<Term>;
  static Dim from_terms(int64_t constant, Terms terms);
  const Terms& terms() const;
  enum class AtomKind : uint8_t;
  static Dim computed(AtomKind kind, const Dim& a, const Dim& b);
  Dim leading_term() const;
  static std::optional<Dim> long_division(const Dim& a, const Dim& b);
  template <class Find>
  static Dim with_symbols(const Atom& atom, const Find& find);
  template <class Find>
  Dim with_symbols(const Find& find) const;  // find(name) is what takes the symbol's place

  int64_t constant_ = 0;
  std::shared_ptr<const Terms> terms_;  // null for a number: static shapes cost no allocation
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  Shape(const std::vector<int64_t>& dims) : dims_(dims.begin(), dims.end()) {}

  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  // From 0 to rank() - 1; anything else is an error.
  const Dim& operator[](int64_t axis) const { return dims_[checked(axis, rank())]; }
  Dim& operator[](int64_t axis) { return dims_[checked(axis, rank())]; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  void push_back(Dim d) { dims_.push_back(std::move(d)); }
  void insert(int64_t at, Dim d) {
    dims_.insert(dims_.begin() + static_cast<std::ptrdiff_t>(checked(at, rank() + 1)), std::move(d));
  }
  void erase(int64_t at) { dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(checked(at, rank()))); }
  friend bool operator==(const Shape&, const Shape&) = default;

  bool is_static() const;
  Dim elements() const;
  std::vector<int64_t> values() const;  // an error when a dim is symbolic
  Shape bind(const SymbolValues& values) const;
  std::string text() const;  // [batch, 128, 768]

 private:
  size_t checked(int64_t axis, int64_t end) const {
    if (axis < 0 || axis >= end) no_axis(axis);
    return static_cast<size_t>(axis);
  }
  [[noreturn]] void no_axis(int64_t axis) const;

  std::vector<Dim> dims_;
};

// NumPy's rule: aligned at the right, equal or one of them 1. `what` names the op in the error.
Shape broadcast(const Shape& a, const Shape& b, std::string_view what);

std::ostream& operator<<(std::ostream& out, const Dim& dim);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

// using namespace rlx::literals; "past"_dim + 1
inline namespace literals {
inline Dim operator""_dim(const char* symbol_name, size_t) { return Dim(symbol_name); }
}  // namespace literals

}  // namespace rlx
RLX_EXPORT_END
