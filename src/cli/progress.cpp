#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

bool is_shown() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  return isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb" && variable("CI").empty();
}

// As much as fits in the terminal's width: a line that goes on in the next cannot be rewritten.
std::string cut(std::string_view text) {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const size_t width = known ? size.ws_col - 1u : 79u;
  std::string out;
  size_t columns = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    columns += (byte & 0xc0) != 0x80;  // not inside of a character of UTF-8
    if (columns > width) break;
    out += byte < ' ' || byte == 127 ? '?' : c;
  }
  return out;
}

class Line {
 public:
  const bool shown = is_shown();

  void begin(const Progress* owner, const std::string& title) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({owner, title, "", "", Clock::now()});
    if (!ticker_.joinable()) ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
    wake_.notify_all();
    draw();
  }

  void end(const Progress* owner) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& e) { return e.owner == owner; });
    if (entries_.empty()) {
      erase();
    } else {
      draw();
    }
  }

  void count(const Progress* owner, const std::string& text) {
    const std::lock_guard lock(mutex_);
    for (Entry& e : entries_) {
      if (e.owner == owner) change(e.count, text);
    }
  }

  void device(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!entries_.empty()) change(entries_.back().device, text);
  }

  void write(std::FILE* to, std::string_view text) {
    const std::lock_guard lock(mutex_);
    erase();
    std::fwrite(text.data(), 1, text.size(), to);
    std::fflush(to);
    if (!text.empty()) at_start_ = text.ends_with('\n');
  }

 private:
  struct Entry {
    const Progress* owner;
    std::string title;
    std::string count;   // how far it is
    std::string device;  // what the device is busy with
    Clock::time_point start;
  };

  void change(std::string& part, const std::string& text) {
    const bool appears = part.empty() != text.empty();
    part = text;
    if (appears || Clock::now() - drawn_at_ > 100ms) draw();
  }

  // Seconds go on although nothing is reported.
  void tick(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [&] { return !entries_.empty(); })) {
      wake_.wait_for(lock, stop, 250ms, [] { return false; });
      if (!entries_.empty()) draw();
    }
  }

  void draw() {
    if (!at_start_) return;  // the terminal's line has text that must stay
    const Entry& e = entries_.back();
    drawn_at_ = Clock::now();
    std::string text = e.title;
    if (!e.count.empty()) text += ": " + e.count;
    if (!e.device.empty()) text += (e.count.empty() ? ": " : ", ") + e.device;
    if (const auto seconds = std::chrono::floor<std::chrono::seconds>(drawn_at_ - e.start).count();
        seconds > 0)
      text += formatted(", {} s", seconds);
    std::fputs(formatted("\r\033[K{}", cut(text + " ...")).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
  }

  void erase() {
    if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Entry> entries_;
  bool drawn_ = false;
  bool at_start_ = true;  // of a line of the terminal
  Clock::time_point drawn_at_ = {};
  std::jthread ticker_;  // the last: it is joined while the others exist
};

Line& line() {
  static Line instance;
  return instance;
}

std::string report_text(const ProgressReport& report) {
  if (report.done == report.total) return "";
  switch (report.stage) {
    case ProgressStage::pipelines:
      return formatted("{} of {} pipelines made", report.done, report.total);
    case ProgressStage::first_run:
      return formatted("first run with compiling shaders, {} of {} dispatches", report.done, report.total);
  }
  return "";
}

}  // namespace

Progress::Progress(const std::string& title) {
  if (line().shown) line().begin(this, title);
}

Progress::~Progress() {
  if (line().shown) line().end(this);
}

void Progress::update(int64_t done, int64_t all, std::string_view unit) {
  if (line().shown) line().count(this, formatted("{} of {}{}{}", done, all, unit.empty() ? "" : " ", unit));
}

void Progress::update_bytes(int64_t done, int64_t all) {
  if (line().shown) line().count(this, formatted("{} of {}", bytes_text(done), bytes_text(all)));
}

ProgressListener progress_listener() {
  if (!line().shown) return {};
  return [](const ProgressReport& report) { line().device(report_text(report)); };
}

void write_beside_progress(std::FILE* to, std::string_view text) {
  if (line().shown && isatty(fileno(to)) == 1) return line().write(to, text);
  std::fwrite(text.data(), 1, text.size(), to);
}

}  // namespace rlx::cli
