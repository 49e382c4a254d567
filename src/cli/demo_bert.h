// `rlx demo bert`: BERT-base with random weights on the device and on the CPU.
#pragma once

#include <cstdint>

#include "cli/device_flags.h"
#include "cli/report.h"

namespace rlx::cli {

struct BertDemo {
  DeviceFlags device;
  int64_t layers = 12;
  int64_t tokens = 128;
  bool no_check = false;
  ReportFlags report;
};

void run_bert_demo(const BertDemo& options);

}  // namespace rlx::cli
