#include "rlx/onnx.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

#include "base/border.h"
#include "base/checked.h"
#include "base/fail.h"
#include "import/onnx/caches.h"
#include "import/onnx/model_file.h"
#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx::onnx {

namespace {

std::string refusal(const std::string& file, const std::vector<ImportProblem>& problems) {
  std::string text =
      formatted("{}: {} node{} cannot be imported:", file, problems.size(), problems.size() == 1 ? "" : "s");
  constexpr size_t kMostListed = 100;
  for (const ImportProblem& p : problems | std::views::take(kMostListed))
    text += formatted("\n  {} ({}): {}", excerpt(p.node), excerpt(p.op), excerpt(p.reason, 500));
  if (problems.size() > kMostListed) text += formatted("\n  and {} more", problems.size() - kMostListed);
  return text;
}

ErrorKind kind_of(const std::vector<ImportProblem>& problems) {
  const bool invalid = std::ranges::contains(problems, true, &ImportProblem::invalid);
  return invalid ? ErrorKind::invalid_file : ErrorKind::unsupported;
}

ImportOptions import_options_of(const LoadOptions& options) {
  return {.values = options.values,
          .symbols = options.symbols,
          .lengths = options.lengths,
          .seed = options.seed,
          .seed_input = options.seed_input};
}

// The sizes that are known for the symbols of a graph, whether or not all of it was imported.
SymbolValues known_sizes(const Graph& graph, const LoadOptions& options) {
  std::set<std::string> ours;  // not the file's: they stand in the place of its symbols
  for (const auto& [name, dim] : options.symbols) dim.collect_symbols(ours);
  SymbolValues out;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const Shape& shape = n.outputs[0].shape;
    const auto given = options.values.find(n.name);
    for (int64_t axis = 0; axis < shape.rank(); ++axis) {
      const auto symbol = shape[axis].as_symbol();
      if (!symbol || ours.contains(*symbol)) continue;
      if (const auto size = options.sizes.find(*symbol); size != options.sizes.end()) out.insert(*size);
      if (given != options.values.end())
        out.emplace(*symbol, given->second.shape()[static_cast<size_t>(axis)]);
    }
  }
  return out;
}

// Calls `import`, and again with numbers for the sizes that are known if there are problems otherwise.
// Returns those sizes, which are then symbols of `into`.
template <class Import>
std::pair<Imports, SymbolValues> imported(const LoadOptions& options, ImportOptions& into, Import&& import) {
  Imports imports = import();
  if (imports.problems.empty()) return {std::move(imports), {}};
  SymbolValues fixed = known_sizes(imports.graph, options);
  for (const auto& [name, size] : fixed) into.symbols[name] = size;
  if (!fixed.empty()) imports = import();
  return {std::move(imports), std::move(fixed)};
}

}  // namespace

RefusedFile::RefusedFile(const std::string& file, std::vector<ImportProblem> problems)
    : Error(kind_of(problems), refusal(file, problems)), problems_(std::move(problems)) {}

Model load(ModelFile file, const LoadOptions& options) {
  ImportOptions import_options = import_options_of(options);
  const auto import = [&] {
    try {
      Imports made = import_model(file.model, file.data, import_options);
      const std::set<std::string> symbols = made.graph.symbols();
      for (const auto& [symbol, largest] : options.capacities) {
        if (symbols.contains(symbol)) made.graph.set_capacity(symbol, largest);
      }
      return made;
    } catch (const Error& e) {
      // A graph that cannot be built from a file is a fault of the file.
      const ErrorKind kind = e.kind() == ErrorKind::invalid_graph ? ErrorKind::invalid_file : e.kind();
      throw Error(kind, e.what()).within(file.name);
    }
  };
  auto [imports, fixed] = imported(options, import_options, import);
  if (!imports.problems.empty()) throw RefusedFile(file.name, std::move(imports.problems));
  std::vector<Cache> caches;
  if (options.cache_capacity > 0) {
    try {
      std::map<std::string, Dim> lengths = total_lengths(imports.graph, find_caches(imports.graph));
      std::set<std::string> symbols;
      for (const auto& [past, length] : lengths) length.collect_symbols(symbols);
      for (const std::string& symbol : symbols) {
        if (!imports.graph.symbols().contains(symbol))
          import_options.capacities[symbol] = options.cache_capacity;  // as caches_as_states says
      }
      import_options.symbols.merge(lengths);
    } catch (const Error& e) {
      throw e.within(file.name);
    }
    imports = import();
    try {
      std::tie(imports.graph, caches) = caches_as_states(imports.graph, options.cache_capacity);
    } catch (const Error& e) {
      throw e.within(file.name);
    }
    for (const Cache& c : caches) {
      imports.types.erase(c.state);
      imports.types.erase(c.output);
    }
  }
  Model out{.graph = std::move(imports.graph),
            .weights = std::move(imports.weights),
            .fixed_inputs = std::move(imports.host_inputs),
            .fixed_symbols = std::move(fixed),
            .lengths = std::move(imports.lengths)};
  for (const auto& [name, type] : imports.types) {
    if (element_type_of(*carrier(type)) != type) out.carried[name] = to_string(type);
  }
  out.caches = std::move(caches);
  return out;
}

