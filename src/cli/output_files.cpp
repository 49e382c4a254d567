#include "cli/output_files.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/fail.h"
#include "import/npy.h"

namespace rlx::cli {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxName = 200;  // file systems take 255 bytes, and temporary names are longer

std::string safe_name(const std::string& name) {
  std::string out;
  for (const char c : name.substr(0, kMaxName)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    out += plain ? c : '_';
  }
  if (out.empty() || out[0] == '.') out.insert(out.begin(), '_');  // no hidden file, no ".."
  return out;
}

// Some file systems do not tell cases apart.
std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::map<std::string, std::string> output_file_names(const std::vector<std::string>& outputs) {
  std::map<std::string, std::string> out;
  std::set<std::string> used;
  const auto add = [&](const std::string& output) {
    const std::string name = safe_name(output);
    std::string unique = name;
    for (int n = 2; !used.insert(lower_case(unique)).second; ++n) unique = formatted("{}_{}", name, n);
    out[output] = unique + ".npy";
  };
  // Those that need no change keep their names.
  for (const std::string& output : outputs) {
    if (safe_name(output) == output) add(output);
  }
  for (const std::string& output : outputs) {
    if (safe_name(output) != output) add(output);
  }
  return out;
}

void make_output_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw Misuse(formatted("--output-dir: '{}' is a file, not a folder", folder));
  if (error) fail(ErrorKind::invalid_file, "the folder '{}' cannot be made: {}", folder, error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::invalid_file, "the folder '{}' cannot be written: {}", folder, std::strerror(errno));
}

void write_outputs(const std::string& folder, const std::map<std::string, std::string>& files,
                   const NamedTensors& outputs, const Model& model) {
  for (const auto& [name, value] : outputs)
    write_npy((fs::path(folder) / files.at(name)).string(), value,
              onnx::type_in_file(model.types, name, value.dtype()));
}

}  // namespace rlx::cli
