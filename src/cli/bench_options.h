// What `rlx bench` is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/device_flags.h"
#include "cli/graph_flags.h"
#include "cli/report.h"
#include "cli/run_setup.h"

namespace rlx::cli {

struct BenchOptions {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  std::vector<std::string> cases;
  ReportFlags report;
  double seconds = 1;
  bool growth = false;
  std::string plot;
  int64_t largest = 0;  // 0: what each case says
  std::string peer;     // ort, ort-cpu, ggml or rlx=PROGRAM
  int64_t rounds = 0;   // 0: what the peer is worth
  std::string record;   // of --report
  std::string check, with;

  bool beside_ort() const { return peer == "ort" || peer == "ort-cpu"; }
  bool beside_rlx() const { return peer.starts_with("rlx="); }
  std::string peer_program() const { return peer.substr(peer.find('=') + 1); }
};

}  // namespace rlx::cli
