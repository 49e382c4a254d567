#include "cli/bench_subjects.h"

#include <algorithm>
#include <filesystem>

#include "base/fail.h"
#include "base/format.h"
#include "measure/child_process.h"
#include "measure/networks.h"
#include "measure/peer_ggml.h"
#include "measure/peer_ort.h"
#include "rlx/npy.h"

namespace rlx::cli {
namespace {

using measure::Case;
using measure::GgmlCase;
using measure::Network;

BenchSubject model_subject(const std::string& name, const std::string& file, const GraphFlags& flags,
                           const BenchOptions& o) {
  GraphFlags graph = flags;
  graph.model.file = file;
  return {.name = name, .file = file, .flags = graph, .setup = set_up_run(graph, o.values)};
}

BenchSubject network_subject(const Network& network, const BenchOptions& o) {
  const measure::TemporaryFolder folder;
  return model_subject(network.name, network.path(), network_flags(network, o.graph, folder), o);
}

// A case as ONNX Runtime can run it: both sides then read the same file.
BenchSubject onnx_case(const std::string& name, const BenchOptions& o) {
  if (!std::ranges::contains(measure::onnx_cases(), name)) {
    throw Misuse(formatted("--peer: the case '{}' has no ONNX form; those that have one are: {}", name,
                           joined(measure::onnx_cases())));
  }
  const std::string file = measure::ort_case_file(name);
  if (!std::filesystem::exists(file)) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: in a checkout of the sources, ./rlx bench {} --peer ort makes it, with "
         "python3-onnx",
         file, name);
  }
  return model_subject(name, file, o.graph, o);
}

BenchSubject subject(const std::string& name, const BenchOptions& o) {
  if (const Case* known = measure::find_case(name))
    return o.beside_ort() ? onnx_case(name, o) : BenchSubject{.known = known};
  if (const Network* network = measure::find_network(name)) return network_subject(*network, o);
  expect_model_file(name);
  if (o.beside_ort()) {
    ModelFlags file = o.graph.model;
    file.file = name;
    if (std::filesystem::exists(name) && !file.is_onnx())
      throw Misuse(formatted("--peer {} takes ONNX files, and {} is a graph text", o.peer, name));
  }
  return model_subject(name, name, o.graph, o);
}

RunSetup set_up_case(const Case& known, const GraphFlags& graph, const ValueFlags& values,
                     const CompileOptions& options) {
  const bool for_models =
      !graph.model.inputs.empty() || !graph.dims.empty() || !graph.capacities.empty() || !values.load.empty();
  if (for_models) throw Misuse("--input, --dim, --capacity and --load are for models, and none is given");
  RunSetup out{.graph = known.graph()};
  if (!out.graph.is_static())
    throw Misuse(formatted("the case '{}' has another length in each run", known.name));
  out.model.graph = out.graph;
  out.options = options;
  graph.add_choices_to(out.options);
  out.leaves = measure::case_values(out.graph);
  return out;
}

}  // namespace

RunSetup set_up_subject(const GraphFlags& graph, const ValueFlags& values, const CompileOptions& options) {
  const std::string& name = graph.model.file;
  if (const Case* known = measure::find_case(name)) return set_up_case(*known, graph, values, options);
  if (const Network* network = measure::find_network(name)) {
    const measure::TemporaryFolder folder;
    return set_up_run(network_flags(*network, graph, folder), values, options);
  }
  return set_up_run(graph, values, options);
}

GraphFlags network_flags(const Network& network, GraphFlags flags, const measure::TemporaryFolder& folder) {
  if (!std::filesystem::exists(network.path()))
    fail(ErrorKind::invalid_file,
         "there is no file {}: in a checkout of the sources, ./rlx bench {} downloads it", network.path(),
         network.name);
  flags.model.file = network.path();
  const SymbolValues given = parse_dims(flags.dims);
  for (const std::string& dim : network.dims) {
    if (!given.contains(dim.substr(0, dim.find('=')))) flags.dims.push_back(dim);
  }
  if (network.true_input) {
    write_npy(folder.file("true.npy"), Tensor::of<bool>({1}, {true}));
    flags.model.inputs.push_back(formatted("{}={}", network.true_input, folder.file("true.npy")));
  }
  return flags;
}

void expect_model_file(const std::string& name) {
  if (name == "-")
    throw Misuse(
        "'-' is no case, network or file: models are measured from files, and --json takes no value");
  // Something that looks like a path is one, so that a wrong one is a file that is missing.
  if (!std::filesystem::exists(name) && name.find_first_of("./") == std::string::npos) {
    throw Misuse(formatted("there is no case, network or file '{}'; the cases are: {}; the networks: {}",
                           name, joined(measure::bench_cases(), &Case::name),
                           joined(measure::networks(), &Network::name)));
  }
}

std::vector<BenchSubject> bench_subjects(const BenchOptions& o) {
  std::vector<BenchSubject> out;
  const GraphFlags& g = o.graph;
  const bool for_models = !g.model.inputs.empty() || !g.dims.empty() || !g.capacities.empty() ||
                          !g.kernels.empty() || g.no_optimize || g.precision != "exact" ||
                          !o.values.load.empty();
  if (for_models && std::ranges::all_of(o.cases, measure::find_case)) {
    throw Misuse(
        "--input, --dim, --capacity, --kernel, --precision, --no-optimize and --load are for models, and "
        "none is given");
  }
  for (const std::string& name : o.cases) out.push_back(subject(name, o));
  if (o.cases.empty() && o.beside_ort()) {
    for (const std::string_view name : measure::onnx_cases()) out.push_back(onnx_case(std::string(name), o));
  } else if (o.cases.empty()) {
    // Those that are for llama.cpp take minutes: only by name.
    for (const Case& c : measure::bench_cases()) {
      if (!std::ranges::contains(measure::ggml_cases(), c.name, &GgmlCase::name))
        out.push_back({.known = &c});
    }
  }
  return out;
}

std::vector<std::string> bench_files(const BenchOptions& o) {
  std::vector<std::string> out = o.values.files(o.graph);
  if (o.beside_rlx()) out.push_back(o.peer_program());
  for (const std::string& name : o.cases) {
    const Network* const network = measure::find_network(name);
    out.push_back(network ? network->path() : name);
  }
  return out;
}

}  // namespace rlx::cli
