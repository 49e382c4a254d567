// A file that appears under its name only when it is complete: until then its bytes are in another one beside
// it, which goes away if something fails.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

class NewFile {
 public:
  // ErrorKind::invalid_file if there can be no such file. An older one stays until commit().
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Everything is on its way to the disk; only now does the file have its name. With several files, write
  // them all before the first of them.
  void commit();

 private:
  void open_temporary();
  void forget();
  [[noreturn]] void cannot_write(const std::string& why) const;

  std::filesystem::path path_, temporary_;
  int slot_ = -1;  // in the list of unfinished files
  std::ofstream out_;
};

// Removes the files that are being written right now; nothing may be written after that. Safe in a signal
// handler.
void remove_unfinished_files();

}  // namespace rlx
