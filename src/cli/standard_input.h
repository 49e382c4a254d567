// `-` as the name of a file that is read.
#pragma once

#include <string>

namespace rlx::cli {

// Replaces "-" by a path under which standard input can be read like any file; other names stay. Misuse if it
// is asked for twice.
void take_standard_input(std::string& path);
// For people: "standard input" instead of that path, wherever the text has it.
std::string with_shown_names(std::string text);
// The name of a file without its folders, for a line that must be short.
std::string short_name(const std::string& path);

}  // namespace rlx::cli
