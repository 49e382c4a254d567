#include "measure/growth.h"

#include <algorithm>

#include "base/format.h"
#include "measure/log_plot.h"

namespace rlx::measure {

std::vector<int64_t> growth_sizes(const Case& c, int64_t largest) {
  const int64_t last = largest > 0 ? std::min(largest, c.scaled.last) : c.scaled.last;
  std::vector<int64_t> sizes;
  for (int64_t n = c.scaled.first; n <= last; n *= 10) {
    sizes.push_back(n);
    if (3 * n <= last) sizes.push_back(3 * n);
  }
  return sizes;
}

std::vector<Growth> measure_growth(const std::vector<const Case*>& cases, const Device& device,
                                   double seconds, int64_t largest, const Announce& announce) {
  std::vector<Growth> all;
  for (const Case* c : cases) {
    Growth g{.name = c->name, .what = c->what};
    const Baseline& beside = c->scaled.beside;
    if (beside.name) g.beside = beside.name;
    for (const int64_t n : growth_sizes(*c, largest)) {
      if (announce) announce(formatted("{}, n = {}", c->name, n));
      const Measured time = run_case_graph(c->scaled.make(n), {}, device, seconds).time;
      GrowthPoint p{.n = n, .cpu_ms = time.cpu_ms, .wall_ms = time.wall_ms};
      if (beside.name) p.beside_cpu_ms = baseline_cpu_ms(beside, n, device, seconds);
      g.points.push_back(p);
    }
    all.push_back(std::move(g));
  }
  return all;
}

std::string growth_svg(const std::vector<Growth>& all, const std::string& adapter) {
  LogPlot plot{.title = "CPU time by size on " + adapter, .x = "n", .y = "CPU time (ms)"};
  for (const Growth& g : all) {
    LogPlot::Curve own{.name = g.name};
    LogPlot::Curve beside{.name = g.beside, .beside = true};
    for (const GrowthPoint& p : g.points) {
      own.points.push_back({static_cast<double>(p.n), p.cpu_ms});
      beside.points.push_back({static_cast<double>(p.n), p.beside_cpu_ms});
    }
    plot.curves.push_back(std::move(own));
    if (!g.beside.empty()) plot.curves.push_back(std::move(beside));
  }
  return plot.svg();
}

}  // namespace rlx::measure
