#include "audio/vocabulary.h"

#include <array>
#include <charconv>
#include <string_view>

#include "base/fail.h"
#include "import/file_bytes.h"

namespace rlx::audio {
namespace {

constexpr int64_t kFirstText = 3;  // unknown, begin and end come before

std::string decoded_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value{};
  value.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    value[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const int v = value[static_cast<unsigned char>(c)];
    if (v < 0) break;  // padding
    bits = bits << 6 | static_cast<unsigned>(v);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 255);
  }
  return out;
}

}  // namespace

Vocabulary Vocabulary::read(const std::string& path) {
  const FileBytes file(path);
  const std::string_view script(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  constexpr std::string_view kName = "llama_vocab_base64 = \"";
  const size_t begin = script.find(kName);
  const size_t end = begin == std::string_view::npos ? begin : script.find('"', begin + kName.size());
  if (end == std::string_view::npos)
    fail(ErrorKind::invalid_file, "{}: this is not llama-tokenizer.js: it has no llama_vocab_base64", path);
  const std::string lines = decoded_base64(script.substr(begin + kName.size(), end - begin - kName.size()));
  std::vector<std::string> pieces(1);
  for (const char c : lines) {
    if (c == '\n') {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  if (std::ssize(pieces) <= kFirstText)
    fail(ErrorKind::invalid_file, "{}: its vocabulary has {} pieces", path, pieces.size());
  return Vocabulary(std::move(pieces));
}

std::string Vocabulary::text(int64_t token) const {
  if (token < kFirstText || token >= size()) return "";
  const std::string& piece = pieces_[static_cast<size_t>(token)];
  if (piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>')) {
    unsigned byte = 0;
    if (std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16).ptr == piece.data() + 5)
      return {static_cast<char>(byte)};
  }
  constexpr std::string_view kSpace = "\u2581";
  std::string out = piece;
  for (size_t at = out.find(kSpace); at != std::string::npos; at = out.find(kSpace, at + 1))
    out.replace(at, kSpace.size(), " ");
  return out;
}

}  // namespace rlx::audio
