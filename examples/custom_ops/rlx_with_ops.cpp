// The command line of rlx, in which graph files may use these ops.
#include "ops.h"
#include "rlx/command_line.h"

int main(int argc, char** argv) {
  register_ops();
  return rlx::command_line(argc, argv);
}
