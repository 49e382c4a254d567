// Nothing is lost: what a command writes replaces neither what it reads nor a file of another kind.
#pragma once

#include <string>
#include <vector>

namespace rlx::cli {

enum class FileKind { json, png, svg, html, markdown, graph_text, safetensors, npy, ply };

struct OutputFile {
  std::string flag;  // that names it, for messages
  std::string path;  // "": nothing is written; "-": standard output
  FileKind kind = FileKind::json;
};

// Misuse, before anything is opened, unless every output can be written where nothing is lost by it: it is
// not one of the inputs (whatever links lead to the file), no two outputs are the same, its name does not end
// as those of other files do, and what is there already is a file of its kind. An input "-" is standard
// input. A device or a pipe may be written by anyone. Once a model is loaded, its files of external data are
// inputs too.
void check_outputs(const std::vector<OutputFile>& outputs, const std::vector<std::string>& inputs);

}  // namespace rlx::cli
