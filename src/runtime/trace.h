// A Chrome/Perfetto trace that grows with each run and is a complete file after each.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "rlx/report.h"

namespace rlx {

class TraceFile {
 public:
  // Executables with the same path share one file; the first one in the process overwrites it.
  static std::shared_ptr<TraceFile> open(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // A separate row in the viewer.
  int64_t add_track(const std::string& title);
  // Microseconds since the file was opened.
  double now_us() const;
  // The dispatches of one run on the track, the first of them at start_us.
  void add_run(int64_t track, double start_us, std::span<const DispatchReport> dispatches);

 private:
  TraceFile(const std::string& path, std::FILE* file);
  void append(const std::string& events);

  std::mutex mutex_;
  std::string path_;
  std::FILE* file_;
  int64_t opened_ns_;
  int64_t tracks_ = 0;
  long end_ = 0;  // where the next event goes, over the closing brackets
};

}  // namespace rlx
