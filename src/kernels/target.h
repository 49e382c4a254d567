// What a graph is lowered for: a device's caps and the user's requests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/candidate.h"
#include "rlx/caps.h"
#include "rlx/precision.h"

namespace rlx {

// Kernels requested by op, by as many words of a candidate's name as matter: {"matmul": "plain"},
// {"matmul": "transposed rows ROWS=16"}.
using ForcedVariants = std::map<std::string, std::string, std::less<>>;

// One choice of a kernel.
struct Decision {
  using Reason = ChoiceReason;

  std::string_view family;         // ops that share records: "product", or the op itself
  std::string_view op;             // whose kernels may be forced
  std::string_view key;            // of the problem, for records
  std::span<const Candidate> all;  // that apply, with their costs; of a replayed choice only the one taken
  size_t taken = 0;
  Reason reason = Reason::estimated;
};

// Knows measured times of a device, is told what is chosen among, or both: a tuner times what it is told and
// knows it the next time. Several threads may call it at once.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // Whether it has anything to say about problems of a family with this key; else it is not asked.
  virtual bool knows(std::string_view /*family*/, std::string_view /*key*/) const { return true; }
  // The candidate that is taken for them, if it is there and no other one is forced: what was found out by
  // measuring, or what was taken before. Empty: the least time decides.
  virtual std::string_view settled(std::string_view /*family*/, std::string_view /*key*/) const { return {}; }
  // Nanoseconds that a candidate ("rows ROWS=16 LANES=8") takes for problems of a family with this key;
  // nothing if that was not measured, infinity if it must not be taken.
  virtual std::optional<double> measured_ns(std::string_view /*family*/, std::string_view /*key*/,
                                            std::string_view /*candidate*/) const {
    return std::nullopt;
  }
  // Replayed choices come in every run with a new length, and without a key: nothing is allocated for them.
  virtual void chosen(const Decision& /*decision*/) const {}
};

class ChoiceLog;

struct Target {
  Caps caps = {};
  Precision precision = Precision::exact;
  // MatrixUnitOptions::round and force_f32.
  bool rounds_factors = true;
  bool prefers_f32_units = false;
  // A kernel whose result depends on the order in which invocations arrive must not apply.
  bool deterministic = true;
  // How long a submit, and so a dispatch, may be estimated to take; 0: as long as it wants.
  double longest_ns = 0;
  // The graph has symbols: kernels are made for classes of sizes instead of for one exactly, so that a run
  // with others finds them compiled.
  bool sizes_vary = false;
  ForcedVariants forced = {};
  std::shared_ptr<const Chooser> chooser = {};  // may be null: all costs are estimates, nobody is told
  // Takes note of what is chosen, or says what was chosen before; null: neither.
  ChoiceLog* choices = nullptr;
};

}  // namespace rlx
