// The commands of the program, each in a file of its own. A function here adds a command to the parser; what
// it does runs when the arguments are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>

namespace rlx::cli {

// A call that cannot be meant: printed with a hint at the help, exit code 2.
class Misuse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void add_devices(CLI::App& app);
void add_ops(CLI::App& app);
void add_plan(CLI::App& app);
void add_run(CLI::App& app);
void add_bench(CLI::App& app);
void add_demo(CLI::App& app);

}  // namespace rlx::cli
