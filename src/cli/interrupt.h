// Ctrl-C and other signals that end the program.
#pragma once

namespace rlx::cli {

// From now on, SIGINT, SIGTERM and SIGHUP first remove files that are half written and say that they ended
// the program; its status is still that of the signal. A signal that is ignored stays so.
void remove_unfinished_files_when_interrupted();

}  // namespace rlx::cli
