#include "runtime/given_symbols.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/fail.h"
#include "ir/op.h"
#include "ir/run_sizes.h"

namespace rlx {

GivenSymbols::GivenSymbols(const Graph& graph) {
  const std::map<std::string, RunSymbol> of_run = run_symbols(graph);
  for (const std::string& name : graph.symbols()) {
    if (of_run.contains(name)) {
      of_run_.push_back(name);
      continue;
    }
    const auto it = graph.capacities().find(name);
    symbols_.push_back({name, -1, it == graph.capacities().end() ? 0 : it->second});
  }
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const Shape& shape = n.outputs[0].shape;
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis].is_static() || shape[axis].as_symbol()) continue;
      std::optional<Sum> sum = sum_of(shape[axis]);
      if (!sum) continue;
      sum->input = n.name;
      sum->axis = static_cast<size_t>(axis);
      sums_.push_back(*std::move(sum));
    }
  }
}

// Its values at 0 and 1 tell the coefficients, if it is a sum at all; a third point tells that.
std::optional<GivenSymbols::Sum> GivenSymbols::sum_of(const Dim& dim) const {
  SymbolValues zeros;
  std::set<std::string> names;
  dim.collect_symbols(names);
  for (const std::string& name : names) zeros[name] = 0;
  try {
    Sum out{.constant = dim.bind(zeros).value()};
    int64_t at_third = out.constant;
    SymbolValues third;
    int64_t value = 2;
    for (const std::string& name : names) {
      const auto it = std::ranges::find(symbols_, name, &Symbol::name);
      if (it == symbols_.end()) return std::nullopt;
      SymbolValues one = zeros;
      one[name] = 1;
      const int64_t factor = checked_add(dim.bind(one).value(), checked_mul(out.constant, -1));
      out.terms.emplace_back(static_cast<size_t>(it - symbols_.begin()), factor);
      third[name] = ++value;
      at_third = checked_add(at_third, checked_mul(factor, value));
    }
    if (dim.bind(third).value() != at_third) return std::nullopt;
    return out;
  } catch (const Error&) {
    return std::nullopt;  // a division by a symbol that is 0
  }
}

GivenSymbols::Symbol* GivenSymbols::find(std::string_view name) {
  const auto it = std::ranges::find(symbols_, name, &Symbol::name);
  return it == symbols_.end() ? nullptr : &*it;
}

void GivenSymbols::set(std::string_view name, int64_t value, std::string_view from) {
  Symbol* symbol = find(name);
  if (!symbol && std::ranges::contains(of_run_, name)) {
    fail(ErrorKind::invalid_argument, "the symbol '{}' was given, but only the run knows it", name);
  }
  if (!symbol) fail(ErrorKind::invalid_argument, "the graph has no symbol named '{}'", name);
  const auto who = [&] { return from.empty() ? std::string("the caller") : formatted("'{}'", from); };
  if (value < 0) {
    fail(ErrorKind::invalid_argument, "{} makes the symbol '{}' {}; it cannot be negative", who(), name,
         value);
  }
  if (symbol->value >= 0 && symbol->value != value) {
    fail(ErrorKind::invalid_argument, "{} makes the symbol '{}' {}, but it is {} elsewhere in this run",
         who(), name, value, symbol->value);
  }
  if (symbol->capacity > 0 && value > symbol->capacity) {
    fail(ErrorKind::invalid_argument, "{} makes the symbol '{}' {}, more than its capacity {}", who(), name,
         value, symbol->capacity);
  }
  symbol->value = value;
}

// Without a shape, the number of elements determines one unknown symbol.
void GivenSymbols::bind_by_length(const Shape& shape, const InputRef& input) {
  int64_t known = 1;
  const Dim* unknown = nullptr;
  for (const Dim& d : shape) {
    const auto name = d.as_symbol();
    const Symbol* symbol = name ? find(*name) : nullptr;
    if (d.is_static()) {
      known = checked_mul(known, d.value());
    } else if (symbol && symbol->value >= 0) {
      known = checked_mul(known, symbol->value);
    } else if (symbol && !unknown) {
      unknown = &d;
    } else {
      fail(ErrorKind::invalid_argument,
           "the input '{}' is {}: give its shape; its length alone does not determine it", input.name,
           shape.text());
    }
  }
  if (!unknown) return;
  const int64_t count = host_elements_in(input.dtype, static_cast<int64_t>(input.bytes));
  if (known == 0 || count % known != 0 || host_bytes_of(input.dtype, count) != input.bytes) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {} of {}, which {} bytes cannot fill", input.name,
         shape.text(), to_string(input.dtype), input.bytes);
  }
  set(*unknown->as_symbol(), count / known, input.name);
}

