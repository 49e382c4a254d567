// The program `rlx` as a function, for programs that add ops of their own (rlx/custom_op.h) to it:
//
//   int main(int argc, char** argv) {
//     register_my_ops();
//     return rlx::command_line(argc, argv);
//   }
//
// Link rlx::command_line.
#pragma once

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Runs the command that the arguments name and returns the exit code: 0, 1 for a failure or 2 for misuse,
// after a sentence on stderr. Does not throw.
int command_line(int argc, char** argv);

}  // namespace rlx
RLX_EXPORT_END
