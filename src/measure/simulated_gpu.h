// GPUs that need not be there: Debian's mesa-drm-shim answers in the place of the kernel, so that Mesa's
// driver opens and compiles shaders as it does for the card. Nothing is executed.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "measure/shader_statistics.h"

namespace rlx::measure {

struct SimulatedGpu {
  const char* name;  // for --device
  const char* what;
  const char* driver;
  const char* shim;  // a library that is loaded before all others
  const char* icd;   // the driver's file in the folders of Vulkan, without its ending
  std::map<std::string, std::string> chip;
  std::map<std::string, std::string> statistics;  // has the driver print them
  // What it prints beside them takes it longer than the compiling.
  bool prints_code;
  std::optional<ShaderStatistics> (*parse)(std::string_view text);
  // Occupancy: ShaderStatistics::room is counted in these, of which the hardware has at most so many.
  const char* unit;
  int64_t most_units;
};

std::span<const SimulatedGpu> simulated_gpus();
const SimulatedGpu* find_simulated_gpu(std::string_view name);  // null if there is none

// The variables of a process that sees this GPU and no other, and that keeps no compiled shader. Fails with
// what is not installed.
std::map<std::string, std::string> environment_of(const SimulatedGpu& gpu);

// How many of the units run at once beside each other, as far as registers decide.
std::optional<int64_t> occupancy(const SimulatedGpu& gpu, const ShaderStatistics& statistics);

}  // namespace rlx::measure
