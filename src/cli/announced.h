// Progress of work that announces what it does next.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/progress.h"

namespace rlx::cli {

// What `work` announces is what the program is doing, in the words that `title` makes of it.
template <class Work>
auto with_progress(Work&& work,
                   const std::function<std::string(const std::string&)>& title = std::identity()) {
  std::optional<Progress> progress;
  return work([&](const std::string& what) { progress.emplace(title(what)); });
}

}  // namespace rlx::cli
