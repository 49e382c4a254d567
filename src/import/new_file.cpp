#include "import/new_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace rlx {

namespace fs = std::filesystem;

NewFile::NewFile(const std::string& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  // Renaming onto a device or a pipe would replace it.
  if (fs::exists(status) && !fs::is_regular_file(status)) cannot_write("it is not a regular file");
  if (fs::is_symlink(path_, error)) path_ = fs::weakly_canonical(path_, error);
  temporary_ = path_;
  temporary_ += formatted(".{}.tmp", getpid());
  errno = 0;
  out_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!out_) cannot_write(std::strerror(errno));
}

NewFile::~NewFile() {
  if (temporary_.empty()) return;
  out_.close();
  std::error_code error;
  fs::remove(temporary_, error);
}

void NewFile::cannot_write(const std::string& why) const {
  fail(ErrorKind::invalid_file, "the file '{}' cannot be written: {}", path_.string(), why);
}

void NewFile::write(std::span<const std::byte> bytes) {
  errno = 0;
  out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out_) cannot_write(std::strerror(errno));
}

void NewFile::commit() {
  errno = 0;
  out_.close();
  if (!out_) cannot_write(std::strerror(errno));
  std::error_code error;
  fs::rename(temporary_, path_, error);
  if (error) cannot_write(error.message());
  temporary_.clear();
}

}  // namespace rlx
