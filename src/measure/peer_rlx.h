// Another program of rlx, an older or a newer build, on the same work: `rlx bench --peer rlx=PROGRAM`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/bench_cases.h"
#include "measure/measure.h"

namespace rlx::measure {

// What one turn of a program yields.
struct RlxTurn {
  Measured time;
  int64_t dispatches = 0;
  std::string adapter;
};

class RlxProgram {
 public:
  // Asks the program for the help of its `bench`. Fails if it is not there or has none.
  static RlxProgram open(const std::string& path);
  // This very program.
  static RlxProgram self();

  const std::string& name() const { return name_; }  // for sentences
  // Whether its help has a case of this name that says to do the same.
  bool has(const Case& c) const;

  // A process of its own that compiles, warms up and measures what `words`, the arguments of `bench`, name.
  // Fails with what the program complains of.
  RlxTurn measure(const std::vector<std::string>& words, double seconds) const;

 private:
  RlxProgram(std::string name, std::string file, std::string help);

  std::string name_, file_;
  std::string help_;  // with single spaces
};

}  // namespace rlx::measure
