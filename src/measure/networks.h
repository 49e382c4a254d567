// The networks that ./rlx downloads, by name: what `rlx bench` takes besides cases and files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::measure {

struct Network {
  const char* name;
  const char* what;
  const char* file;                  // in the folder `models` of the cache
  std::vector<std::string> dims;     // as for --dim
  const char* true_input = nullptr;  // an input that chooses a branch: [true]

  std::string path() const;
};

std::span<const Network> networks();
const Network* find_network(std::string_view name);  // null if there is none

}  // namespace rlx::measure
