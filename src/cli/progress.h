// What the program is doing, how far it is and for how long: one line on stderr that is rewritten in place.
// Only on a terminal: files, pipes and the logs of CI have nothing of it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "rlx/progress.h"

namespace rlx::cli {

// The line shows the innermost of those that exist.
class Progress {
 public:
  explicit Progress(const std::string& title);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // "3 of 12 lines"
  void update(int64_t done, int64_t all, std::string_view unit = "");
  void update_bytes(int64_t done, int64_t all);
};

// For DeviceOptions::progress: adds what the device does to the line. Empty where no line is shown.
ProgressListener progress_listener();

// The line makes room for the text.
void write_beside_progress(std::FILE* to, std::string_view text);

}  // namespace rlx::cli
