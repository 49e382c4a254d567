// Einstein's summation as products, reductions and views.
#include <algorithm>
#include <map>
#include <string>

#include "base/fail.h"
#include "ops/composed/composite.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

// A tensor and a label for each axis: letters, and digits for those of "...", counted from the last.
struct Term {
  Value value;
  std::string labels;
};

// "ab...c" for a tensor whose "..." has this many axes.
std::string labels_of(const std::string& text, int64_t rank, std::string_view equation) {
  const size_t dots = text.find("...");
  std::string letters = text;
  if (dots != std::string::npos) letters.erase(dots, 3);
  const bool valid = std::ranges::all_of(letters, [](unsigned char c) { return std::isalpha(c) != 0; });
  if (!valid) fail("einsum: '{}' in '{}' has something else than letters and one '...'", text, equation);
  const int64_t rest = rank - std::ssize(letters);
  if (rest < 0 || rest > 10 || (rest > 0 && dots == std::string::npos))
    fail("einsum: '{}' in '{}' does not name the {} axes of its tensor", text, equation, rank);
  if (dots == std::string::npos) return letters;
  std::string numbers;
  for (int64_t i = rest; i-- > 0;) numbers += static_cast<char>('0' + i);
  return letters.insert(dots, numbers);
}

int64_t axis_of(const Term& t, char label) { return static_cast<int64_t>(t.labels.find(label)); }
bool has(const std::string& labels, char label) { return labels.contains(label); }

Term transposed(const Term& t, const std::string& labels) {
  if (t.labels == labels) return t;
  std::vector<int64_t> perm;
  for (const char label : labels) perm.push_back(axis_of(t, label));
  return {transpose(t.value, perm), labels};
}

// Of axes with the same label only the diagonal remains: every (n + 1)-th element of both as one axis.
Term without_repeats(Term t) {
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const char label = t.labels[i];
    const size_t again = t.labels.find(label, i + 1);
    if (again == std::string::npos) continue;
    const Shape from = t.value.shape();
    const auto a = static_cast<int64_t>(i);
    const auto b = static_cast<int64_t>(again);
    if (from[a] != from[b]) fail("einsum: the axes '{}' of {} have different lengths", label, from.text());
    std::vector<int64_t> perm;
    Shape dims;
    std::string labels;
    for (int64_t axis = 0; axis < from.rank(); ++axis) {
      if (axis == a || axis == b) continue;
      perm.push_back(axis);
      dims.push_back(from[axis]);
      labels += t.labels[static_cast<size_t>(axis)];
    }
    perm.insert(perm.end(), {a, b});
    dims.push_back(from[a] * from[b]);
    if (!from[a].is_static()) fail("einsum: the length of the repeated axis '{}' must be known", label);
    const Value flat = reshape(transpose(t.value, perm), dims);
    t = {slice(flat, dims.rank() - 1, 0, from[a], from[a].value() + 1), labels + label};
    i = static_cast<size_t>(-1);  // from the beginning
  }
  return t;
}

Term summed(const Term& t, const std::string& kept) {
  std::vector<int64_t> axes;
  std::string labels;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (has(kept, t.labels[i])) {
      labels += t.labels[i];
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return axes.empty() ? t : Term{sum(t.value, axes), labels};
}

// Without axes of length 1 that the other has longer: they broadcast.
Term without_ones(const Term& t, const Term& other) {
  Shape dims;
  std::string labels;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const Dim& dim = t.value.shape()[static_cast<int64_t>(i)];
    if (dim.is(1) && has(other.labels, t.labels[i]) &&
        !other.value.shape()[axis_of(other, t.labels[i])].is(1))
      continue;
    dims.push_back(dim);
    labels += t.labels[i];
  }
  return labels == t.labels ? t : Term{reshape(t.value, dims), labels};
}

// With axes of length 1 for the labels that it does not have.
Value spread(const Term& t, const std::string& labels) {
  std::string own;
  for (const char label : labels) {
    if (has(t.labels, label)) own += label;
  }
  const Term ordered = transposed(t, own);
  Shape dims;
  for (const char label : labels)
    dims.push_back(has(own, label) ? ordered.value.shape()[axis_of(ordered, label)] : Dim(1));
  return reshape(ordered.value, dims);
}

