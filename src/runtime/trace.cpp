#include "runtime/trace.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include "base/fail.h"
#include "base/json.h"
#include "rlx/diagnostics.h"

namespace rlx {
namespace {

constexpr const char* kBegin = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
constexpr const char* kEnd = "\n]}\n";

std::string track_event(int64_t track, const std::string& title) {
  return Json::object({{"ph", "M"},
                       {"name", "thread_name"},
                       {"pid", 1},
                       {"tid", track},
                       {"args", Json::object({{"name", title}})}})
      .text();
}

std::string dispatch_event(int64_t track, double start_us, const DispatchReport& d) {
  return Json::object({{"ph", "X"},
                       {"name", d.kernel + (d.variant.empty() ? "" : " [" + d.variant + "]")},
                       {"cat", "dispatch"},
                       {"pid", 1},
                       {"tid", track},
                       {"ts", start_us + static_cast<double>(d.begin_ns) / 1e3},
                       {"dur", static_cast<double>(d.end_ns - d.begin_ns) / 1e3},
                       {"args", Json::object({{"node", d.node}})}})
      .text();
}

int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string trace_json(std::span<const DispatchReport> dispatches, const std::string& title) {
  std::string out = kBegin + track_event(1, title);
  for (const DispatchReport& d : dispatches) out += ",\n" + dispatch_event(1, 0, d);
  return out + kEnd;
}

std::shared_ptr<TraceFile> TraceFile::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<TraceFile>>
      files;  // kept, so that a later executable continues the file
  const std::lock_guard lock(mutex);
  std::shared_ptr<TraceFile>& file = files[path];
  if (!file) {
    std::FILE* const opened = std::fopen(path.c_str(), "wb");
    if (!opened)
      fail(ErrorKind::invalid_argument, "the trace '{}' cannot be written: {}", path, std::strerror(errno));
    file = std::shared_ptr<TraceFile>(new TraceFile(path, opened));
  }
  return file;
}

TraceFile::TraceFile(const std::string& path, std::FILE* file)
    : path_(path), file_(file), opened_ns_(clock_ns()) {
  std::fputs(kBegin, file_);
  end_ = std::ftell(file_);
}

TraceFile::~TraceFile() { std::fclose(file_); }

double TraceFile::now_us() const { return static_cast<double>(clock_ns() - opened_ns_) / 1e3; }

int64_t TraceFile::add_track(const std::string& title) {
  const std::lock_guard lock(mutex_);
  append((tracks_ ? ",\n" : "") + track_event(tracks_ + 1, title));
  return ++tracks_;
}

void TraceFile::add_run(int64_t track, double start_us, std::span<const DispatchReport> dispatches) {
  const std::lock_guard lock(mutex_);
  std::string events;
  for (const DispatchReport& d : dispatches) events += ",\n" + dispatch_event(track, start_us, d);
  append(events);
}

void TraceFile::append(const std::string& events) {
  std::fseek(file_, end_, SEEK_SET);
  std::fwrite(events.data(), 1, events.size(), file_);
  end_ = std::ftell(file_);
  std::fputs(kEnd, file_);
  if (std::fflush(file_) != 0)
    fail(ErrorKind::invalid_argument, "the trace '{}' cannot be written: {}", path_, std::strerror(errno));
}

}  // namespace rlx
