#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

// How n enters into the time between two sizes: 1 for as the number of elements, 2 for as its square.
double exponent(const measure::GrowthPoint& a, const measure::GrowthPoint& b) {
  return std::log(b.cpu_ms / a.cpu_ms) / std::log(static_cast<double>(b.n) / static_cast<double>(a.n));
}

double ns_per_element(const measure::GrowthPoint& p) { return p.cpu_ms * 1e6 / static_cast<double>(p.n); }

void add_peer_times(const measure::Beside& b, Json& into) {
  into.set("peer_cpu_ms", *b.peer_cpu_ms);
  into.set("peer_wall_ms", *b.peer_wall_ms);
  into.set("ratio_cpu", b.cpu_ms / *b.peer_cpu_ms);
  into.set("ratio_wall", b.wall_ms / *b.peer_wall_ms);
}

std::string ratio_text(double ratio) {
  return ratio < 0.1 ? formatted("{:.3f}", ratio) : formatted("{:.2f}", ratio);
}

}  // namespace

Json report_json(const std::string& adapter, const Json& cases) {
  return Json::object({{"adapter", adapter}, {"cases", cases}});
}

std::string growth_table(const measure::Growth& growth) {
  std::vector<std::vector<std::string>> rows = {{"n", "CPU", "wall", "CPU ns / n", "exponent"}};
  if (!growth.beside.empty()) rows[0].emplace_back("baseline CPU");
  if (!growth.beside.empty()) rows[0].emplace_back("ratio");
  for (size_t i = 0; i < growth.points.size(); ++i) {
    const measure::GrowthPoint& p = growth.points[i];
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

Json to_json(const std::vector<measure::Growth>& all) {
  Json cases = Json::array();
  for (const measure::Growth& g : all) {
    Json points = Json::array();
    for (const measure::GrowthPoint& p : g.points) {
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

Json to_json(const std::vector<measure::Beside>& results, const std::vector<measure::Beside>& cpu_provider) {
  Json out = Json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const measure::Beside& b = results[i];
    Json item = Json::object(
        {{"case", b.name}, {"cpu_ms", b.cpu_ms}, {"wall_ms", b.wall_ms}, {"dispatches", b.dispatches}});
    if (b.flops > 0) item.set("gflops", b.flops / b.wall_ms / 1e6);
    if (b.peer_wall_ms) {
      add_peer_times(b, item);
      item.set("peer_whole", b.whole);
      if (b.flops > 0) item.set("peer_gflops", b.flops / *b.peer_wall_ms / 1e6);
    }
    if (b.peer_dispatches) item.set("peer_dispatches", *b.peer_dispatches);
    if (b.difference && std::isfinite(*b.difference)) item.set("difference", *b.difference);
    if (!b.refusal.empty()) item.set("refusal", b.refusal);
    if (!cpu_provider.empty() && cpu_provider[i].peer_wall_ms) {
      Json on_cpu = Json::object();
      add_peer_times(cpu_provider[i], on_cpu);
      item.set("cpu_provider", on_cpu);
    }
    out.add(item);
  }
  return out;
}

std::string beside_table(const std::vector<measure::Beside>& results, const std::string& peer) {
  const bool rates = std::ranges::any_of(results, [](const measure::Beside& b) { return b.flops > 0; });
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall", "CPU", peer + " wall", peer + " CPU", "wall ratio", "CPU ratio"}};
  if (rates) rows[0].insert(rows[0].end(), {"GFLOP/s", peer + " GFLOP/s"});
  if (!rates) rows[0].insert(rows[0].end(), {"dispatches", peer + " dispatches"});
  for (const measure::Beside& b : results) {
    std::vector<std::string> row = {b.name, ms_text(b.wall_ms), ms_text(b.cpu_ms)};
    if (b.peer_wall_ms) {
      row.insert(row.end(), {ms_text(*b.peer_wall_ms), ms_text(*b.peer_cpu_ms),
                             ratio_text(b.wall_ms / *b.peer_wall_ms), ratio_text(b.cpu_ms / *b.peer_cpu_ms)});
    } else {
      row.resize(rows[0].size() - 2);
    }
    if (rates) {
      row.push_back(formatted("{:.1f}", b.flops / b.wall_ms / 1e6));
      row.push_back(b.peer_wall_ms ? formatted("{:.1f}", b.flops / *b.peer_wall_ms / 1e6) : "");
    } else {
      row.push_back(std::to_string(b.dispatches));
      row.push_back(b.peer_dispatches ? std::to_string(*b.peer_dispatches) : "");
    }
    rows.push_back(std::move(row));
  }
  std::vector<size_t> right(rows[0].size() - 1);
  std::iota(right.begin(), right.end(), size_t{1});
  return table(rows, right);
}

std::string beside_notes(const std::vector<measure::Beside>& results, const std::string& peer) {
  std::string out;
  for (const measure::Beside& b : results) {
    // So that nobody trusts such a ratio too much.
    if (b.highest_ratio > 1.25 * b.lowest_ratio) {
      out += formatted("{}: the rounds differ, their ratios are from {} to {}\n", b.name,
                       ratio_text(b.lowest_ratio), ratio_text(b.highest_ratio));
    }
    if (!b.refusal.empty()) {
      out += b.refusal + "\n";
    } else if (!b.peer_wall_ms) {
      out += formatted("{}: {} cannot do it on this device\n", b.name, peer);
    }
    if (!b.whole) out += formatted("{}: {} runs some of its nodes on the CPU\n", b.name, peer);
  }
  const auto compared = [](const measure::Beside& b) { return b.difference.has_value(); };
  if (std::ranges::any_of(results, compared)) {
    out += formatted("outputs of rlx and {} differ by, as a fraction of the largest value:", peer);
    for (const measure::Beside& b : results) {
      if (b.difference) out += formatted(" {} {:.1e}", b.name, *b.difference);
    }
    out += "\n";
  }
  return out;
}

}  // namespace rlx::cli