namespace {

[[noreturn]] void fail_no_input(const Graph& graph, std::string_view name) {
  std::vector<std::string> inputs;
  for (const Node& n : graph.nodes()) {
    if (n.op->is(LeafKind::input)) inputs.push_back(n.name);
  }
  fail(ErrorKind::invalid_argument, "the graph '{}' has no input named '{}'; it has: {}", graph.name, name,
       excerpt(joined(inputs), 500));
}

[[noreturn]] void fail_undetermined(const Graph& graph, const std::string& symbol, List<InputRef> given) {
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input) || std::ranges::contains(given, n.name, &InputRef::name)) continue;
    const auto is_symbol = [&](const Dim& d) { return d.as_symbol() == symbol; };
    if (std::ranges::any_of(n.outputs[0].shape, is_symbol)) {
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given, so the symbol '{}' has no value",
           n.name, n.outputs[0].text(), symbol);
    }
  }
  fail(ErrorKind::invalid_argument, "no input of this run determines the symbol '{}'; give its value",
       symbol);
}

}  // namespace

void GivenSymbols::bind(const Graph& graph, List<InputRef> inputs, SymbolList given) {
  for (Symbol& s : symbols_) s.value = -1;
  for (const auto& [name, value] : given) set(name, value, "");
  for (const InputRef& in : inputs) {
    if (&*std::ranges::find(inputs, in.name, &InputRef::name) != &in)
      fail(ErrorKind::invalid_argument, "the input '{}' was given twice", in.name);
    const int32_t node = graph.find(in.name);
    if (node < 0 || !graph.node(node).op->is(LeafKind::input)) fail_no_input(graph, in.name);
    const Shape& shape = graph.node(node).outputs[0].shape;
    if (shape.is_static()) continue;
    if (in.shape.empty()) {
      bind_by_length(shape, in);
      continue;
    }
    if (static_cast<int64_t>(in.shape.size()) != shape.rank()) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", in.name, shape.text(),
           Shape(in.shape).text());
    }
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      if (const auto name = shape[axis].as_symbol()) set(*name, in.shape[static_cast<size_t>(axis)], in.name);
    }
  }
  solve_all(inputs);
  for (const Symbol& s : symbols_) {
    if (s.value < 0) fail_undetermined(graph, s.name, inputs);
  }
}

// Each symbol that is found may determine another one.
void GivenSymbols::solve_all(List<InputRef> inputs) {
  const auto is_open = [](const Symbol& s) { return s.value < 0; };
  for (bool found = true; found && std::ranges::any_of(symbols_, is_open);) {
    found = false;
    for (const Sum& sum : sums_) {
      const auto it = std::ranges::find(inputs, std::string_view(sum.input), &InputRef::name);
      if (it != inputs.end() && sum.axis < it->shape.size()) found = solve(sum, *it) || found;
    }
  }
}

bool GivenSymbols::solve(const Sum& sum, const InputRef& input) {
  int64_t rest = checked_add(input.shape[sum.axis], checked_mul(sum.constant, -1));
  const std::pair<size_t, int64_t>* open = nullptr;
  for (const auto& term : sum.terms) {
    const int64_t value = symbols_[term.first].value;
    if (value >= 0) {
      rest = checked_add(rest, checked_mul(checked_mul(value, term.second), -1));
    } else if (open) {
      return false;
    } else {
      open = &term;
    }
  }
  if (!open || open->second == 0) return false;
  if (rest % open->second != 0) {
    fail(ErrorKind::invalid_argument, "the input '{}' has {} elements along axis {}, which no '{}' gives",
         input.name, input.shape[sum.axis], sum.axis, symbols_[open->first].name);
  }
  set(symbols_[open->first].name, rest / open->second, input.name);
  return true;
}

bool GivenSymbols::equal(const SymbolValues& values) const {
  return std::ranges::equal(symbols_, values, [](const Symbol& s, const auto& item) {
    return s.name == item.first && s.value == item.second;
  });
}

bool GivenSymbols::equal_at_capacity(const SymbolValues& values) const {
  return std::ranges::equal(symbols_, values, [](const Symbol& s, const auto& item) {
    return s.name == item.first && s.largest() == item.second;
  });
}

void GivenSymbols::copy_to(SymbolValues& values) const {
  for (const Symbol& s : symbols_) values[s.name] = s.value;
}

SymbolValues GivenSymbols::at_capacity() const {
  SymbolValues out;
  for (const Symbol& s : symbols_) out[s.name] = s.largest();
  return out;
}

void GivenSymbols::bind(const SymbolValues& values) {
  for (Symbol& s : symbols_) {
    const auto it = values.find(s.name);
    if (it == values.end())
      fail(ErrorKind::invalid_argument, "the plan depends on the symbol '{}'; give its value", s.name);
    if (it->second < 0)
      fail(ErrorKind::invalid_argument, "the symbol '{}' is {}; it cannot be negative", s.name, it->second);
    if (s.capacity > 0 && it->second > s.capacity) {
      fail(ErrorKind::invalid_argument, "the symbol '{}' is {}, more than its capacity {}", s.name,
           it->second, s.capacity);
    }
    s.value = it->second;
  }
}

}  // namespace rlx
