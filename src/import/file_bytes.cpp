#include "import/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/fail.h"

namespace rlx {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// What is not a regular file is refused once it is open: without O_NONBLOCK, opening a pipe would wait for a
// writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

[[noreturn]] void cannot_read(const std::string& path, int error) {
  fail(ErrorKind::invalid_file, "the file '{}' cannot be read: {}", excerpt(path, 300), std::strerror(error));
}

std::mutex open_mutex;
std::map<const FileBytes*, std::string> open_paths;

}  // namespace

std::vector<std::string> FileBytes::open_files() {
  const std::lock_guard lock(open_mutex);
  std::vector<std::string> out;
  for (const auto& [file, path] : open_paths) out.push_back(path);
  return out;
}

FileBytes::FileBytes(const std::string& path) {
  const Descriptor file{::open(path.c_str(), kOpenFlags)};
  if (file.fd < 0) cannot_read(path, errno);
  map(file.fd, path);
}

FileBytes::FileBytes(const std::string& folder, const std::string& relative) {
  namespace fs = std::filesystem;
  const fs::path wanted(relative);
  if (relative.empty() || wanted.is_absolute() || std::ranges::find(wanted, "..") != wanted.end()) {
    fail(ErrorKind::invalid_file, "the path '{}' must lead to a file below the folder '{}'",
         excerpt(relative), folder);
  }
  const std::string path = (fs::path(folder) / wanted).string();
  const Descriptor file{::open(path.c_str(), kOpenFlags)};
  if (file.fd < 0) cannot_read(path, errno);
  std::error_code error;
  const fs::path opened = fs::read_symlink(formatted("/proc/self/fd/{}", file.fd), error);
  const fs::path inside = fs::canonical(folder.empty() ? "." : folder, error);
  const auto [end, _] = std::ranges::mismatch(inside, opened);
  if (error || end != inside.end()) {
    fail(ErrorKind::invalid_file, "the path '{}' leads to '{}', which is not below the folder '{}'",
         excerpt(relative), opened.string(), folder);
  }
  map(file.fd, path);
}

void FileBytes::map(int descriptor, const std::string& path) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) cannot_read(path, errno);
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::invalid_file, "'{}' is not a regular file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // an empty mapping is an error of mmap, not of the file
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapped == MAP_FAILED) cannot_read(path, errno);
  mapped_ = mapped;
  bytes_ = {static_cast<const std::byte*>(mapped), size};
  const std::lock_guard lock(open_mutex);
  open_paths.emplace(this, path);
}

FileBytes::~FileBytes() {
  if (!mapped_) return;
  munmap(mapped_, bytes_.size());
  const std::lock_guard lock(open_mutex);
  open_paths.erase(this);
}

}  // namespace rlx
