// `rlx bench --peer`: rlx and another runtime on the same work and the same device, in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/bench_cases.h"
#include "measure/child_process.h"
#include "measure/peer_ort.h"
#include "measure/peer_rlx.h"

namespace rlx::measure {

struct Turns {
  int64_t rounds = 3;  // how often each side has its turn
  double seconds = 1;  // how long a turn is
};

// One piece of work on both sides. Times are medians of the rounds, each of which is a median of runs.
struct Beside {
  std::string name;
  int64_t dispatches = 0;
  double cpu_ms = 0, wall_ms = 0;
  std::optional<double> peer_cpu_ms = {}, peer_wall_ms = {};  // nothing if the peer cannot do it
  std::optional<int64_t> peer_dispatches = {};
  std::optional<double> difference = {};       // between the outputs, as a fraction of the largest value
  std::string refusal = {};                    // why the peer cannot do it, if it says so
  bool whole = true;                           // the peer runs every node on the device
  double flops = 0;                            // of a run; 0 where they mean little
  double lowest_ratio = 0, highest_ratio = 0;  // of the rounds' CPU times
};

// A model for both sides, with its name in the report.
struct BesideModel {
  std::string name;
  std::function<Executable(const Device&)> compile;  // with its params
  NamedTensors inputs;                               // of the executable
  SymbolValues open;                                 // its symbols
  OrtWork peer;
};

// In each round rlx has its turn, then each of the providers. A list for each provider. What ONNX Runtime
// refuses has no times.
std::vector<std::vector<Beside>> beside_ort(const std::vector<OrtProvider>& providers,
                                            const std::vector<BesideModel>& models, const Device& device,
                                            const Turns& turns, const Announce& announce = {});

// What both programs are asked to do: arguments of `rlx bench`, the same for both unless only one of them
// knows how.
struct RlxWork {
  std::vector<std::string> words;
  std::string refusal = {};  // why the peer is not asked
};
struct RlxSubject {
  std::string name;
  std::function<RlxWork(const TemporaryFolder&)> prepare;  // with files in the folder, until it is measured
};

// Each turn is a process of its own, on both sides: outputs are not compared. Fails if our own side does.
std::vector<Beside> beside_rlx(const RlxProgram& peer, const std::vector<RlxSubject>& subjects,
                               const Turns& turns, const Announce& announce = {});

// llama.cpp has its own benchmark, with weights of its own: outputs are not compared.
std::vector<Beside> beside_ggml(const std::vector<const Case*>& cases, const Device& device,
                                const Turns& turns, const Announce& announce = {});

}  // namespace rlx::measure
