#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "import/new_file.h"
#include "measure/child_process.h"

namespace rlx::cli {
namespace {

// Only what is safe in a signal handler.
void end_program(int signal) {
  remove_unfinished_files();
  measure::drop_child_processes();
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const std::string_view text = terminal ? "\r\033[Krlx: interrupted; nothing half-written is left\n"
                                         : "rlx: interrupted; nothing half-written is left\n";
  static_cast<void>(!write(STDERR_FILENO, text.data(), text.size()));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void remove_unfinished_files_when_interrupted() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, end_program) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

}  // namespace rlx::cli
