#include <memory>
#include <optional>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/text.h"
#include "rlx/calibration.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  ReportFlags report;
  bool again = false;
};

std::string ns_text(double ns) {
  return ns < 10'000 ? formatted("{:.0f} ns", ns) : formatted("{:.1f} us", ns / 1000);
}

void show(const Calibration& c, bool was_stored) {
  print(formatted("{} ({}{}{})\n\n", c.device_name, c.backend, c.driver.empty() ? "" : ", ", c.driver));
  print(formatted("  product     {:.4g} GFLOP/s\n", c.sgemm_gflops));
  print(formatted("  memory      {:.4g} GB/s, and {:.4g} GB/s where the caches hold it\n", c.memory_bw_gbps,
                  c.cache_bw_gbps));
  print(formatted("  dispatch    {}\n", ns_text(c.dispatch_ns)));
  print(formatted("  submit      {}\n", ns_text(c.submit_ns)));
  print(formatted("  round trip  {}\n\n", ns_text(c.roundtrip_overhead_ns)));
  print(was_stored ? "measured before; --again measures anew\n" : "measured now\n");
}

void calibrate(const Options& o) {
  check_outputs(o.report.outputs(), {});
  const Device device = o.device.open();
  const CalibrationOptions options = {.again = o.again, .log = [](const std::string& text) { note(text); }};
  std::optional<Calibration> stored;
  if (!o.again) stored = Calibration::load(device, options);
  const Calibration found = [&] {
    if (stored) return *stored;
    const Progress progress("measuring");
    return Calibration::measure(device, options);
  }();
  Json json = Json::read(found.to_json()).value();
  json.set("measured_now", !stored);
  o.report.write(json);
  if (!o.report.only_json()) show(found, stored.has_value());
  if (!stored) found.save();
}

}  // namespace

void add_calibrate(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("calibrate", "How fast a device is: measured once and kept");
  command.flag("--again", o->again, "Measure even if that was done before");
  o->report.add_to(command, "the numbers");
  o->device.add_to(command);
  command.footer(
      "Times a product, copies, an empty dispatch and empty runs, a second or two in all. The numbers are "
      "kept\n"
      "in the cache folder, for this adapter and this driver. Kernels are chosen by them from then on, and\n"
      "`rlx cost` predicts by them what a model takes.\n"
      "\n"
      "Examples:\n"
      "  rlx calibrate\n"
      "  rlx calibrate --again --adapter 1 --json");
  command.action([o] { calibrate(*o); });
}

}  // namespace rlx::cli
