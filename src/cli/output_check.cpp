#include "cli/output_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <compare>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "cli/arguments.h"
#include "import/file_bytes.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// --- What a file is ---

bool is_text(std::string_view start) {
  return std::ranges::none_of(
      start, [](unsigned char c) { return c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f'; });
}

// Without the white space at its beginning.
std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

bool is_json(std::string_view start) {
  const std::string_view text = trimmed(start);
  return is_text(start) && (text.starts_with('{') || text.starts_with('['));
}

bool is_png(std::string_view start) { return start.starts_with("\x89PNG\r\n\x1a\n"); }

bool is_svg(std::string_view start) {
  const std::string_view text = trimmed(start);
  return is_text(start) && (text.starts_with("<svg") || text.starts_with("<?xml"));
}

bool is_html(std::string_view start) {
  const std::string text = lower_case(std::string(trimmed(start).substr(0, 16)));
  return is_text(start) && (text.starts_with("<!doctype html") || text.starts_with("<html"));
}

bool is_markdown(std::string_view start) { return is_text(start) && trimmed(start).starts_with("# "); }

// `graph NAME {`, after comments.
bool is_graph_text(std::string_view start) {
  std::string_view text = trimmed(start);
  while (text.starts_with("//")) text = trimmed(text.substr(std::min(text.find('\n'), text.size())));
  return is_text(start) && text.starts_with("graph ");
}

// Eight bytes for the length of the header, which is JSON.
bool is_safetensors(std::string_view start) { return start.size() > 8 && start[8] == '{'; }

bool is_npy(std::string_view start) { return start.starts_with("\x93NUMPY"); }

bool is_ply(std::string_view start) { return start.starts_with("ply\n") || start.starts_with("ply\r"); }

struct Kind {
  FileKind kind;
  const char* name;
  bool (*fits)(std::string_view start);
  std::vector<std::string_view> endings;
};

const Kind& kind_of(FileKind kind) {
  static const std::vector<Kind> kinds = {
      {FileKind::json, "JSON", is_json, {".json"}},
      {FileKind::png, "a PNG picture", is_png, {".png"}},
      {FileKind::svg, "an SVG picture", is_svg, {".svg"}},
      {FileKind::html, "an HTML page", is_html, {".html", ".htm"}},
      {FileKind::markdown, "Markdown", is_markdown, {".md"}},
      {FileKind::graph_text, "the text of a graph", is_graph_text, {".rlx"}},
      {FileKind::safetensors, "a safetensors file", is_safetensors, {".safetensors"}},
      {FileKind::npy, "an npy file", is_npy, {".npy"}},
      {FileKind::ply, "a PLY file", is_ply, {".ply"}},
  };
  return *std::ranges::find(kinds, kind, &Kind::kind);
}

// Endings that promise something that is said by no other file. Others, and none, promise nothing.
bool is_telling(std::string_view ending) {
  static constexpr std::string_view kEndings[] = {
      ".json", ".png",  ".svg", ".html", ".htm",  ".md",   ".rlx",  ".safetensors", ".npy", ".npz",
      ".ply",  ".onnx", ".pb",  ".jpg",  ".jpeg", ".gif",  ".webp", ".bmp",         ".tif", ".tiff",
      ".avif", ".heic", ".pdf", ".wav",  ".mp3",  ".flac", ".ogg",  ".zip",         ".csv", ".wgsl"};
  return std::ranges::contains(kEndings, ending);
}

void check_ending(const OutputFile& output, const Kind& kind) {
  const std::string ending = lower_case(fs::path(output.path).extension().string());
  if (std::ranges::contains(kind.endings, ending) || !is_telling(ending)) return;
  throw Misuse(formatted("{}: what is written is {}, but the name '{}' ends in {}", output.flag, kind.name,
                         output.path, ending));
}

void check_contents(const OutputFile& output, const Kind& kind) {
  constexpr size_t kLooked = 4096;
  std::string start(kLooked, '\0');
  std::ifstream file(output.path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  if (start.empty() && file.eof()) return;  // nothing is lost
  if (kind.fits(start)) return;
  throw Misuse(formatted("{}: the file '{}' exists and is not {}; it is not overwritten", output.flag,
                         output.path, kind.name));
}

// --- Which file it is ---

// The file itself, or the place in a folder where it will be.
struct Identity {
  dev_t device = 0;
  ino_t number = 0;
  std::string name = {};  // of a file that does not exist; its folder is the one that does
  auto operator<=>(const Identity&) const = default;
};

std::optional<Identity> identity_of(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

std::optional<Identity> identity_of_input(const std::string& path) {
  struct stat status = {};
  const int failed = path == "-" ? fstat(STDIN_FILENO, &status) : stat(path.c_str(), &status);
  return failed ? std::nullopt : identity_of(status);
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::optional<Identity> identity_of_output(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) return identity_of(status);
  if (stat(folder_of(path).c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino, fs::path(path).filename().string()};
}

// --- Whether it can be written ---

void check_place(const OutputFile& output) {
  const auto wrong = [&](const std::string& why) {
    throw Misuse(formatted("the file {} cannot be written: {}", output.path, why));
  };
  std::error_code error;
  const std::string folder = folder_of(output.path);
  if (!fs::is_directory(folder, error)) wrong(formatted("there is no folder {}", folder));
  if (fs::is_directory(output.path, error)) wrong("it is a folder");
  // A regular file is replaced, for which its folder must allow it.
  const bool replaced = !fs::exists(output.path, error) || fs::is_regular_file(output.path, error);
  if (access(replaced ? folder.c_str() : output.path.c_str(), W_OK) != 0) wrong(std::strerror(errno));
}

void check_output(const OutputFile& output) {
  check_place(output);
  std::error_code error;
  const bool exists = fs::exists(output.path, error);
  if (exists && !fs::is_regular_file(output.path, error)) return;
  check_ending(output, kind_of(output.kind));
  if (exists) check_contents(output, kind_of(output.kind));
}

}  // namespace

void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs) {
  std::map<Identity, std::string> read;  // the name of each input
  std::map<Identity, const OutputFile*> written;
  const OutputFile* on_stdout = nullptr;
  for (const std::string& input : inputs) {
    if (const auto identity = identity_of_input(input)) read.emplace(*identity, input);
  }
  for (const std::string& input : FileBytes::open_files()) {
    if (const auto identity = identity_of_input(input)) read.emplace(*identity, input);
  }
  for (const OutputFile& output : outputs) {
    if (output.path.empty()) continue;
    if (output.path == "-") {
      if (on_stdout)
        throw Misuse(
            formatted("{} and {} cannot both write to standard output", on_stdout->flag, output.flag));
      on_stdout = &output;
      continue;
    }
    if (const auto identity = identity_of_output(output.path)) {
      if (const auto input = read.find(*identity); input != read.end()) {
        throw Misuse(formatted("{}: the file '{}' is also an input{}; it is not overwritten", output.flag,
                               output.path,
                               input->second == output.path ? "" : formatted(", '{}'", input->second)));
      }
      if (const auto [other, fresh] = written.emplace(*identity, &output); !fresh) {
        throw Misuse(formatted("{} and {} would write the same file, '{}'", other->second->flag, output.flag,
                               output.path));
      }
    }
    check_output(output);
  }
}

}  // namespace rlx::cli
