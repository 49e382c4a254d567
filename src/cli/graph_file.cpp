#include "cli/graph_file.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "base/fail.h"
#include "base/hash.h"
#include "import/file_bytes.h"
#include "ir/op.h"
#include "ir/run_sizes.h"
#include "ops/op_table.h"
#include "rlx/safetensors.h"

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

}  // namespace

void GraphFlags::add_to(Command& command) {
  command.required("FILE", file, "A graph in its text form");
  command.list("--dim", dims, "The value of a symbol of the graph, such as batch=4", {.value = "NAME=N"});
  command.list("--kernel", kernels, "The kernel of an op, such as matmul=plain (`rlx ops` lists them)",
               {.value = "OP=KERNEL"});
  command.text("--precision", precision, "What products and sums may be rounded to: exact, mixed or fast",
               {.value = "NAME"});
  command.flag("--no-optimize", no_optimize, "Run the graph as it is written, node by node");
}

Graph GraphFlags::read() const {
  if (file.empty()) throw Misuse("the name of the graph file is empty");
  const FileBytes bytes(file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  try {
    Graph graph = parse_graph(text);
    verify(graph);
    return graph;
  } catch (const Error& e) {
    throw e.within(file);
  }
}

void GraphFlags::note_unused_kernels(const PlanReport& plan) const {
  for (const std::string& item : kernels) {
    const auto [op, variant] = parse_pair(item, "--kernel", "OP=KERNEL");
    const auto follows = [&](const StepReport& step) {
      return step.variant == variant && (step.op == op || op == "elementwise");
    };
    if (std::ranges::any_of(plan.run, follows) || std::ranges::any_of(plan.load, follows)) continue;
    std::fputs(formatted("rlx: --kernel {}: no dispatch uses it; it fits none here\n", item).c_str(), stderr);
  }
}

SymbolValues GraphFlags::symbols(const Graph& graph) const {
  SymbolValues out;
  const std::map<std::string, RunSymbol> of_run = run_symbols(graph);
  for (const std::string& item : dims) {
    const auto [name, text] = parse_pair(item, "--dim", "NAME=N, such as batch=4");
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool too_large = error == std::errc::result_out_of_range && !text.starts_with('-');
    if (error != std::errc() || end != text.data() + text.size() || value < 0) {
      throw Misuse(
          formatted("--dim is '{}'; '{}' is {}", item, text,
                    too_large ? "too large: dims are below 2^63" : "not a whole number of at least 0"));
    }
    if (!graph.symbols().contains(name))
      throw Misuse(formatted("--dim: the graph has no symbol named '{}'", name));
    if (const auto it = of_run.find(name); it != of_run.end()) {
      throw Misuse(formatted("--dim: the node '{}' determines the symbol '{}' in each run",
                             it->second.graph->node(it->second.node).name, name));
    }
    if (!out.emplace(name, value).second) throw Misuse(formatted("--dim gives the symbol '{}' twice", name));
  }
  std::string missing;
  for (const std::string& name : graph.symbols()) {
    if (!out.contains(name) && !of_run.contains(name)) missing += formatted(" --dim {}=N", name);
  }
  if (!missing.empty()) throw Misuse(formatted("the graph has symbols without a value; give{}", missing));
  check_symbols(graph, out);
  return out;
}

CompileOptions GraphFlags::options(const Graph& graph) const {
  CompileOptions options{.symbols = symbols(graph), .optimize = !no_optimize};
  for (const std::string& item : kernels) {
    const auto [op, variant] = parse_pair(item, "--kernel", "OP=KERNEL, such as matmul=plain");
    check_kernel(op, variant);
    options.kernels[op] = variant;
  }
  options.precision = parsed_precision(precision);
  return options;
}

// --- Values ---

namespace {

// Integers may be row numbers of a table: stay below the smallest table that they index, directly or through
// a view.
int64_t index_bound(const Graph& graph, int32_t leaf) {
  int64_t bound = 10;
  for (const Node& n : graph.nodes()) {
    if (n.op->name() != "gather" || n.inputs.size() < 2) continue;
    ValueId v = n.inputs[1];
    while (graph.producer(v).op->has(Trait::view)) v = graph.producer(v).inputs[0];
    if (v.node != leaf) continue;
    int64_t axis = 0;
    for (const auto& [name, value] : attributes(*n.op)) {
      if (const auto* number = std::get_if<int64_t>(&value); name == "axis" && number) axis = *number;
    }
    const Shape& table = graph.type(n.inputs[0]).shape;
    bound = std::min(bound, table[axis < 0 ? axis + table.rank() : axis].value());
  }
  return std::max<int64_t>(bound, 1);
}

Tensor random_leaf(const Graph& graph, int32_t id, uint64_t seed) {
  const Node& n = graph.node(id);
  const TensorType& type = n.outputs[0];
  const std::vector<int64_t> dims = type.shape.values();
  const auto count = static_cast<size_t>(type.shape.elements().value());
  // The distributions of <random> differ between libraries; the engine itself does not.
  std::mt19937_64 engine(Hash().number(seed).text(n.name).value());
  if (is_float(value_dtype(type.dtype)) || type.dtype == DType::c64) {
    const bool complex = type.dtype == DType::c64;
    std::vector<double> values(complex ? 2 * count : count);
    for (double& v : values) v = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
    if (!complex) return Tensor::from_doubles(type.dtype, dims, values);
    const std::vector<float> parts(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(type.dtype, dims, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  const auto bound = static_cast<uint64_t>(type.dtype == DType::bool_ ? 2 : index_bound(graph, id));
  std::vector<int64_t> values(count);
  for (int64_t& v : values) v = static_cast<int64_t>(engine() % bound);
  return Tensor::from_ints(type.dtype, dims, values);
}

}  // namespace

NamedTensors LeafValues::all() const {
  NamedTensors out = inputs;
  out.insert(params.begin(), params.end());
  return out;
}

LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const std::string& safetensors_path) {
  LeafValues out;
  std::optional<SafetensorsFile> file;
  if (!safetensors_path.empty()) file = SafetensorsFile::open(safetensors_path);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const bool is_input = n.op->is(LeafKind::input);
    if (!is_input && !n.op->is(LeafKind::param)) continue;
    const bool stored = file && file->find(n.name);
    if (!stored) out.random.push_back(n.name);
    (is_input ? out.inputs : out.params)
        .emplace(n.name, stored ? file->tensor(n.name) : random_leaf(graph, id, seed));
  }
  return out;
}

}  // namespace rlx::cli
