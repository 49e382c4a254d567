// The symbols of a graph that the caller gives, and what they stand for in one run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rlx/executable.h"

namespace rlx {

class GivenSymbols {
 public:
  explicit GivenSymbols(const Graph& graph);

  // Takes the value of each symbol from the shapes of the inputs and from what is given; an error if one has
  // no value or two. Allocates nothing.
  void bind(const Graph& graph, List<InputRef> inputs, SymbolList given);

  // Gives the symbols these values; an error that names the symbol unless all have a possible one.
  void bind(const SymbolValues& values);

  bool empty() const { return symbols_.empty(); }
  // Whether the symbols have these values, all of them.
  bool equal(const SymbolValues& values) const;
  // The same where symbols that have a capacity have that value: what memory is planned for.
  bool equal_at_capacity(const SymbolValues& values) const;
  // Gives `values` those of the symbols. Allocates nothing if all are there.
  void copy_to(SymbolValues& values) const;
  SymbolValues at_capacity() const;

 private:
  struct Symbol {
    std::string name;
    int64_t value = -1;
    int64_t capacity = 0;  // 0: none

    int64_t largest() const { return capacity > 0 ? capacity : value; }
  };
  Symbol* find(std::string_view name);
  // `from`: the input whose shape says so, "" if the caller does.
  void set(std::string_view name, int64_t value, std::string_view from);
  void bind_by_length(const Shape& shape, const InputRef& input);

  // A dim of an input that is a sum of symbols, such as past+sequence: it determines one if the others are
  // known.
  struct Sum {
    std::string input;
    size_t axis = 0;
    int64_t constant = 0;
    std::vector<std::pair<size_t, int64_t>> terms = {};  // a symbol's place in symbols_, times this
  };
  std::optional<Sum> sum_of(const Dim& dim) const;
  // Whether it determined a symbol.
  bool solve(const Sum& sum, const InputRef& input);
  void solve_all(List<InputRef> inputs);

  std::vector<Symbol> symbols_;  // by name
  std::vector<Sum> sums_;
  std::vector<std::string> of_run_;  // those that the caller does not give
};

}  // namespace rlx
