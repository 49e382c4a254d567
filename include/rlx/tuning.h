// Kernels chosen by times that were measured on the device at hand, instead of by estimates (docs/tuning.md).
//
//   rlx::Executable exe = rlx::compile(graph, device, {.deterministic = false});
//   rlx::tune(exe, inputs);                       // once; what is found is kept in the cache folder
//   rlx::Executable tuned = rlx::compile(graph, device);   // uses it, in this process and all later ones
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rlx/executable.h"
#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Which measured times a compilation knows, and whether its runs add some.
struct TuningOptions {
  // Kernels are chosen by what was measured for this adapter, driver and version, wherever something was: in
  // the file `tuning.json` of the cache folder, and in `files`. Off with $RLX_NO_TUNE: by estimates alone.
  bool records = true;
  // Files that are read besides, such as one that comes with an application; $RLX_TUNING_FILES has more of
  // them, separated by commas. What was measured here counts before them. What cannot be read, or is from
  // elsewhere, is passed over.
  std::vector<std::string> files = {};
  // After a run that returns its outputs, the executable times a kernel or two on memory of its own, for at
  // most a seventh of what the run took. What is found serves later compilations. Only where
  // CompileOptions::deterministic is off; nothing happens with $RLX_NO_TUNE.
  bool background = false;
};

// One class of problems, such as products of about the same sizes with the same operands: it has one record.
struct TunedProblem {
  std::string family, op, key;
  std::string node;  // the first one of the graph with such a problem
  int64_t nodes = 1;
  std::string static_choice, tuned_choice;  // names of kernels, as StepReport::variant has them
  // What they take; 0 where nothing was measured.
  double static_ns = 0, tuned_ns = 0;
  int64_t tried = 0;  // candidates, now
  // Those that gave wrong numbers, lost the device, or could not be made, with the reason: they are not
  // chosen again.
  std::vector<std::string> excluded = {};
  // Why nothing was measured: "known" (there was a record), or a sentence; "" if it was.
  std::string left = {};
};

struct TuneProgress {
  int64_t done = 0, problems = 0;
  std::string problem;  // the one that is being measured
};

struct TuneOptions {
  double seconds = 1;      // on the device, for each problem, besides the first run of each candidate
  int64_t candidates = 6;  // for each problem, the most promising by estimate
  // Problems that take a smaller share of the run are left alone.
  double least_share = 0.01;
  std::string file = {};  // in the place of the one in the cache folder
  std::function<void(const TuneProgress&)> progress = {};
};

struct TuneReport {
  std::string file;
  double run_ms = 0;  // of all dispatches of one run, on the device, before
  int64_t measured = 0;
  std::vector<TunedProblem> problems;  // by their share of the run, the largest first
};

// Runs the executable once, and then times candidates for the problems of its plan, each on the device, with
// timestamps, in turns with the others; what has a record is not measured again. The results of each
// candidate are compared with those of the plainest one. The executable goes on as it is: what is compiled
// later uses the records. It must have been compiled with deterministic = false, since what is deterministic
// never measures. If a candidate takes the device with it, that is recorded and the loss thrown: called
// again, for an executable on a new device, it goes on with the others.
TuneReport tune(Executable& exe, const RunInputs& inputs, const TuneOptions& options = {},
                SymbolList symbols = {});

}  // namespace rlx
RLX_EXPORT_END