Term product(const Term& left, const Term& right, const std::string& kept) {
  const Term a = summed(without_ones(left, right), kept + right.labels);
  const Term b = summed(without_ones(right, left), kept + left.labels);
  std::vector<int64_t> a_sums;
  std::vector<int64_t> b_sums;
  std::vector<int64_t> a_batch;
  std::vector<int64_t> b_batch;
  std::string labels;
  for (const char label : a.labels) {
    if (!has(b.labels, label)) continue;
    (has(kept, label) ? a_batch : a_sums).push_back(axis_of(a, label));
    (has(kept, label) ? b_batch : b_sums).push_back(axis_of(b, label));
    if (has(kept, label)) labels += label;
  }
  for (const char label : a.labels) {
    if (!has(b.labels, label)) labels += label;
  }
  for (const char label : b.labels) {
    if (!has(a.labels, label)) labels += label;
  }
  if (!a_sums.empty() && is_float(a.value.dtype()))
    return {dot_general(a.value, b.value, a_sums, b_sums, a_batch, b_batch), labels};
  std::string all = labels;
  for (const int64_t axis : a_sums) all += a.labels[static_cast<size_t>(axis)];
  return summed({spread(a, all) * spread(b, all), all}, kept);
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

Equation parse(std::string_view text, const std::vector<Value>& inputs) {
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += c;
  }
  const size_t arrow = plain.find("->");
  std::string left = plain.substr(0, arrow);
  Equation e;
  for (size_t at = 0; at != std::string::npos;) {
    const size_t comma = left.find(',', at);
    e.terms.push_back(left.substr(at, comma == std::string::npos ? comma : comma - at));
    at = comma == std::string::npos ? comma : comma + 1;
  }
  if (e.terms.size() != inputs.size())
    fail("einsum: '{}' has {} terms for {} tensors", text, e.terms.size(), inputs.size());
  std::map<char, int64_t> times;
  int64_t dots = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    e.terms[i] = labels_of(e.terms[i], inputs[i].shape().rank(), text);
    for (const char label : e.terms[i]) ++times[label];
    dots = std::max<int64_t>(dots, std::ranges::count_if(e.terms[i], [](char c) { return c <= '9'; }));
  }
  if (arrow == std::string::npos) {
    for (int64_t i = dots; i-- > 0;) e.result += static_cast<char>('0' + i);
    for (const auto& [label, count] : times) {
      if (label > '9' && count == 1) e.result += label;
    }
    return e;
  }
  const std::string right = plain.substr(arrow + 2);
  const bool has_dots = right.contains("...");
  e.result = labels_of(right, std::ssize(right) - (has_dots ? 3 - dots : 0), text);
  for (const char label : e.result) {
    if (!times.contains(label) || std::ranges::count(e.result, label) > 1)
      fail("einsum: '{}' has '{}' in its result, which no term has, or the result has twice", text, label);
  }
  return e;
}

}  // namespace

Value einsum(std::string_view equation, const std::vector<Value>& inputs) {
  if (inputs.empty()) fail("einsum: '{}' has no tensors", equation);
  const Equation e = parse(equation, inputs);
  Term all = without_repeats({inputs[0], e.terms[0]});
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::string kept = e.result;
    for (size_t later = i + 1; later < inputs.size(); ++later) kept += e.terms[later];
    all = product(all, without_repeats({inputs[i], e.terms[i]}), kept);
  }
  return transposed(summed(all, e.result), e.result).value;
}

namespace {

struct Einsum final : Composite<Einsum> {
  static constexpr auto kName = "einsum";
  static constexpr int64_t kLeast = 1, kMost = kMany;
  std::string equation;
  void visit_attributes(AttributeVisitor& v) override { v("equation", equation); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const { return {einsum(equation, in)}; }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    double terms = 1;
    for (const TensorType& t : inputs)
      terms = std::max(terms, static_cast<double>(t.shape.elements().value()));
    return {.ulps = 4, .terms = terms, .scale = 4 * std::sqrt(terms)};
  }
};

}  // namespace

namespace ops {
void register_einsum(OpTable& table) {
  add_composite<Einsum>(
      table, "Einstein's summation: equation=\"bij,bjk->bik\"",
      {.operands = "inputs...: a tensor for each term of the equation",
       .attributes = "equation: a letter for each axis of the inputs and of the result; letters "
                     "that the result lacks are summed over, and `...` stands for axes that broadcast"},
      kFloatTypes,
      {"(T[2,5,7], T[2,7,3]) {equation=\"bij,bjk->bik\"}", "(T[5,5]) {equation=\"ii->i\"}",
       "(T[4], T[3]) {equation=\"i,j\"}"});
}
}  // namespace ops

}  // namespace rlx