namespace {

void count_parameters(const TensorProto& t, Info& into) {
  const int64_t elements = Shape(t.dims).elements().value();
  into.parameters = checked_add(into.parameters, elements);
  into.bytes = checked_add(into.bytes, checked_mul(elements, bits_of(t.type)) / 8);
}

// Some exporters write weights as Constant nodes.
void count_constants(const std::vector<NodeProto>& nodes, Info& into) {
  for (const NodeProto& n : nodes) {
    for (const AttributeProto& a : n.attributes) {
      if (n.op == "Constant" && a.t) count_parameters(*a.t, into);
      if (a.g) count_constants(a.g->nodes, into);
    }
  }
}

void count_ops(const std::vector<NodeProto>& nodes, std::map<std::string, int64_t>& into) {
  for (const NodeProto& n : nodes) {
    ++into[n.domain.empty() || n.domain == "ai.onnx" ? std::string(n.op)
                                                     : formatted("{}.{}", n.domain, n.op)];
    for (const AttributeProto& a : n.attributes) {
      if (a.g) count_ops(a.g->nodes, into);
    }
  }
}

std::string text_of(const ValueInfo& info) {
  std::string out = formatted("{}: ", info.name);
  if (info.optional) out += "an optional ";
  if (info.kind != ValueInfo::Kind::tensor && info.kind != ValueInfo::Kind::sequence)
    return out + "not a tensor";
  if (info.kind == ValueInfo::Kind::sequence) out += "a sequence of ";
  out += to_string(info.type);
  if (!info.shape) return out;
  std::string dims;
  for (const DimProto& d : *info.shape) {
    dims += dims.empty() ? "" : ", ";
    dims += d.value ? std::to_string(*d.value) : d.param.empty() ? "?" : std::string(d.param);
  }
  return out + "[" + dims + "]";
}

}  // namespace

Model load(const std::string& path, const LoadOptions& options) try {
  return load(ModelFile::open(path), options);
} catch (...) {
  throw_as_error("reading an ONNX model");
}

Model parse(std::vector<std::byte> bytes, const std::string& name, const LoadOptions& options) try {
  return load(ModelFile(std::make_shared<const FileBytes>(std::move(bytes)), name, ""), options);
} catch (...) {
  throw_as_error("reading an ONNX model");
}

Info inspect(const std::string& path, const LoadOptions& options) try {
  ModelFile file = ModelFile::open(path);
  Info info;
  info.producer = file.model.producer;
  if (!file.model.producer_version.empty()) info.producer += formatted(" {}", file.model.producer_version);
  for (const OpsetId& id : file.model.opsets) info.opsets[std::string(id.domain)] = id.version;
  count_ops(file.model.graph.nodes, info.ops);
  for (const FunctionProto& f : file.model.functions) count_ops(f.nodes, info.ops);
  std::set<std::string_view> initializers;
  for (const TensorProto& t : file.model.graph.initializers) initializers.insert(t.name);
  for (const ValueInfo& v : file.model.graph.inputs) {
    if (!initializers.contains(v.name)) info.inputs.push_back(text_of(v));
  }
  for (const ValueInfo& v : file.model.graph.outputs) info.outputs.push_back(text_of(v));
  try {
    for (const TensorProto& t : file.model.graph.initializers) count_parameters(t, info);
    count_constants(file.model.graph.nodes, info);
    ImportOptions import_options = import_options_of(options);
    const auto import = [&] { return import_model(file.model, file.data, import_options); };
    for (const ImportProblem& p : imported(options, import_options, import).first.problems)
      info.problems.push_back({p.node, p.op, p.reason});
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::out_of_memory) throw;
    // Not about one node: too old or too new a set of ops, an initializer that is not whole.
    info.problems.push_back({"", "", e.what()});
  }
  return info;
} catch (...) {
  throw_as_error("reading an ONNX model");
}

}  // namespace rlx::onnx
