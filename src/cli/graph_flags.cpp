#include "cli/graph_flags.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/fail.h"
#include "cli/text.h"
#include "ir/op.h"
#include "ir/run_sizes.h"
#include "kernels/candidate.h"
#include "ops/machinery/op_table.h"

namespace rlx::cli {
namespace {

std::pair<std::string, std::string> parse_pair(const std::string& item, const char* flag, const char* form) {
  const size_t equals = item.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
    throw Misuse(formatted("{} is '{}'; it must be {}", flag, item, form));
  }
  return {item.substr(0, equals), item.substr(equals + 1)};
}

// Shapes that these values make impossible, or too large for 64 bits, are the arguments' fault and not the
// file's.
void check_symbols(const Graph& graph, const SymbolValues& values) {
  if (values.empty()) return;
  try {
    bind_symbols(graph, values);
  } catch (const Error& e) {
    std::string given;
    for (const auto& [name, value] : values) given += formatted(" --dim {}={}", name, value);
    throw Misuse(formatted("the graph cannot be made with{}: {}", given, e.what()));
  }
}

void check_kernel(const std::string& op, const std::string& variant) {
  try {
    op_table().check_variant(op, variant);
  } catch (const Error& e) {
    throw Misuse(std::string("--kernel: ") + e.what());
  }
}

Precision parsed_precision(const std::string& text) {
  try {
    return parse_precision(text);
  } catch (const Error& e) {
    throw Misuse(std::string("--precision: ") + e.what());
  }
}

int64_t parse_size(const char* flag, const std::string& item, const std::string& text, int64_t least) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool too_large = error == std::errc::result_out_of_range && !text.starts_with('-');
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw Misuse(formatted("{} is '{}'; '{}' is {}", flag, item, text,
                           too_large ? "too large: dims are below 2^63"
                                     : formatted("not a whole number of at least {}", least)));
  }
  return value;
}

// Symbols by the values of a flag that may be repeated, each NAME=N.
SymbolValues parse_sizes(const char* flag, const std::vector<std::string>& items, int64_t least) {
  SymbolValues out;
  for (const std::string& item : items) {
    const auto [name, text] = parse_pair(item, flag, "NAME=N, such as batch=4");
    if (!out.emplace(name, parse_size(flag, item, text, least)).second)
      throw Misuse(formatted("{} gives the symbol '{}' twice", flag, name));
  }
  return out;
}

// The first leaf of the kind that has the symbol as a dimension; none if there is none.
std::optional<std::string> leaf_with(const Graph& graph, LeafKind kind, const std::string& symbol) {
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(kind)) continue;
    for (const Dim& d : n.outputs[0].shape) {
      if (d.as_symbol() == symbol) return n.name;
    }
  }
  return std::nullopt;
}

[[noreturn]] void fail_no_symbol(const char* flag, const Graph& graph, const std::string& name) {
  const std::string known = joined(graph.symbols());
  throw Misuse(formatted("{}: the graph has no symbol named '{}'{}", flag, name,
                         known.empty() ? "" : formatted("; it has: {}", known)));
}

// The symbols that are given, and who gave them: "--dim", or an input.
class Binding {
 public:
  explicit Binding(const Graph& graph) : graph_(graph), of_run_(run_symbols(graph)) {}

  void by_flag(const std::string& name, int64_t value) {
    if (!graph_.symbols().contains(name)) fail_no_symbol("--dim", graph_, name);
    if (const auto it = of_run_.find(name); it != of_run_.end()) {
      throw Misuse(
          formatted("--dim: the node '{0}' determines the symbol '{1}' in each run; --capacity {1}=N "
                    "gives it room",
                    it->second.graph->node(it->second.node).name, name));
    }
    set(name, value, "--dim");
  }

  void by_input(const std::string& name, const Shape& shape, const std::vector<int64_t>& given) {
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      if (const auto symbol = shape[axis].as_symbol())
        set(*symbol, given[static_cast<size_t>(axis)], formatted("the input '{}'", name));
    }
  }

  SymbolValues take() {
    std::string missing;
    std::set<std::string> inputs;
    for (const std::string& name : graph_.symbols()) {
      if (values_.contains(name) || of_run_.contains(name)) continue;
      missing += formatted(" --dim {}=N", name);
      if (const auto input = leaf_with(graph_, LeafKind::input, name))
        inputs.insert(formatted("--input {}=FILE", *input));
    }
    if (!missing.empty()) {
      throw Misuse(
          formatted("the graph has symbols without a value; give{}{}", missing,
                    inputs.empty() ? "" : formatted(", or inputs that have them: {}", joined(inputs))));
    }
    return std::move(values_);
  }

 private:
  void set(const std::string& name, int64_t value, const std::string& from) {
    if (const auto it = values_.find(name); it != values_.end() && it->second != value) {
      throw Misuse(formatted("{} makes the symbol '{}' {}, but {} makes it {}", from, name, value,
                             from_.at(name), it->second));
    }
    values_[name] = value;
    from_.emplace(name, from);
  }

  const Graph& graph_;
  std::map<std::string, RunSymbol> of_run_;
  SymbolValues values_;
  std::map<std::string, std::string> from_;
};

// The file that --input gives to this input.
std::string file_of(const std::string& name, const std::vector<std::string>& items) {
  for (const std::string& item : items) {
    if (item.starts_with(name + "=")) return item.substr(name.size() + 1);
  }
  return "the npz file";
}

