#include "tests/support/vision_cases.h"

#include "base/format.h"
#include "rlx/graph.h"
#include "rlx/safetensors.h"
#include "tests/support/paths.h"

namespace rlx::testing {

std::vector<VisionCase> vision_cases() {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/vision.safetensors"));
  std::vector<VisionCase> cases;
  for (const auto& [name, call] : file.metadata()) {
    if (name == "made_by") continue;
    VisionCase c;
    c.name = name;
    std::string text = "graph g {\n";
    for (const std::string input : {"x", "indices", "rois", "images", "gamma", "beta", "mean", "variance"}) {
      const auto* entry = file.find(name + "." + input);
      if (!entry) continue;
      const Tensor value = file.tensor(entry->name);
      text += formatted("  %{} = input : {}\n", input, value.type_text());
      c.inputs.emplace(input, value);
    }
    for (const std::string output : {"0", "1"}) {
      if (file.find(name + "." + output)) c.results.push_back(file.tensor(name + "." + output));
    }
    const bool two = c.results.size() == 2;
    c.graph = parse_graph(text + "  %y = " + call + "\n  output y = %y\n" +
                          (two ? "  output z = %y:1\n" : "") + "}\n");
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace rlx::testing
