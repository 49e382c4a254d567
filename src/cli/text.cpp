#include "cli/text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/fail.h"
#include "cli/arguments.h"
#include "cli/progress.h"
#include "import/new_file.h"

namespace rlx::cli {

std::string bytes_text(int64_t bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return formatted("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return formatted("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

std::string ms_text(double ms) {
  if (ms >= 10'000) return formatted("{:.1f} s", ms / 1000);
  return formatted("{:.{}f} ms", ms, ms < 10 ? 3 : ms < 100 ? 2 : 0);
}

uint64_t parse_size(std::string_view text, std::string_view what) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (error != std::errc() || shift < 0 || number > UINT64_MAX >> shift) {
    throw Misuse(formatted("{} is '{}'; it must be a number such as 8, 64K, 1M or 2G", what, text));
  }
  return number << shift;
}

void print(std::string_view text) { write_beside_progress(stdout, text); }

void note(std::string_view text) { write_beside_progress(stderr, formatted("rlx: {}\n", text)); }

void write_report(const std::string& path, std::string_view text) {
  if (path == "-") return print(text);
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) {
    NewFile file(path);
    file.write(text);
    file.commit();
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) fail(ErrorKind::invalid_file, "the file '{}' cannot be written", path);
}

void write_report(const std::string& path, std::span<const std::byte> bytes) {
  write_report(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - row[c].size(), ' ');
      line += (c ? "  " : "") + (std::ranges::contains(right, c) ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace rlx::cli