// Of the dims that are computed from symbols, such as n+1.
void check_shapes(const Model& loaded, const SymbolValues& symbols, const std::vector<std::string>& items) {
  for (const auto& [name, value] : loaded.inputs) {
    const Shape& shape = loaded.graph.node(loaded.graph.find(name)).outputs[0].shape;
    if (const Shape bound = shape.bind(symbols); bound != Shape(value.shape())) {
      throw Misuse(formatted("the input '{}' has the shape {}, which is {} here, but {} has {}", name,
                             shape.text(), bound.text(), file_of(name, items), Shape(value.shape()).text()));
    }
  }
}

}  // namespace

SymbolValues parse_dims(const std::vector<std::string>& items) { return parse_sizes("--dim", items, 0); }

void expect_symbols(const Model& model, const SymbolValues& dims) {
  for (const auto& [name, value] : dims) {
    if (!model.fixed_symbols.contains(name) && !model.graph.symbols().contains(name))
      fail_no_symbol("--dim", model.graph, name);
  }
}

Model GraphFlags::load() const {
  Model out = model.load(parse_dims(dims));
  for (const auto& [name, largest] : parse_sizes("--capacity", capacities, 1)) {
    if (out.fixed_symbols.contains(name))
      throw Misuse(
          formatted("--capacity: the size of '{}' decides what the model is, so it cannot change", name));
    if (!out.graph.symbols().contains(name)) fail_no_symbol("--capacity", out.graph, name);
    if (const auto param = leaf_with(out.graph, LeafKind::param, name))
      throw Misuse(
          formatted("--capacity: the param '{0}' has the dimension '{1}', so it cannot change; give --dim "
                    "{1}=N alone",
                    *param, name));
    if (!run_symbols(out.graph).contains(name) && !leaf_with(out.graph, LeafKind::input, name))
      throw Misuse(formatted("--capacity: no input has the dimension '{0}'; give --dim {0}=N alone", name));
    out.graph.set_capacity(name, largest);
  }
  return out;
}

void GraphFlags::add_to(Command& command) {
  model.add_to(command);
  add_flags_to(command);
}

void GraphFlags::add_flags_to(Command& command) {
  command.list("--dim", dims, "The value of a symbol of the graph, such as batch=4", {.value = "NAME=N"});
  command.list("--capacity", capacities,
               "Plan memory for a symbol up to this size; the run itself has that of --dim or --input",
               {.value = "NAME=N"});
  command.list("--kernel", kernels, "The kernel of an op, such as matmul=plain (`rlx ops` lists them)",
               {.value = "OP=KERNEL"});
  command.text("--precision", precision, "What products and sums may be rounded to: exact, mixed or fast",
               {.value = "NAME"});
  command.flag("--no-optimize", no_optimize, "Run the graph as it is written, node by node");
}

std::vector<std::string> GraphFlags::words() const {
  std::vector<std::string> out;
  const auto add = [&](const char* flag, const std::vector<std::string>& items) {
    for (const std::string& item : items) out.insert(out.end(), {flag, item});
  };
  add("--length", model.lengths);
  if (model.seed) add("--seed", {std::to_string(*model.seed)});
  add("--dim", dims);
  add("--capacity", capacities);
  add("--kernel", kernels);
  if (precision != "exact") add("--precision", {precision});
  if (no_optimize) out.emplace_back("--no-optimize");
  return out;
}

void GraphFlags::note_unused_kernels(const PlanReport& plan) const {
  for (const std::string& item : kernels) {
    const auto [op, variant] = parse_pair(item, "--kernel", "OP=KERNEL");
    const auto follows = [&](const StepReport& step) {
      return has_words(step.variant, variant) && (step.op == op || op == "elementwise");
    };
    if (std::ranges::any_of(plan.run, follows) || std::ranges::any_of(plan.load, follows)) continue;
    note(formatted("--kernel {}: no dispatch uses it; it fits none here", item));
  }
}

SymbolValues GraphFlags::symbols(const Model& loaded) const {
  const Graph& graph = loaded.graph;
  Binding binding(graph);
  for (const auto& [name, value] : parse_dims(dims)) {
    if (!loaded.fixed_symbols.contains(name)) binding.by_flag(name, value);
  }
  for (const auto& [name, value] : loaded.inputs)
    binding.by_input(name, graph.node(graph.find(name)).outputs[0].shape, value.shape());
  SymbolValues out = binding.take();
  for (const auto& [name, largest] : parse_sizes("--capacity", capacities, 1)) {
    if (const auto it = out.find(name); it != out.end() && it->second > largest)
      throw Misuse(
          formatted("the symbol '{}' is {}, more than --capacity {}={}", name, it->second, name, largest));
  }
  check_symbols(graph, out);
  check_shapes(loaded, out, model.inputs);
  return out;
}

SymbolValues GraphFlags::open_symbols(const Model& loaded) const {
  SymbolValues out = symbols(loaded);
  const SymbolValues with_capacity = parse_sizes("--capacity", capacities, 1);
  std::erase_if(out, [&](const auto& item) { return !with_capacity.contains(item.first); });
  return out;
}

CompileOptions GraphFlags::options(const Model& loaded, CompileOptions options) const {
  options.symbols = symbols(loaded);
  for (const auto& [name, value] : open_symbols(loaded)) options.symbols.erase(name);
  add_choices_to(options);
  return options;
}

void GraphFlags::add_choices_to(CompileOptions& options) const {
  options.optimize = !no_optimize;
  for (const std::string& item : kernels) {
    const auto [op, variant] = parse_pair(item, "--kernel", "OP=KERNEL, such as matmul=plain");
    check_kernel(op, variant);
    options.kernels[op] = variant;
  }
  options.precision = parsed_precision(precision);
}

}  // namespace rlx::cli
