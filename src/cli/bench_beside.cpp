#include "cli/bench_beside.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/fail.h"
#include "cli/peer_ggml.h"
#include "cli/progress.h"
#include "cli/standard_input.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Of both sides, round by round.
struct Rounds {
  std::vector<Measured> ours, peers;

  void into(Beside& b) const {
    const auto middle = [](const std::vector<Measured>& side, double Measured::* time) {
      std::vector<double> values;
      for (const Measured& m : side) values.push_back(m.*time);
      return median(std::move(values));
    };
    b.cpu_ms = middle(ours, &Measured::cpu_ms);
    b.wall_ms = middle(ours, &Measured::wall_ms);
    if (peers.empty()) return;
    b.peer_cpu_ms = middle(peers, &Measured::cpu_ms);
    b.peer_wall_ms = middle(peers, &Measured::wall_ms);
    std::vector<double> ratios;
    for (size_t i = 0; i < peers.size(); ++i) ratios.push_back(ours[i].cpu_ms / peers[i].cpu_ms);
    b.lowest_ratio = std::ranges::min(ratios);
    b.highest_ratio = std::ranges::max(ratios);
  }
};

// A session of each provider, or why there is none.
struct Peer {
  std::unique_ptr<OrtPeer> session;
  std::string refusal;
};
std::vector<Peer> ort_peers(const std::vector<OrtProvider>& providers, const BesideModel& m,
                            const NamedTensors& outputs) {
  std::vector<Peer> out;
  for (const OrtProvider p : providers) {
    try {
      out.push_back({std::make_unique<OrtPeer>(p, m.file, *m.setup, outputs), ""});
    } catch (const Error& e) {
      out.push_back({nullptr, e.what()});
    }
  }
  return out;
}

// A peer that fails in the middle loses its own figures, not ours.
void measure_peer(Peer& peer, Rounds& rounds, double seconds) {
  if (!peer.session) return;
  try {
    rounds.peers.push_back(peer.session->measure(seconds));
  } catch (const Error& e) {
    rounds.peers.clear();
    peer = {nullptr, e.what()};
  }
}

// One result for each provider.
std::vector<Beside> beside_ort(const std::vector<OrtProvider>& providers, const BesideModel& m,
                               const Device& device, const Turns& turns) {
  const Progress progress(formatted("{} in rlx and in ONNX Runtime", short_name(m.name)));
  CompiledModel compiled = compile_model(*m.setup, device);
  const NamedTensors outputs = compiled.exe.run(m.setup->leaves.inputs);
  std::vector<Peer> peers = ort_peers(providers, m, outputs);
  std::vector<Rounds> rounds(providers.size());
  for (int64_t round = 0; round < turns.rounds; ++round) {
    const Measured ours = measure(compiled.exe, m.setup->leaves.inputs, turns.seconds, 2000);
    for (size_t i = 0; i < peers.size(); ++i) {
      rounds[i].ours.push_back(ours);
      measure_peer(peers[i], rounds[i], turns.seconds);
    }
  }
  std::vector<Beside> out;
  for (size_t i = 0; i < peers.size(); ++i) {
    Beside& b = out.emplace_back(Beside{.name = m.name,
                                        .dispatches = std::ssize(compiled.exe.plan_report(m.setup->open).run),
                                        .refusal = peers[i].refusal});
    rounds[i].into(b);
    if (!peers[i].session) continue;
    b.difference = peers[i].session->difference();
    b.whole = peers[i].session->whole();
    if (peers[i].session->dispatches() >= 0) b.peer_dispatches = peers[i].session->dispatches();
  }
  return out;
}

void add_peer_times(const Beside& b, Json& into) {
  into.set("peer_cpu_ms", *b.peer_cpu_ms);
  into.set("peer_wall_ms", *b.peer_wall_ms);
  into.set("ratio_cpu", b.cpu_ms / *b.peer_cpu_ms);
  into.set("ratio_wall", b.wall_ms / *b.peer_wall_ms);
}

std::string ratio_text(double ratio) {
  return ratio < 0.1 ? formatted("{:.3f}", ratio) : formatted("{:.2f}", ratio);
}

}  // namespace

void check_only_adapter(const DeviceFlags& flags) {
  const std::vector<AdapterInfo> adapters = flags.adapters();
  if (adapters.size() == 1) return;
  fail(ErrorKind::unsupported,
       "--peer: there must be exactly one {} adapter, so that both sides use the same, but there are {}{}; "
       "VK_DRIVER_FILES=FILE.json leaves only the driver of that file",
       flags.backend, adapters.size(),
       adapters.empty() ? "" : formatted(": {}", joined(adapters, &AdapterInfo::name)));
}

std::vector<std::vector<Beside>> beside_ort(const std::vector<OrtProvider>& providers,
                                            const std::vector<BesideModel>& models, const Device& device,
                                            const Turns& turns) {
  std::vector<std::vector<Beside>> out(providers.size());
  for (const BesideModel& m : models) {
    const std::vector<Beside> results = beside_ort(providers, m, device, turns);
    for (size_t i = 0; i < out.size(); ++i) out[i].push_back(results[i]);
  }
  return out;
}

std::vector<Beside> beside_ggml(const std::vector<const Case*>& cases, const Device& device,
                                const Turns& turns) {
  std::vector<Beside> out;
  for (const Case* c : cases) {
    const Progress progress(formatted("{} in rlx and in llama.cpp", c->name));
    const auto same = std::ranges::find(ggml_cases(), std::string_view(c->name), &GgmlCase::name);
    Beside b{.name = c->name, .flops = c->flops};
    Rounds rounds;
    for (int64_t round = 0; round < turns.rounds; ++round) {
      const CaseRun ours = run_case_graph(c->graph(), {}, device, turns.seconds);
      b.dispatches = std::ssize(ours.plan.run);
      rounds.ours.push_back(ours.time);
      const std::optional<GgmlTime> peer = run_ggml(*same);
      if (!peer) break;
      rounds.peers.push_back({.wall_ms = peer->wall_ms, .cpu_ms = peer->cpu_ms, .runs = peer->runs});
    }
    rounds.into(b);
    out.push_back(std::move(b));
  }
  return out;
}

Json to_json(const std::vector<Beside>& results, const std::vector<Beside>& cpu_provider) {
  Json out = Json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const Beside& b = results[i];
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

std::string beside_table(const std::vector<Beside>& results, const std::string& peer) {
  const bool rates = std::ranges::any_of(results, [](const Beside& b) { return b.flops > 0; });
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall", "CPU", peer + " wall", peer + " CPU", "wall ratio", "CPU ratio"}};
  if (rates) rows[0].insert(rows[0].end(), {"GFLOP/s", peer + " GFLOP/s"});
  if (!rates) rows[0].insert(rows[0].end(), {"dispatches", peer + " dispatches"});
  for (const Beside& b : results) {
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

std::string beside_notes(const std::vector<Beside>& results, const std::string& peer) {
  std::string out;
  for (const Beside& b : results) {
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
  const auto compared = [](const Beside& b) { return b.difference.has_value(); };
  if (std::ranges::any_of(results, compared)) {
    out += formatted("outputs of rlx and {} differ by, as a fraction of the largest value:", peer);
    for (const Beside& b : results) {
      if (b.difference) out += formatted(" {} {:.1e}", b.name, *b.difference);
    }
    out += "\n";
  }
  return out;
}

}  // namespace rlx::cli
