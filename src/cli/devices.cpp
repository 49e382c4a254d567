#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "cli/adapter_json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  ReportFlags report;
};

std::string text(const SubgroupMatrix& s) {
  return formatted("{}x{}x{} {}->{}", s.m, s.n, s.k, to_string(s.component), to_string(s.result));
}

std::string joined(const std::vector<std::string>& words, size_t indent) {
  std::string out;
  size_t column = indent;
  for (const std::string& w : words) {
    if (column > indent && column + w.size() + 1 > 110) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    out += (column > indent ? " " : "") + w;
    column += w.size() + 1;
  }
  return out;
}

std::string describe(const AdapterInfo& a) {
  std::string out = formatted("{}  {} ({}, {})\n", a.index, a.name, a.backend, to_string(a.caps.kind));
  const auto line = [&](const char* title, const std::string& text) {
    if (!text.empty()) out += formatted("   {:10} {}\n", title, text);
  };
  line("vendor", a.vendor + (a.architecture.empty() ? "" : ", " + a.architecture));
  line("driver", a.driver);
  if (a.caps.memory_bytes) line("memory", bytes_text(static_cast<int64_t>(a.caps.memory_bytes)));
  line("features", joined(a.features, 14));
  std::vector<std::string> matrices;
  for (const SubgroupMatrix& s : a.caps.subgroup_matrices) matrices.push_back(text(s));
  line("matrices", joined(matrices, 14));
  std::vector<std::string> limits;
  for (const auto& [name, value] : a.limits) limits.push_back(formatted("{}={}", name, value));
  line("limits", joined(limits, 14));
  return out;
}

void list_devices(const Options& o) {
  check_outputs(o.report.outputs(), {});
  const std::vector<AdapterInfo> adapters = [&] {
    const Progress progress("looking for adapters");
    return o.device.adapters();
  }();
  Json out = Json::array();
  for (const AdapterInfo& a : adapters) out.add(to_json(a));
  o.report.write(out);
  if (o.report.only_json()) return;
  if (adapters.empty()) {
    print("no adapter fits; Vulkan software drivers (Mesa's lavapipe) run without a GPU\n");
    return;
  }
  print(formatted("{} adapter{}, the first is used unless flags say otherwise\n\n", adapters.size(),
                  adapters.size() == 1 ? "" : "s"));
  for (const AdapterInfo& a : adapters) print(describe(a) + "\n");
}

}  // namespace

void add_devices(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("devices", "Adapters of this machine, their features and limits");
  o->report.add_to(command, "an array of adapters");
  o->device.add_to(command);
  command.footer("Examples:\n  rlx devices\n  rlx devices --backend vulkan --json");
  command.action([o] { list_devices(*o); });
}

}  // namespace rlx::cli
