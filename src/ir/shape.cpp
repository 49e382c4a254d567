#include "rlx/shape.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ostream>

#include "base/checked.h"
#include "base/fail.h"

namespace rlx {

enum class Dim::AtomKind : uint8_t { symbol, floor_div, minimum, maximum };

struct Dim::Atom {
  std::string text;  // the name, or the canonical text of what is computed from a and b
  AtomKind kind = AtomKind::symbol;
  std::shared_ptr<const Dim> a = {}, b = {};

  friend bool operator==(const Atom& a, const Atom& b) { return a.text == b.text; }
  friend auto operator<=>(const Atom& a, const Atom& b) { return a.text <=> b.text; }
};

struct Dim::Term {
  int64_t coefficient;
  std::vector<Atom> atoms;  // sorted, not empty
};

namespace {
// Anything larger is a mistake, and the next product of two such sums would fill the memory.
constexpr size_t kMaxTerms = 256;    // of a sum
constexpr size_t kMaxFactors = 256;  // of a product
constexpr size_t kMaxText = 4096;    // of a quotient, minimum or maximum: they nest
}  // namespace

const Dim::Terms& Dim::terms() const {
  static const Terms none;
  return terms_ ? *terms_ : none;
}

Dim Dim::from_terms(int64_t constant, Terms terms) {
  std::ranges::sort(terms, {}, &Term::atoms);
  Terms merged;
  for (Term& term : terms) {
    if (!merged.empty() && merged.back().atoms == term.atoms) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Term& t) { return t.coefficient == 0; });
  if (merged.size() > kMaxTerms) {
    fail("a dimension is a sum of {} products of symbols; more than {} are not supported", merged.size(),
         kMaxTerms);
  }
  Dim dim(constant);
  if (!merged.empty()) dim.terms_ = std::make_shared<const Terms>(std::move(merged));
  return dim;
}

Dim Dim::symbol(std::string name) {
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)); };
  if (name.empty() || !letter(name[0]) || !std::ranges::all_of(name, inner) || name == "floor" ||
      name == "inf" || name == "nan") {
    fail("'{}' is not a name for a symbolic dimension; use letters, digits and _", excerpt(name));
  }
  return from_terms(0, {Term{1, {Atom{std::move(name)}}}});
}

int64_t Dim::value() const {
  if (terms_) fail("the dimension {} is symbolic where a number is needed", text());
  return constant_;
}

Dim operator+(const Dim& a, const Dim& b) {
  const int64_t constant = checked_add(a.constant_, b.constant_);
  if (a.is_static() && b.is_static()) return Dim(constant);
  Dim::Terms terms = a.terms();
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  return Dim::from_terms(constant, std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  const int64_t constant = checked_mul(a.constant_, b.constant_);
  if (a.is_static() && b.is_static()) return Dim(constant);
  Dim::Terms terms;
  const auto scaled = [&](const Dim& of, int64_t factor) {
    for (const Dim::Term& t : of.terms()) terms.push_back({checked_mul(t.coefficient, factor), t.atoms});
  };
  scaled(a, b.constant_);
  scaled(b, a.constant_);
  for (const Dim::Term& x : a.terms()) {
    for (const Dim::Term& y : b.terms()) {
      if (x.atoms.size() + y.atoms.size() > kMaxFactors)
        fail("a dimension is a product of more than {} symbols, which is not supported", kMaxFactors);
      std::vector<Dim::Atom> atoms = x.atoms;
      atoms.insert(atoms.end(), y.atoms.begin(), y.atoms.end());
      std::ranges::sort(atoms);
      terms.push_back({checked_mul(x.coefficient, y.coefficient), std::move(atoms)});
    }
  }
  return Dim::from_terms(constant, std::move(terms));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_ || a.is_static() != b.is_static()) return false;
  return std::ranges::equal(a.terms(), b.terms(), [](const Dim::Term& x, const Dim::Term& y) {
    return x.coefficient == y.coefficient && x.atoms == y.atoms;
  });
}

