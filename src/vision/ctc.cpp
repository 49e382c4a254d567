#include "vision/ctc.h"

#include "base/fail.h"
#include "import/file_bytes.h"

namespace rlx::vision {
namespace {

// Whether the bytes are whole characters of UTF-8, none of which controls a terminal.
bool is_printable(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t more = c < 0x80                ? 0
                        : c >= 0xc2 && c < 0xe0 ? 1
                        : c >= 0xe0 && c < 0xf0 ? 2
                        : c >= 0xf0 && c < 0xf5 ? 3
                                                : 9;
    if (c < ' ' || c == 0x7f || more > text.size() - i - 1) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace

Alphabet::Alphabet(std::vector<std::string> characters) {
  texts_.emplace_back();
  for (std::string& c : characters) texts_.push_back(std::move(c));
  texts_.emplace_back(" ");
}

Alphabet Alphabet::read(const std::string& path) {
  const FileBytes file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.empty()) fail(ErrorKind::invalid_file, "{}: the file is empty", path);
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<std::string> characters;
  while (true) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || !is_printable(line))
      fail(ErrorKind::invalid_file, "{}: line {} is no character", path, characters.size() + 1);
    characters.emplace_back(line);
    if (end == std::string_view::npos) return Alphabet(std::move(characters));
    text.remove_prefix(end + 1);
  }
}

Reading decode_steps(std::span<const int64_t> classes, std::span<const float> probabilities,
                     const Alphabet& alphabet) {
  const int64_t space = alphabet.classes() - 1;
  Reading out;
  int64_t before = 0;
  double spaces = 0;  // confidences of those that the next character makes part of the text
  int64_t waiting = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    const int64_t c = classes[i];
    if (c < 0 || c >= alphabet.classes())
      fail(ErrorKind::invalid_argument, "the recogniser says class {}, but there are {}", c,
           alphabet.classes());
    const bool begins = c != 0 && c != before;
    before = c;
    if (!begins || (c == space && out.characters == 0)) continue;
    const auto sure = static_cast<double>(probabilities[i]);
    if (c == space) {
      spaces += sure;
      ++waiting;
      continue;
    }
    out.text.append(static_cast<size_t>(waiting), ' ').append(alphabet[c]);
    out.confidence += spaces + sure;
    out.characters += waiting + 1;
    spaces = 0;
    waiting = 0;
  }
  if (out.characters > 0) out.confidence /= static_cast<double>(out.characters);
  return out;
}

}  // namespace rlx::vision
