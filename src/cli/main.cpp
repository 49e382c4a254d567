#include "rlx/command_line.h"

int main(int argc, char** argv) { return rlx::command_line(argc, argv); }
