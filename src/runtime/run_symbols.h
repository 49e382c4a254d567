// The symbols of a graph and what they stand for in one run.
#pragma once

#include <string>
#include <vector>

#include "rlx/executable.h"

namespace rlx {

class RunSymbols {
 public:
  explicit RunSymbols(const Graph& graph);

  // Reads the value of each symbol off the shapes of the inputs and what is given; an error if one has none
  // or two. Allocates nothing.
  void bind(const Graph& graph, List<InputRef> inputs, SymbolList given);

  bool empty() const { return symbols_.empty(); }
  // Whether they have these values, of all symbols.
  bool equal(const SymbolValues& values) const;
  SymbolValues values() const;
  // The same with symbols that have a capacity at it: what memory is planned for.
  SymbolValues at_capacity(const SymbolValues& values) const;
  // An error that names the symbol unless all have a value, none of them impossible.
  void check_complete(const SymbolValues& values) const;

 private:
  struct Symbol {
    std::string name;
    int64_t value = -1;
    int64_t capacity = 0;  // 0: none
  };
  Symbol* find(std::string_view name);
  void set(std::string_view name, int64_t value, std::string_view from);
  void bind_by_length(const Shape& shape, const InputRef& input);

  std::vector<Symbol> symbols_;  // by name
};

}  // namespace rlx
