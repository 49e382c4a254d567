#include "rlx/shape.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <ostream>

#include "base/checked.h"
#include "base/fail.h"

namespace rlx {

enum class Dim::AtomKind : uint8_t { symbol, floor_div, minimum };

struct Dim::Atom {
  std::string text;  // the name, or the canonical text of what is computed from a and b
  AtomKind kind = AtomKind::symbol;
  std::shared_ptr<const Dim> a = {}, b = {};

  class Proof;

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
constexpr size_t kMaxText = 4096;    // of a quotient or minimum: they nest
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
    text = "min(" + a.text() + "," + b.text() + ")";
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

// Shows that a dim is not negative whatever the symbols; not every such dim is recognised.
class Dim::Atom::Proof {
 public:
  bool not_negative(const Dim& dim) {
    if (dim.is_static()) return dim.constant_ >= 0;
    if (--steps_ < 0) return false;
    const auto is_plain = [&](const Term& t) { return t.coefficient > 0 && not_negative(t.atoms); };
    if (dim.constant_ >= 0 && std::ranges::all_of(dim.terms(), is_plain)) return true;
    std::vector<Atom> tried;
    for (const Term& t : dim.terms()) {
      for (const Atom& atom : t.atoms) {
        if (atom.kind == AtomKind::symbol || std::ranges::contains(tried, atom)) continue;
        tried.push_back(atom);
        if (atom.kind == AtomKind::minimum ? by_minimum(dim, atom) : by_quotient(dim, atom)) return true;
      }
    }
    return false;
  }

 private:
  bool not_negative(const std::vector<Atom>& product) {
    return std::ranges::all_of(product, [&](const Atom& atom) {
      return atom.kind == AtomKind::symbol || (not_negative(*atom.a) && not_negative(*atom.b));
    });
  }

  // A minimum is one of the two, so both must do; where it is only subtracted, it takes away no more than
  // either, and one is enough.
  bool by_minimum(const Dim& dim, const Atom& atom) {
    const bool subtracted = std::ranges::all_of(dim.terms(), [&](const Term& t) {
      if (!std::ranges::contains(t.atoms, atom)) return true;
      std::vector<Atom> others = t.atoms;
      others.erase(std::ranges::find(others, atom));
      return t.coefficient < 0 && !std::ranges::contains(others, atom) && not_negative(others);
    });
    const bool first = not_negative(with(dim, atom, *atom.a));
    if (first == subtracted) return first;
    return not_negative(with(dim, atom, *atom.b));
  }

  // (a - d + 1)/d <= floor(a/d) <= a/d: the dim times d, with one of these for the quotient.
  bool by_quotient(const Dim& dim, const Atom& atom) {
    if (!atom.b->is_static()) return false;
    int64_t coefficient = 0;
    for (const Term& t : dim.terms()) {
      if (!std::ranges::contains(t.atoms, atom)) continue;
      if (t.atoms.size() > 1) return false;
      coefficient = t.coefficient;
    }
    const Dim rest = with(dim, atom, Dim(0));
    const Dim bound = coefficient < 0 ? *atom.a : *atom.a - *atom.b + 1;
    return not_negative(rest * *atom.b + bound * Dim(coefficient));
  }

  static Dim with(const Dim& dim, const Atom& atom, const Dim& by) {
    Dim sum(dim.constant_);
    for (const Term& t : dim.terms()) {
      Dim product(t.coefficient);
      for (const Atom& factor : t.atoms) product *= factor == atom ? by : from_terms(0, {Term{1, {factor}}});
      sum += product;
    }
    return sum;
  }

  int steps_ = 256;  // that are left: each may need two more
};

bool Dim::is_size() const {
  if (is_static()) return constant_ >= 0;
  try {
    return Atom::Proof().not_negative(*this);
  } catch (const Error&) {
    return false;  // numbers beyond 64 bits on the way
  }
}

std::optional<int> Dim::compare(const Dim& a, const Dim& b) {
  if (a == b) return 0;
  if ((a - b - 1).is_size()) return 1;
  if ((b - a - 1).is_size()) return -1;
  return std::nullopt;
}

// In one form, whatever a and b have in common: min(a, b) = c + k*min((a - c)/k, (b - c)/k), with the c that
// leaves two sums without a common or a negative term, and the largest k. So what is cut off and what is left
// add up to the whole: min(n,1) + (n - min(n,1)) is n.
Dim Dim::min(const Dim& a, const Dim& b) {
  // Not compare: a may equal b for some values of the symbols and be larger for all others.
  const Dim difference = b - a;
  if (difference.is_size()) return a;
  if ((a - b).is_size()) return b;
  int64_t common = checked_mul(difference.constant_, -1);  // the smallest number has no magnitude
  for (const Term& t : difference.terms()) common = std::gcd(common, checked_mul(t.coefficient, -1));
  const auto part = [&](int64_t sign) {  // of the difference, the terms of that sign
    const auto of = [&](int64_t number) { return std::max<int64_t>(number / common * sign, 0); };
    Terms terms;
    for (const Term& t : difference.terms()) terms.push_back({of(t.coefficient), t.atoms});
    return from_terms(of(difference.constant_), std::move(terms));
  };
  const Dim less = part(-1);
  const Dim more = part(1);
  const Dim rest = a - less * Dim(common);
  // min(1, min(3, n)) = min(1, n)
  for (const auto& [one, other] : {std::pair(&less, &more), std::pair(&more, &less)}) {
    if (other->constant_ != 0 || other->terms().size() != 1 || other->terms()[0].coefficient != 1 ||
        other->terms()[0].atoms.size() != 1 || other->terms()[0].atoms[0].kind != AtomKind::minimum)
      continue;
    const Atom& inner = other->terms()[0].atoms[0];
    if ((*inner.a - *one).is_size()) return rest + Dim(common) * min(*one, *inner.b);
    if ((*inner.b - *one).is_size()) return rest + Dim(common) * min(*one, *inner.a);
  }
  const bool in_order = less.text() < more.text();
  return rest + Dim(common) * computed(AtomKind::minimum, in_order ? less : more, in_order ? more : less);
}

Dim Dim::max(const Dim& a, const Dim& b) { return a + b - min(a, b); }

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
  if constexpr (requires { find.whole(atom); }) {
    if (find.whole(atom)) return find.by;
  }
  switch (atom.kind) {
    case AtomKind::floor_div:
      return atom.a->with_symbols(find).floor_div(atom.b->with_symbols(find));
    case AtomKind::minimum:
      return min(atom.a->with_symbols(find), atom.b->with_symbols(find));
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
  struct Replace {
    const std::string& text;
    const Dim& by;
    bool whole(const Atom& atom) const { return atom.text == text; }
    Dim operator()(const std::string& name) const { return symbol(name); }
  };
  return with_symbols(Replace{symbol_name, by});
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
    // The first entry, if there is one, beside all of them.
    if (!mine.is_static() && other == Dim::min(mine, 1)) continue;
    if (!other.is_static() && mine == Dim::min(other, 1)) {
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