namespace {
int64_t floor_quotient(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
}  // namespace

Dim Dim::floor_div(int64_t divisor) const {
  if (divisor <= 0) fail("a dimension cannot be divided by {}", divisor);
  if (divisor == 1) return *this;
  if (is_static()) return Dim(floor_quotient(constant_, divisor));
  // floor((d*x + r)/d) = x + floor(r/d): what divides evenly moves out of the floor.
  Terms outside;
  Terms inside;
  for (const Term& t : terms()) {
    if (t.coefficient % divisor == 0) {
      outside.push_back({t.coefficient / divisor, t.atoms});
    } else {
      inside.push_back(t);
    }
  }
  const int64_t whole = floor_quotient(constant_, divisor);
  if (inside.empty()) return from_terms(whole, std::move(outside));
  const Dim rest = from_terms(constant_ - whole * divisor, std::move(inside));
  return from_terms(whole, std::move(outside)) + computed(AtomKind::floor_div, rest, Dim(divisor));
}

Dim Dim::computed(AtomKind kind, const Dim& a, const Dim& b) {
  std::string text;
  if (kind == AtomKind::floor_div) {
    text = "floor((" + a.text() + ")/" + (b.is_static() ? b.text() : "(" + b.text() + ")") + ")";
  } else {
    text = (kind == AtomKind::minimum ? "min(" : "max(") + a.text() + "," + b.text() + ")";
  }
  if (text.size() > kMaxText) fail("a dimension has a text of more than {} characters", kMaxText);
  return from_terms(
      0,
      {Term{1,
            {Atom{std::move(text), kind, std::make_shared<const Dim>(a), std::make_shared<const Dim>(b)}}}});
}

Dim Dim::floor_div(const Dim& divisor) const {
  if (divisor.is_static()) return floor_div(divisor.constant_);
  if (const auto quotient = exact_div(*this, divisor)) return *quotient;
  return computed(AtomKind::floor_div, *this, divisor);
}

bool Dim::is_size() const {
  const auto not_negative = [](const Atom& atom) {
    switch (atom.kind) {
      case AtomKind::symbol:
        return true;
      case AtomKind::floor_div:
      case AtomKind::minimum:
        return atom.a->is_size() && atom.b->is_size();
      case AtomKind::maximum:
        return atom.a->is_size() || atom.b->is_size();
    }
    return false;
  };
  return constant_ >= 0 && std::ranges::all_of(terms(), [&](const Term& t) {
           return t.coefficient > 0 && std::ranges::all_of(t.atoms, not_negative);
         });
}

std::optional<int> Dim::compare(const Dim& a, const Dim& b) {
  if (a == b) return 0;
  const Dim more = a - b;
  if (more.constant_ > 0 && more.is_size()) return 1;
  const Dim less = b - a;
  if (less.constant_ > 0 && less.is_size()) return -1;
  return std::nullopt;
}

Dim Dim::extremum(AtomKind kind, const Dim& a, const Dim& b) {
  // Not compare: a may equal b for some values of the symbols and be larger for all others.
  const bool minimum = kind == AtomKind::minimum;
  if ((b - a).is_size()) return minimum ? a : b;
  if ((a - b).is_size()) return minimum ? b : a;
  return a.text() < b.text() ? computed(kind, a, b) : computed(kind, b, a);
}

Dim Dim::min(const Dim& a, const Dim& b) { return extremum(AtomKind::minimum, a, b); }
Dim Dim::max(const Dim& a, const Dim& b) { return extremum(AtomKind::maximum, a, b); }

// The term of the highest degree; of several, the last in the order of their atoms.
Dim Dim::leading_term() const {
  if (!terms_) return Dim(constant_);
  const auto less = [](const Term& a, const Term& b) {
    if (a.atoms.size() != b.atoms.size()) return a.atoms.size() < b.atoms.size();
    return std::ranges::lexicographical_compare(a.atoms, b.atoms);
  };
  return from_terms(0, {*std::ranges::max_element(terms(), less)});
}

// By a sum of several terms: leading terms are divided one after the other.
std::optional<Dim> Dim::long_division(const Dim& a, const Dim& b) {
  constexpr int kMostSteps = 64;
  const Dim divisor = b.leading_term();
  Dim quotient = 0;
  Dim rest = a;
  for (int step = 0; step < kMostSteps && !rest.is(0); ++step) {
    const std::optional<Dim> part = exact_div(rest.leading_term(), divisor);
    if (!part) return std::nullopt;
    quotient = quotient + *part;
    rest = rest - *part * b;
  }
  return rest.is(0) ? std::optional(quotient) : std::nullopt;
}

std::optional<Dim> Dim::exact_div(const Dim& a, const Dim& b) {
  if (b.is(0)) return std::nullopt;
  if (a == b) return Dim(1);
  if (b.terms().size() > 1 || (b.terms_ && b.constant_ != 0)) return long_division(a, b);
  const int64_t number = b.terms_ ? b.terms()[0].coefficient : b.constant_;
  std::vector<Atom> divisor_atoms;
  if (b.terms_) divisor_atoms = b.terms()[0].atoms;
  if (a.constant_ != 0 && (!divisor_atoms.empty() || a.constant_ % number != 0)) return std::nullopt;
  Terms quotient;
  int64_t constant = a.constant_ == 0 ? 0 : a.constant_ / number;
  for (const Term& t : a.terms()) {
    if (t.coefficient % number != 0 || !std::ranges::includes(t.atoms, divisor_atoms)) return std::nullopt;
    std::vector<Atom> atoms;
    std::ranges::set_difference(t.atoms, divisor_atoms, std::back_inserter(atoms));
    if (atoms.empty()) {
      constant += t.coefficient / number;
    } else {
      quotient.push_back({t.coefficient / number, std::move(atoms)});
    }
  }
  return from_terms(constant, std::move(quotient));
}

template <class Find>
Dim Dim::with_symbols(const Atom& atom, const Find& find) {
  switch (atom.kind) {
    case AtomKind::floor_div:
      return atom.a->with_symbols(find).floor_div(atom.b->with_symbols(find));
    case AtomKind::minimum:
      return min(atom.a->with_symbols(find), atom.b->with_symbols(find));
    case AtomKind::maximum:
      return max(atom.a->with_symbols(find), atom.b->with_symbols(find));
    case AtomKind::symbol:
      break;
  }
  return find(atom.text);
}

template <class Find>
Dim Dim::with_symbols(const Find& find) const {
  if (is_static()) return *this;
  Dim sum(constant_);
  for (const Term& t : terms()) {
    Dim product(t.coefficient);
    for (const Atom& atom : t.atoms) {
      product *= with_symbols(atom, find);
    }
    sum += product;
  }
  return sum;
}

Dim Dim::bind(const SymbolValues& values) const {
  return with_symbols([&](const std::string& name) {
    const auto it = values.find(name);
    return it == values.end() ? symbol(name) : Dim(it->second);
  });
}

Dim Dim::replace(const std::string& symbol_name, const Dim& by) const {
  return with_symbols([&](const std::string& name) { return name == symbol_name ? by : symbol(name); });
}

void Dim::collect_symbols(std::set<std::string>& into) const {
  for (const Term& t : terms()) {
    for (const Atom& atom : t.atoms) {
      if (atom.kind == AtomKind::symbol) {
        into.insert(atom.text);
      } else {
        atom.a->collect_symbols(into);
        atom.b->collect_symbols(into);
      }
    }
  }
}

std::optional<std::string> Dim::as_symbol() const {
  if (constant_ != 0 || terms().size() != 1) return std::nullopt;
  const Term& t = terms()[0];
  if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0].kind != AtomKind::symbol) return std::nullopt;
  return t.atoms[0].text;
}

