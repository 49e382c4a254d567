// PLY files: elements, each a table of numbers with named columns.
#pragma once

#include <cstdint>
#include <format>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/file_bytes.h"

namespace rlx {

enum class PlyType { i8, u8, i16, u16, i32, u32, f32, f64 };

struct PlyElement {
  struct Column {
    std::string name;
    PlyType type;
    int64_t offset;  // in a binary row
  };
  std::string name;
  int64_t rows = 0;
  std::vector<Column> columns;
  int64_t row_bytes = 0;
  bool has_lists = false;  // rows of different lengths; its numbers cannot be read, nor those of what follows
  std::span<const std::byte> bytes = {};  // of a binary file
  std::vector<double> numbers = {};       // of a text, row by row

  // The column of that name, if there is one.
  std::optional<size_t> find(std::string_view column) const;
  double number(int64_t row, size_t column) const;
};

// Text or little-endian binary, which stays where it is mapped. Errors are of ErrorKind::invalid_file (or
// unsupported) and begin with the file's name.
class PlyFile {
 public:
  explicit PlyFile(const std::string& path) : PlyFile(std::make_shared<FileBytes>(path), path) {}
  // `name` is for messages.
  PlyFile(std::shared_ptr<const FileBytes> file, std::string name);

  const std::string& name() const { return name_; }
  // Null if the file has no such element, or one whose numbers cannot be read.
  const PlyElement* find(std::string_view element) const;

 private:
  bool read_header(std::string_view& rest);  // true: the numbers are text
  void read_binary(std::span<const std::byte> rest);
  void read_text(std::string_view rest);
  template <class... Args>
  [[noreturn]] void broken(std::format_string<Args...> message, Args&&... args) const;

  std::shared_ptr<const FileBytes> file_;
  std::string name_;
  std::vector<PlyElement> elements_;
};

}  // namespace rlx
