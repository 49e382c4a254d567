// The bytes of a file, mapped: a model of many gigabytes is read where and when it is uploaded.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace rlx {

class FileBytes {
 public:
  // ErrorKind::invalid_file with the system's reason when the file cannot be read.
  explicit FileBytes(const std::string& path);
  explicit FileBytes(std::vector<std::byte> bytes) : owned_(std::move(bytes)), bytes_(owned_) {}
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> owned_;
  void* mapped_ = nullptr;
  std::span<const std::byte> bytes_;
};

}  // namespace rlx
