#include "cli/run_setup.h"

#include "base/format.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "measure/stopwatch.h"
#include "rlx/safetensors.h"

namespace rlx::cli {

void ValueFlags::add_to(Command& command) {
  command.seed("--random", seed, "The seed of the inputs and params that are not given (default 1)");
  command.text("--load", load, "Inputs and params by name from a safetensors file", {.value = "FILE"});
}

std::vector<std::string> ValueFlags::files(const GraphFlags& graph) const {
  std::vector<std::string> out = graph.model.files();
  if (!load.empty()) out.push_back(load);
  return out;
}

namespace {

// Those of the file that the graph has. --input and --load come before what the model itself has.
NamedTensors given_values(const Model& model, const std::string& path) {
  NamedTensors out = model.inputs;
  if (!path.empty()) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const SafetensorsFile::Entry& entry : file.tensors()) {
      if (!out.contains(entry.name)) out.emplace(entry.name, file.tensor(entry.name));
    }
  }
  out.insert(model.weights.begin(), model.weights.end());
  return out;
}

// A tensor of the file that has the name of an input or a param, but is another one.
void check_loaded(const Graph& graph, const NamedTensors& inputs, const std::string& path) {
  if (path.empty()) return;
  const SafetensorsFile file = SafetensorsFile::open(path);
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      const bool is_input = n.op->is(LeafKind::input) && &g == &graph;
      if (!is_input && !n.op->is(LeafKind::param)) continue;
      if (inputs.contains(n.name) || !file.find(n.name)) continue;
      const Tensor given = file.tensor(n.name);
      const TensorType& type = n.outputs[0];
      const bool rounded =
          given.dtype() == DType::f32 && (type.dtype == DType::f16 || type.dtype == DType::bf16);
      const bool same_shape = !type.shape.is_static() || type.shape.values() == given.shape();
      if ((given.dtype() == type.dtype || rounded) && same_shape) continue;
      throw Misuse(formatted("--load: the {} '{}' is {}, but {} has {}", is_input ? "input" : "param", n.name,
                             type.text(), path, given.type_text()));
    }
  });
}

}  // namespace

RunSetup set_up_run(const GraphFlags& graph, const ValueFlags& values, const CompileOptions& options) {
  const measure::Stopwatch watch;
  RunSetup out{.model = graph.load()};
  out.load_ms = watch.ms();
  out.options = graph.options(out.model, options);
  out.open = graph.open_symbols(out.model);
  const SymbolValues symbols = graph.symbols(out.model);
  out.graph = symbols.empty() ? out.model.graph : bind_symbols(out.model.graph, symbols);
  check_loaded(out.graph, out.model.inputs, values.load);
  const Progress progress("making values");
  try {
    out.leaves = measure::make_leaf_values(out.graph, values.seed, given_values(out.model, values.load),
                                           out.model.types);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument) throw;
    throw Misuse(e.what());
  }
  return out;
}

CompiledModel compile_model(const RunSetup& setup, const Device& device) {
  const measure::Stopwatch watch;
  CompiledModel out{.exe = [&] {
    const Progress progress("compiling");
    return compile(setup.model.graph, device, setup.options);
  }()};
  out.compile_ms = watch.ms();
  const measure::Stopwatch upload_watch;
  Progress progress("uploading weights");
  int64_t all = 0;
  for (const auto& [name, value] : setup.leaves.params) all += static_cast<int64_t>(value.byte_size());
  int64_t done = 0;
  for (const auto& [name, value] : setup.leaves.params) {
    progress.update_bytes(done, all);
    out.exe.set_param(name, value);
    done += static_cast<int64_t>(value.byte_size());
  }
  out.upload_ms = upload_watch.ms();
  return out;
}

}  // namespace rlx::cli
