#include "measure/beside.h"

#include <algorithm>
#include <memory>

#include "base/format.h"
#include "measure/peer_ggml.h"
#include "rlx/error.h"

namespace rlx::measure {
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
      out.push_back({std::make_unique<OrtPeer>(p, m.peer, outputs), ""});
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
  Executable exe = m.compile(device);
  const NamedTensors outputs = exe.run(m.inputs);
  std::vector<Peer> peers = ort_peers(providers, m, outputs);
  std::vector<Rounds> rounds(providers.size());
  for (int64_t round = 0; round < turns.rounds; ++round) {
    const Measured ours = measure_runs(exe, m.inputs, turns.seconds, 2000);
    for (size_t i = 0; i < peers.size(); ++i) {
      rounds[i].ours.push_back(ours);
      measure_peer(peers[i], rounds[i], turns.seconds);
    }
  }
  std::vector<Beside> out;
  for (size_t i = 0; i < peers.size(); ++i) {
    Beside& b = out.emplace_back(Beside{
        .name = m.name, .dispatches = std::ssize(exe.plan_report(m.open).run), .refusal = peers[i].refusal});
    rounds[i].into(b);
    if (!peers[i].session) continue;
    b.difference = peers[i].session->difference();
    b.whole = peers[i].session->whole();
    if (peers[i].session->dispatches() >= 0) b.peer_dispatches = peers[i].session->dispatches();
  }
  return out;
}

}  // namespace

std::vector<std::vector<Beside>> beside_ort(const std::vector<OrtProvider>& providers,
                                            const std::vector<BesideModel>& models, const Device& device,
                                            const Turns& turns, const Announce& announce) {
  std::vector<std::vector<Beside>> out(providers.size());
  for (const BesideModel& m : models) {
    if (announce) announce(m.name);
    const std::vector<Beside> results = beside_ort(providers, m, device, turns);
    for (size_t i = 0; i < out.size(); ++i) out[i].push_back(results[i]);
  }
  return out;
}

namespace {

// Files that only exist while we measure are called by their last names.
std::string without_folder(std::string text, const TemporaryFolder& folder) {
  const std::string path = folder.file("");
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path))
    text.erase(at, path.size());
  return text;
}

// Why the peer has no figures, if it has none; else they are added to the rounds.
std::string turn_of(const RlxProgram& peer, const std::vector<std::string>& words, const RlxTurn& ours,
                    double seconds, Rounds& rounds, Beside& b) {
  try {
    const RlxTurn turn = peer.measure(words, seconds);
    if (turn.adapter != ours.adapter)
      return formatted("{} runs on {}, and this program on {}", peer.name(), turn.adapter, ours.adapter);
    b.peer_dispatches = turn.dispatches;
    rounds.peers.push_back(turn.time);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

Beside beside_rlx(const RlxProgram& peer, const RlxSubject& subject, const Turns& turns) {
  static const RlxProgram self = RlxProgram::self();
  const TemporaryFolder folder;
  const RlxWork work = subject.prepare(folder);
  Beside b{.name = subject.name, .refusal = work.refusal};
  Rounds rounds;
  for (int64_t round = 0; round < turns.rounds; ++round) {
    const RlxTurn ours = self.measure(work.words, turns.seconds);
    b.dispatches = ours.dispatches;
    rounds.ours.push_back(ours.time);
    if (b.refusal.empty()) b.refusal = turn_of(peer, work.words, ours, turns.seconds, rounds, b);
    // Our own figures are there, and more of them would be compared with nothing.
    if (!b.refusal.empty()) break;
  }
  if (!b.refusal.empty()) {
    b.refusal = formatted("{}: {}", b.name, without_folder(b.refusal, folder));
    b.peer_dispatches.reset();
    rounds.peers.clear();
  }
  rounds.into(b);
  return b;
}

}  // namespace

std::vector<Beside> beside_rlx(const RlxProgram& peer, const std::vector<RlxSubject>& subjects,
                               const Turns& turns, const Announce& announce) {
  std::vector<Beside> out;
  for (const RlxSubject& s : subjects) {
    if (announce) announce(s.name);
    out.push_back(beside_rlx(peer, s, turns));
  }
  return out;
}

std::vector<Beside> beside_ggml(const std::vector<const Case*>& cases, const Device& device,
                                const Turns& turns, const Announce& announce) {
  std::vector<Beside> out;
  for (const Case* c : cases) {
    if (announce) announce(c->name);
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

}  // namespace rlx::measure
