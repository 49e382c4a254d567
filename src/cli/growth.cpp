#include "cli/growth.h"

#include <cmath>

#include "base/format.h"
#include "cli/arguments.h"
#include "cli/log_plot.h"
#include "cli/progress.h"

namespace rlx::cli {
namespace {

std::vector<int64_t> sizes_of(const Case& c, int64_t largest) {
  const int64_t last = largest > 0 ? std::min(largest, c.scaled.last) : c.scaled.last;
  std::vector<int64_t> sizes;
  for (int64_t n = c.scaled.first; n <= last; n *= 10) {
    sizes.push_back(n);
    if (3 * n <= last) sizes.push_back(3 * n);
  }
  if (sizes.empty())
    throw Misuse(
        formatted("--largest is {}, but the smallest size of {} is {}", largest, c.name, c.scaled.first));
  return sizes;
}

// How n enters into the time between two sizes: 1 for as the number of elements, 2 for as its square.
double exponent(const GrowthPoint& a, const GrowthPoint& b) {
  return std::log(b.cpu_ms / a.cpu_ms) / std::log(static_cast<double>(b.n) / static_cast<double>(a.n));
}

double ns_per_element(const GrowthPoint& p) { return p.cpu_ms * 1e6 / static_cast<double>(p.n); }

}  // namespace

std::vector<Growth> measure_growth(const std::vector<const Case*>& cases, const Device& device,
                                   double seconds, int64_t largest) {
  std::vector<Growth> all;
  for (const Case* c : cases) {
    Growth g{.name = c->name, .what = c->what};
    const Baseline& beside = c->scaled.beside;
    if (beside.name) g.beside = beside.name;
    for (const int64_t n : sizes_of(*c, largest)) {
      const Progress progress(formatted("{}, n = {}", c->name, n));
      const Measured time = run_case_graph(c->scaled.make(n), {}, device, seconds).time;
      GrowthPoint p{.n = n, .cpu_ms = time.cpu_ms, .wall_ms = time.wall_ms};
      if (beside.name) p.beside_cpu_ms = baseline_cpu_ms(beside, n, device, seconds);
      g.points.push_back(p);
    }
    all.push_back(std::move(g));
  }
  return all;
}

std::string growth_table(const Growth& growth) {
  std::vector<std::vector<std::string>> rows = {{"n", "CPU", "wall", "CPU ns / n", "exponent"}};
  if (!growth.beside.empty()) rows[0].emplace_back("baseline CPU");
  if (!growth.beside.empty()) rows[0].emplace_back("ratio");
  for (size_t i = 0; i < growth.points.size(); ++i) {
    const GrowthPoint& p = growth.points[i];
    rows.push_back({std::to_string(p.n), ms_text(p.cpu_ms), ms_text(p.wall_ms),
                    formatted("{:.1f}", ns_per_element(p)),
                    i == 0 ? "" : formatted("{:.2f}", exponent(growth.points[i - 1], p))});
    if (growth.beside.empty()) continue;
    rows.back().push_back(ms_text(p.beside_cpu_ms));
    rows.back().push_back(formatted("{:.2f}", p.cpu_ms / p.beside_cpu_ms));
  }
  std::string title = formatted("\n{} ({})", growth.name, growth.what);
  if (!growth.beside.empty()) title += formatted(", beside {}", growth.beside);
  return title + "\n" + table(rows, {0, 1, 2, 3, 4, 5, 6});
}

Json to_json(const std::vector<Growth>& all) {
  Json cases = Json::array();
  for (const Growth& g : all) {
    Json points = Json::array();
    for (const GrowthPoint& p : g.points) {
      Json point = Json::object({{"n", p.n}, {"cpu_ms", p.cpu_ms}, {"wall_ms", p.wall_ms}});
      if (!g.beside.empty()) point.set("beside_cpu_ms", p.beside_cpu_ms);
      points.add(point);
    }
    Json one = Json::object({{"case", g.name}, {"points", points}});
    if (!g.beside.empty()) one.set("beside", g.beside);
    cases.add(one);
  }
  return cases;
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

}  // namespace rlx::cli
