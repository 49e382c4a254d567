#include "import/new_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace rlx {

namespace fs = std::filesystem;

namespace {

// The names of the files that are being written, for a signal handler, which may neither lock nor allocate. A
// program that writes more of them at a time leaves the others behind when it is ended.
constexpr int kSlots = 64;
std::array<std::atomic<const char*>, kSlots> unfinished;

// The name stays where it is until leave().
int enter(const char* name) {
  for (int i = 0; i < kSlots; ++i) {
    const char* free = nullptr;
    if (unfinished[static_cast<size_t>(i)].compare_exchange_strong(free, name)) return i;
  }
  return -1;
}

}  // namespace

void remove_unfinished_files() {
  for (const std::atomic<const char*>& name : unfinished) {
    if (const char* file = name.load()) unlink(file);
  }
}

NewFile::NewFile(const std::string& path) : path_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  // Renaming onto a device or a pipe would replace it.
  if (fs::exists(status) && !fs::is_regular_file(status)) cannot_write("it is not a regular file");
  if (fs::is_symlink(path_, error)) path_ = fs::weakly_canonical(path_, error);
  open_temporary();
  // Who may read the older one may read the new one.
  if (fs::exists(status)) fs::permissions(temporary_, status.permissions(), error);
}

// Nothing that is there is opened: not what another thread is writing, nor where a link leads that somebody
// put there.
void NewFile::open_temporary() {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary_ = path_;
    temporary_ += attempt == 0 ? formatted(".{}.tmp", getpid()) : formatted(".{}-{}.tmp", getpid(), attempt);
    errno = 0;
    out_.open(temporary_, std::ios::out | std::ios::binary | std::ios::noreplace);
    if (out_) {
      slot_ = enter(temporary_.c_str());
      return;
    }
    if (errno != EEXIST) break;
    out_.clear();
  }
  const int reason = errno;
  temporary_.clear();
  cannot_write(std::strerror(reason));
}

NewFile::~NewFile() {
  if (temporary_.empty()) return;
  out_.close();
  std::error_code error;
  fs::remove(temporary_, error);
  forget();
}

void NewFile::forget() {
  if (slot_ >= 0) unfinished[static_cast<size_t>(slot_)].store(nullptr);
  slot_ = -1;
  temporary_.clear();
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
  forget();
}

}  // namespace rlx
