#include "tests/support/conv_cases.h"

#include "base/format.h"
#include "rlx/graph.h"
#include "rlx/safetensors.h"
#include "tests/support/paths.h"

namespace rlx::testing {

std::vector<ConvCase> conv_cases() {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/conv.safetensors"));
  std::vector<ConvCase> cases;
  for (const auto& [name, attributes] : file.metadata()) {
    if (name == "made_by") continue;
    ConvCase c;
    c.name = name;
    std::string text = "graph " + name + " {\n";
    std::string operands;
    for (const std::string input : {"x", "w", "bias", "extra"}) {
      const auto* entry = file.find(name + "." + input);
      if (!entry && input == "extra") continue;
      operands += (operands.empty() ? "" : ", ") + (entry ? "%" + input : "none");
      if (!entry) continue;
      text += formatted("  %{} = input : f32{}\n", input, Shape(entry->shape).text());
      c.inputs.emplace(input, file.tensor(entry->name));
    }
    c.graph =
        parse_graph(text + formatted("  %y = conv({}) {}\n  output y = %y\n}}\n", operands, attributes));
    c.y = file.tensor(name + ".y");
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace rlx::testing
