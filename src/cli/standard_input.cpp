#include "cli/standard_input.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "base/fail.h"
#include "cli/arguments.h"
#include "cli/progress.h"

namespace rlx::cli {
namespace {

std::string taken;  // the path, once it is asked for

void write_all(int file, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      fail(ErrorKind::invalid_file, "standard input cannot be kept in memory: {}", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

// What comes from a pipe is kept in memory. The file is never closed: what is mapped from it is used until
// the end.
int copy_of_input() {
  const int file = memfd_create("standard-input", MFD_CLOEXEC);
  if (file < 0)
    fail(ErrorKind::invalid_file, "standard input cannot be kept in memory: {}", std::strerror(errno));
  std::array<char, 1 << 16> block = {};
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorKind::invalid_file, "standard input cannot be read: {}", std::strerror(errno));
    if (count == 0) return file;
    write_all(file, std::span(block).first(static_cast<size_t>(count)));
  }
}

// A file that is redirected is read where it is.
bool is_whole_file() {
  struct stat status = {};
  return fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
         lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
}

}  // namespace

void take_standard_input(std::string& path) {
  if (path != "-") return;
  if (!taken.empty()) throw Misuse("'-' is given twice, but standard input can be read only once");
  const Progress progress("reading standard input");
  taken = formatted("/proc/self/fd/{}", is_whole_file() ? STDIN_FILENO : copy_of_input());
  path = taken;
}

std::string with_shown_names(std::string text) {
  if (taken.empty()) return text;
  for (size_t at = text.find(taken); at != std::string::npos; at = text.find(taken, at))
    text.replace(at, taken.size(), "standard input");
  return text;
}

std::string short_name(const std::string& path) {
  return std::filesystem::path(with_shown_names(path)).filename().string();
}

}  // namespace rlx::cli
