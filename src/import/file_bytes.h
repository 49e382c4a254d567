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
  // A file that lies in the folder or below it. What is checked is the file that was opened, so that neither
  // `..` nor a link leads out.
  FileBytes(const std::string& folder, const std::string& relative);
  explicit FileBytes(std::vector<std::byte> bytes) : owned_(std::move(bytes)), bytes_(owned_) {}
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

  // The paths of all that are mapped now.
  static std::vector<std::string> open_files();

 private:
  void map(int descriptor, const std::string& path);

  std::vector<std::byte> owned_;
  void* mapped_ = nullptr;
  std::span<const std::byte> bytes_;
};

}  // namespace rlx
