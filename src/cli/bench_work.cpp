#include "cli/bench_work.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/format.h"
#include "cli/text.h"
#include "import/npy.h"
#include "import/onnx/element_type.h"
#include "ir/op.h"
#include "rlx/safetensors.h"

namespace rlx::cli {
namespace {

using measure::Case;
using measure::RlxProgram;
using measure::RlxWork;
using measure::TemporaryFolder;
using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

// Where values are written. Types that the files do not have are left out.
Words load_words(const NamedTensors& values, const TemporaryFolder& folder) {
  NamedTensors known;
  for (const auto& [name, value] : values) {
    if (!is_encoded(value.dtype()) && value.dtype() != DType::c64) known.emplace(name, value);
  }
  if (known.empty()) return {};
  save_safetensors(folder.file("values.safetensors"), known);
  return {"--load", folder.file("values.safetensors")};
}

// --- Cases ---

bool any_leaf(const Graph& graph, bool (*is)(const Node&)) { return std::ranges::any_of(graph.nodes(), is); }
bool is_state(const Node& n) { return n.op->is(LeafKind::state); }
bool is_encoded_param(const Node& n) { return n.op->is(LeafKind::param) && is_encoded(n.outputs[0].dtype); }

// Why the text of the case and its values would be other work; nothing if they are the same.
std::string lost_in_files(const Case& c, const Graph& graph) {
  if (c.growing.end > 1) return "has another length in each run, which a graph's text does not say";
  if (any_leaf(graph, is_encoded_param)) return "has encoded weights, for which there is no file of values";
  return "";
}

Words file_words(const Graph& graph, const TemporaryFolder& folder) {
  const std::string text = folder.file("case.rlx");
  std::ofstream(text) << to_text(graph);
  Words out = {text};
  append(out, load_words(measure::case_values(graph).all(), folder));
  return out;
}

RlxWork case_work(const Case& c, const RlxProgram& peer, const Words& device, const TemporaryFolder& folder) {
  const Graph graph = c.graph();
  RlxWork out;
  const std::string lost = lost_in_files(c, graph);
  const bool by_name = !lost.empty() || (any_leaf(graph, is_state) && peer.has(c));
  out.words = by_name ? Words{c.name} : file_words(graph, folder);
  append(out.words, device);
  if (!lost.empty() && !peer.has(c))
    out.refusal = formatted("{} does not have this case, and it {}", peer.name(), lost);
  return out;
}

// --- Models ---

// Inputs that decide a shape are read with the model, and so have files of their own.
Words input_words(const Model& model, const TemporaryFolder& folder) {
  NamedTensors given = model.inputs;
  given.insert(model.fixed_inputs.begin(), model.fixed_inputs.end());
  Words out;
  for (const auto& [name, value] : given) {
    const std::string path = folder.file(formatted("{}.npy", out.size()));
    write_npy(path, value, onnx::type_in_file(model.types, name, value.dtype()));
    append(out, {"--input", formatted("{}={}", name, path)});
  }
  return out;
}

// What neither the model's file nor the files of inputs have.
NamedTensors other_values(const RunSetup& setup, const ValueFlags& flags) {
  NamedTensors out;
  for (const auto& [name, value] : setup.leaves.all()) {
    const bool in_model = flags.load.empty() && setup.model.weights.contains(name);
    if (!setup.model.inputs.contains(name) && !in_model) out.emplace(name, value);
  }
  return out;
}

RlxWork model_work(const BenchSubject& s, const ValueFlags& values, const Words& device,
                   const TemporaryFolder& folder) {
  RlxWork out{.words = {s.file}};
  append(out.words, s.flags.words());
  append(out.words, input_words(s.setup->model, folder));
  append(out.words, load_words(other_values(*s.setup, values), folder));
  append(out.words, {"--random", std::to_string(values.seed)});
  append(out.words, device);
  return out;
}

}  // namespace

measure::RlxSubject rlx_subject(const BenchSubject& subject, const BenchOptions& o, const RlxProgram& peer) {
  const Words device = o.device.words();
  if (const Case* known = subject.known) {
    return {known->name, [known, &peer, device](const TemporaryFolder& folder) {
              return case_work(*known, peer, device, folder);
            }};
  }
  return {subject.name, [&subject, values = o.values, device](const TemporaryFolder& folder) {
            return model_work(subject, values, device, folder);
          }};
}

}  // namespace rlx::cli
