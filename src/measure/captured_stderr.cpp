#include "measure/captured_stderr.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/fail.h"

namespace rlx::measure {

namespace {

constexpr int kCrashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
std::atomic<int> captured = -1, real = -1;

// Only what is safe in a signal handler.
void show_last_words(int signal) {
  static std::array<char, 2048> words;
  const off_t end = lseek(captured, 0, SEEK_CUR);
  const ssize_t got =
      pread(captured, words.data(), words.size(), std::max<off_t>(0, end - static_cast<off_t>(words.size())));
  if (got > 0) static_cast<void>(!write(real, words.data(), static_cast<size_t>(got)));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

CapturedStderr::CapturedStderr() : file_(std::tmpfile()), stderr_(-1) {
  if (!file_)
    fail(ErrorKind::unsupported, "no file can be made for what drivers print: {}", std::strerror(errno));
  std::fflush(stderr);
  stderr_ = dup(STDERR_FILENO);
  dup2(fileno(file_), STDERR_FILENO);
  captured = fileno(file_);
  real = stderr_;
  for (const int signal : kCrashes) std::signal(signal, show_last_words);
}

CapturedStderr::~CapturedStderr() {
  for (const int signal : kCrashes) std::signal(signal, SIG_DFL);
  std::fflush(stderr);
  dup2(stderr_, STDERR_FILENO);
  close(stderr_);
  std::fclose(file_);
}

// The two descriptors share one position: it is put back to the begin for the next text.
std::string CapturedStderr::take() {
  std::fflush(stderr);
  std::string out;
  const off_t end = lseek(STDERR_FILENO, 0, SEEK_CUR);
  std::array<char, 65536> bytes;
  for (off_t at = 0; at < end;) {
    const ssize_t got = pread(fileno(file_), bytes.data(), bytes.size(), at);
    if (got <= 0) break;
    out.append(bytes.data(), static_cast<size_t>(got));
    at += got;
  }
  lseek(STDERR_FILENO, 0, SEEK_SET);
  static_cast<void>(!ftruncate(fileno(file_), 0));
  return out;
}

}  // namespace rlx::measure