std::string Dim::text() const {
  std::string out;
  for (const Term& t : terms()) {
    std::string product;
    const int64_t magnitude = t.coefficient < 0 ? -t.coefficient : t.coefficient;
    if (magnitude != 1) product = std::to_string(magnitude);
    for (const Atom& atom : t.atoms) product += (product.empty() ? "" : "*") + atom.text;
    out += (t.coefficient < 0 ? "-" : out.empty() ? "" : "+") + product;
  }
  if (constant_ != 0 || out.empty()) {
    out += (constant_ >= 0 && !out.empty() ? "+" : "") + std::to_string(constant_);
  }
  return out;
}

namespace {

// sum := product (('+'|'-') product)*; product := factor ('*' factor)*; factor := number | name |
// floor(sum/factor) | min(sum,sum) | max(sum,sum) | (sum)
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim all() {
    const Dim dim = sum();
    if (!peek_is('\0')) wrong();
    return dim;
  }

 private:
  Dim sum() {
    Dim total = take('-') ? Dim(-1) * product() : product();
    while (true) {
      if (take('+')) {
        total += product();
      } else if (take('-')) {
        total = total - product();
      } else {
        return total;
      }
    }
  }
  Dim product() {
    Dim total = factor();
    while (take('*')) total *= factor();
    return total;
  }
  Dim factor() {
    if (++depth_ > 64) wrong();
    Dim result;
    if (take('(')) {
      result = sum();
      expect(')');
    } else if (peek_is('0', '9')) {
      result = Dim(number());
    } else {
      const std::string name = word();
      if (name == "floor") {
        expect('(');
        const Dim dividend = sum();
        expect('/');
        const Dim divisor = factor();
        expect(')');
        result = dividend.floor_div(divisor);
      } else if ((name == "min" || name == "max") && take('(')) {
        const Dim a = sum();
        expect(',');
        const Dim b = sum();
        expect(')');
        result = name == "min" ? Dim::min(a, b) : Dim::max(a, b);
      } else {
        result = Dim::symbol(name);
      }
    }
    --depth_;
    return result;
  }
  int64_t number() {
    skip_spaces();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc()) wrong();
    at_ = static_cast<size_t>(end - text_.data());
    return n;
  }
  std::string word() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    if (begin == at_) wrong();
    return std::string(text_.substr(begin, at_ - begin));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek_is(char first, char last) {
    skip_spaces();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    return c >= first && c <= last;
  }
  bool peek_is(char c) { return peek_is(c, c); }
  bool take(char c) {
    if (!peek_is(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) wrong();
  }
  [[noreturn]] void wrong() {
    fail("'{}' is not a dimension (stopped at character {})", excerpt(text_), at_ + 1);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) { return DimParser(text).all(); }

void Shape::no_axis(int64_t axis) const {
  fail("the shape {} has rank {}; there is no axis {}", excerpt(text()), rank(), axis);
}

bool Shape::is_static() const { return std::ranges::all_of(dims_, &Dim::is_static); }

Dim Shape::elements() const {
  Dim product(1);
  for (const Dim& d : dims_) product *= d;
  return product;
}

std::vector<int64_t> Shape::values() const {
  std::vector<int64_t> out;
  for (const Dim& d : dims_) out.push_back(d.value());
  return out;
}

Shape Shape::bind(const SymbolValues& values) const {
  Shape out;
  for (const Dim& d : dims_) out.push_back(d.bind(values));
  return out;
}

std::string Shape::text() const {
  std::string out = "[";
  for (const Dim& d : dims_) out += (out.size() > 1 ? ", " : "") + d.text();
  return out + "]";
}

Shape broadcast(const Shape& a, const Shape& b, std::string_view what) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  const int64_t shift = longer.rank() - shorter.rank();
  for (int64_t i = 0; i < shorter.rank(); ++i) {
    Dim& mine = out[shift + i];
    const Dim& other = shorter[i];
    if (mine == other || other.is(1)) continue;
    if (mine.is(1)) {
      mine = other;
      continue;
    }
    fail("{}: the shapes {} and {} do not broadcast: {} against {} on axis {} of the result", what, a.text(),
         b.text(), longer[shift + i].text(), other.text(), shift + i);
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const Dim& dim) { return out << dim.text(); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.text(); }

}  // namespace rlx
