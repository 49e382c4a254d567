// Numbers and tables for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::cli {

std::string bytes_text(int64_t bytes);  // 12.3 MiB
std::string ms_text(double ms);         // 0.123 ms, 12.3 s
// "8", "64K", "1M", "2G"; nothing else. The error names `what`.
uint64_t parse_size(std::string_view text, std::string_view what);

void print(std::string_view text);  // to stdout
void note(std::string_view text);   // to stderr, as a line of its own
// The whole of a file, also to a pipe or a terminal; "-" is standard output.
void write_report(const std::string& path, std::string_view text);
void write_report(const std::string& path, std::span<const std::byte> bytes);

// Columns as wide as they need; the first row is the title. Columns in `right` (by index) are
// right-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<size_t>& right = {});

// Splits at a character; no empty parts at the ends of an empty text.
std::vector<std::string> split(std::string_view text, char at);

}  // namespace rlx::cli
