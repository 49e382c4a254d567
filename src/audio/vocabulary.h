// Tokens of a language model as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rlx::audio {

class Vocabulary {
 public:
  // Reads the vocabulary of Llama 2 from the file llama-tokenizer.js of npm's package of that name, which
  // holds it as base64: a piece of text in each line.
  static Vocabulary read(const std::string& path);
  explicit Vocabulary(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}

  int64_t size() const { return std::ssize(pieces_); }
  // The bytes that the token adds to the text: a space for U+2581, the byte for <0x0A>, nothing for tokens
  // that only control.
  std::string text(int64_t token) const;

  static constexpr int64_t kBegin = 1;
  static constexpr int64_t kEnd = 2;

 private:
  std::vector<std::string> pieces_;
};

}  // namespace rlx::audio
