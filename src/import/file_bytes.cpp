#include "import/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace rlx {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

[[noreturn]] void cannot_read(const std::string& path, int error) {
  fail(ErrorKind::invalid_file, "the file '{}' cannot be read: {}", path, std::strerror(error));
}

}  // namespace

FileBytes::FileBytes(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) cannot_read(path, errno);
  struct stat status = {};
  if (fstat(file.fd, &status) != 0) cannot_read(path, errno);
  if (!S_ISREG(status.st_mode)) fail(ErrorKind::invalid_file, "'{}' is not a regular file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // an empty mapping is an error of mmap, not of the file
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED) cannot_read(path, errno);
  mapped_ = mapped;
  bytes_ = {static_cast<const std::byte*>(mapped), size};
}

FileBytes::~FileBytes() {
  if (mapped_) munmap(mapped_, bytes_.size());
}

}  // namespace rlx
