#include "import/ply.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fail.h"

namespace rlx {
namespace {

constexpr size_t kMostHeaderBytes = 1 << 20;
constexpr int64_t kMostRows = int64_t{1} << 40;

struct TypeName {
  std::string_view name;
  PlyType type;
};
constexpr TypeName kTypeNames[] = {
    {"char", PlyType::i8},   {"int8", PlyType::i8},     {"uchar", PlyType::u8},   {"uint8", PlyType::u8},
    {"short", PlyType::i16}, {"int16", PlyType::i16},   {"ushort", PlyType::u16}, {"uint16", PlyType::u16},
    {"int", PlyType::i32},   {"int32", PlyType::i32},   {"uint", PlyType::u32},   {"uint32", PlyType::u32},
    {"float", PlyType::f32}, {"float32", PlyType::f32}, {"double", PlyType::f64}, {"float64", PlyType::f64},
};

const TypeName* find_type(std::string_view name) {
  const auto* found = std::ranges::find(kTypeNames, name, &TypeName::name);
  return found == std::end(kTypeNames) ? nullptr : found;
}

int64_t bytes_of(PlyType type) {
  switch (type) {
    case PlyType::i8:
    case PlyType::u8:
      return 1;
    case PlyType::i16:
    case PlyType::u16:
      return 2;
    case PlyType::f64:
      return 8;
    default:
      return 4;
  }
}

template <class T>
double number_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

// The next word, which is cut off `text`; empty at its end.
std::string_view next_word(std::string_view& text) {
  size_t begin = 0;
  while (begin < text.size() && is_space(text[begin])) ++begin;
  size_t end = begin;
  while (end < text.size() && !is_space(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

// The next line without its end; nothing if there is no complete one.
std::optional<std::string_view> next_line(std::string_view& text) {
  const size_t end = text.substr(0, kMostHeaderBytes).find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<double> parse_number(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (end != word.data() + word.size() || word.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<size_t> PlyElement::find(std::string_view column) const {
  const auto found = std::ranges::find(columns, column, &Column::name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

double PlyElement::number(int64_t row, size_t column) const {
  if (!numbers.empty()) return numbers[static_cast<size_t>(row) * columns.size() + column];
  const Column& c = columns[column];
  const std::byte* at = bytes.data() + row * row_bytes + c.offset;
  switch (c.type) {
    case PlyType::i8:
      return number_at<int8_t>(at);
    case PlyType::u8:
      return number_at<uint8_t>(at);
    case PlyType::i16:
      return number_at<int16_t>(at);
    case PlyType::u16:
      return number_at<uint16_t>(at);
    case PlyType::i32:
      return number_at<int32_t>(at);
    case PlyType::u32:
      return number_at<uint32_t>(at);
    case PlyType::f32:
      return number_at<float>(at);
    case PlyType::f64:
      return number_at<double>(at);
  }
  return 0;
}

template <class... Args>
void PlyFile::broken(std::format_string<Args...> message, Args&&... args) const {
  fail(ErrorKind::invalid_file, "{}: {}", name_, formatted(message, std::forward<Args>(args)...));
}

PlyFile::PlyFile(std::shared_ptr<const FileBytes> file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  const std::span<const std::byte> bytes = file_->bytes();
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (read_header(rest)) {
    read_text(rest);
  } else {
    read_binary(bytes.subspan(bytes.size() - rest.size()));
  }
}

const PlyElement* PlyFile::find(std::string_view element) const {
  for (const PlyElement& e : elements_) {
    if (e.has_lists) return nullptr;
    if (e.name == element) return &e;
  }
  return nullptr;
}

bool PlyFile::read_header(std::string_view& rest) {
  if (next_line(rest) != "ply") broken("this is no PLY file, which begins with a line \"ply\"");
  std::string format;
  while (true) {
    const std::optional<std::string_view> line = next_line(rest);
    if (!line) broken("the header has no end_header");
    std::string_view words = *line;
    const std::string_view what = next_word(words);
    if (what == "end_header") break;
    if (what.empty() || what == "comment" || what == "obj_info") continue;
    if (what == "format") {
      format = next_word(words);
    } else if (what == "element") {
      PlyElement e;
      e.name = next_word(words);
      const std::optional<double> rows = parse_number(next_word(words));
      if (!rows || !(*rows >= 0) || *rows > static_cast<double>(kMostRows) || *rows != std::floor(*rows))
        broken("element \"{}\" has no valid number of rows: {}", excerpt(e.name), excerpt(*line));
      e.rows = static_cast<int64_t>(*rows);
      elements_.push_back(std::move(e));
    } else if (what == "property" && !elements_.empty()) {
      PlyElement& e = elements_.back();
      const std::string_view type_name = next_word(words);
      if (type_name == "list") {
        e.has_lists = true;
        continue;
      }
      const TypeName* type = find_type(type_name);
      if (!type) broken("a property has the unknown type \"{}\"", excerpt(type_name));
      e.columns.push_back({std::string(next_word(words)), type->type, e.row_bytes});
      e.row_bytes += bytes_of(type->type);
    } else {
      broken("the header has a line that PLY does not know: {}", excerpt(*line));
    }
  }
  if (format == "binary_big_endian")
    fail(ErrorKind::unsupported, "{}: big-endian files are not read; only text and little-endian ones are",
         name_);
  if (format != "ascii" && format != "binary_little_endian")
    broken("the format \"{}\" is unknown", excerpt(format));
  return format == "ascii";
}

void PlyFile::read_binary(std::span<const std::byte> rest) {
  for (PlyElement& e : elements_) {
    if (e.has_lists) return;
    if (e.row_bytes == 0) continue;
    if (e.rows > std::ssize(rest) / e.row_bytes) {
      broken(
          "it is truncated: {} rows of element \"{}\" with {} bytes each do not fit in the {} bytes that are "
          "left",
          e.rows, excerpt(e.name), e.row_bytes, rest.size());
    }
    const auto size = static_cast<size_t>(e.rows * e.row_bytes);
    e.bytes = rest.subspan(0, size);
    rest = rest.subspan(size);
  }
}

void PlyFile::read_text(std::string_view rest) {
  for (PlyElement& e : elements_) {
    if (e.has_lists) return;
    const auto columns = static_cast<int64_t>(e.columns.size());
    // A number takes a character and a space.
    if (columns > 0 && e.rows > (std::ssize(rest) + 1) / 2 / columns) {
      broken(
          "it is truncated: {} rows of element \"{}\" with {} numbers each do not fit in the {} characters "
          "that are left",
          e.rows, excerpt(e.name), columns, rest.size());
    }
    e.numbers.reserve(static_cast<size_t>(e.rows * columns));
    for (int64_t i = 0; i < e.rows * columns; ++i) {
      const std::string_view word = next_word(rest);
      const std::optional<double> value = parse_number(word);
      if (!value) {
        broken("row {} of element \"{}\" has \"{}\" where the number \"{}\" should be", i / columns,
               excerpt(e.name), excerpt(word), excerpt(e.columns[static_cast<size_t>(i % columns)].name));
      }
      e.numbers.push_back(*value);
    }
  }
}

}  // namespace rlx
