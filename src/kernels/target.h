// What a graph is lowered for: the numbers of a device and what the user asks for.
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

// Kernel variants that were asked for by name, by op: {"matmul": "plain"}.
using ForcedVariants = std::map<std::string, std::string, std::less<>>;

// Knows what kernels took on the device. May be asked from several threads at once.
class Chooser {
 public:
  virtual ~Chooser() = default;
  // Nanoseconds of a row of the op's table with these constants ("ROWS=16 LANES=8") for problems with this
  // key; nothing if that was not measured.
  virtual std::optional<double> measured_ns(std::string_view op, std::string_view key,
                                            std::string_view variant, std::string_view constants) const = 0;
};

struct Target {
  Caps caps = {};
  Precision precision = Precision::exact;
  // A kernel whose result depends on the order in which invocations arrive must not apply.
  bool deterministic = true;
  ForcedVariants forced = {};
  std::shared_ptr<const Chooser> chooser = {};  // may be null: all costs are estimates
};

}  // namespace rlx
