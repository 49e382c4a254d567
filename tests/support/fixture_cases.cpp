// Reading cases from a safetensors file, and running one.
#include "tests/support/fixture_cases.h"

#include <utility>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/safetensors.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

// Tensors are named CASE.OPERAND; those whose last part is a number are results.
FixtureCase read_case(const SafetensorsFile& file, const std::string& name, const std::string& call) {
  FixtureCase c{.name = name, .call = call, .inputs = {}, .results = {}, .graph = {}};
  for (int i = 0; file.find(formatted("{}.{}", name, i)); ++i)
    c.results.push_back(file.tensor(formatted("{}.{}", name, i)));
  std::string text = "graph g {\n";
  for (const SafetensorsFile::Entry& entry : file.tensors()) {
    if (!entry.name.starts_with(name + ".")) continue;
    const std::string operand = entry.name.substr(name.size() + 1);
    if (operand.find_first_not_of("0123456789") == std::string::npos) continue;
    const Tensor value = file.tensor(entry.name);
    c.inputs.emplace(operand, value);
    text += formatted("  %{} = input : {}\n", operand, value.type_text());
  }
  if (call.starts_with("@")) return c;
  text += "  %y = " + call + "\n";
  for (size_t i = 0; i < c.results.size(); ++i) text += formatted("  output y{0} = %y:{0}\n", i);
  c.graph = parse_graph(text + "}\n");
  return c;
}

}  // namespace

std::vector<FixtureCase> fixture_cases(const std::string& name) {
  const auto file = SafetensorsFile::open(in_source(formatted("tests/fixtures/{}.safetensors", name)));
  std::vector<FixtureCase> cases;
  for (const auto& [key, call] : file.metadata()) {
    if (key == "made_by") continue;
    cases.push_back(read_case(file, key, call));
    if (cases.back().results.empty()) fail("the case '{}' has no results to compare with", key);
  }
  return cases;
}

Tolerance rounded_tolerance(const FixtureCase& c) {
  const Node& n = c.graph.node(c.graph.find("y"));
  std::vector<TensorType> types;
  for (const ValueId v : n.inputs) types.push_back(c.graph.type(v));
  Tolerance tolerance = n.op->tolerance(types);
  tolerance.ulps += 1;
  return tolerance;
}

NamedTensors run_or_reference(const Graph& graph, const NamedTensors& inputs, const Device* device,
                              const CompileOptions& options) {
  if (device) return compile(graph, *device, options).run(inputs);
  NamedTensors out;
  for (const auto& [output, value] : run_reference(graph, inputs)) out[output] = value.to_tensor();
  return out;
}

}  // namespace rlx::testing
