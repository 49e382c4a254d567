// What a graph is lowered for: a device's caps and the user's requests.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rlx/caps.h"
#include "rlx/precision.h"

namespace rlx {

// Kernel variants requested by name, by op: {"matmul": "plain"}.
using ForcedVariants = std::map<std::string, std::string, std::less<>>;

// Measured kernel times of a device. Several threads may call it at once.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // Nanoseconds that a row of the op's table takes with these constants ("ROWS=16 LANES=8") for problems with
  // this key; nothing if that was not measured.
  virtual std::optional<double> measured_ns(std::string_view op, std::string_view key,
                                            std::string_view variant, std::string_view constants) const = 0;
};

class ChoiceLog;

struct Target {
  Caps caps = {};
  Precision precision = Precision::exact;
  // A kernel whose result depends on the order in which invocations arrive must not apply.
  bool deterministic = true;
  // The graph has symbols: kernels are made for classes of sizes instead of for one exactly, so that a run
  // with others finds them compiled.
  bool sizes_vary = false;
  ForcedVariants forced = {};
  std::shared_ptr<const Chooser> chooser = {};  // may be null: all costs are estimates
  // Takes note of what is chosen, or says what was chosen before; null: neither.
  ChoiceLog* choices = nullptr;
};

}  // namespace rlx
