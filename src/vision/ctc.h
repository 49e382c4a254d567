// Text from what a recogniser says at each step along a line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rlx::vision {

// The characters that a recogniser knows. Class 0 stands for nothing between two characters; then come those
// of a file with one on each line, and a space.
class Alphabet {
 public:
  // ErrorKind::invalid_file if the file has none, or is not UTF-8.
  static Alphabet read(const std::string& path);
  explicit Alphabet(std::vector<std::string> characters);

  int64_t classes() const { return static_cast<int64_t>(texts_.size()); }
  const std::string& operator[](int64_t index) const { return texts_[static_cast<size_t>(index)]; }

 private:
  std::vector<std::string> texts_;
};

struct Reading {
  std::string text;
  double confidence = 0;   // the mean over its characters; 0 of none
  int64_t characters = 0;  // spaces among them
};

// The most likely class of each step and its probability. A class that goes on from step to step is one
// character; nothing in between makes it two. Spaces before the first character and after the last are the
// margins of the strip, not text.
Reading decode_steps(std::span<const int64_t> classes, std::span<const float> probabilities,
                     const Alphabet& alphabet);

}  // namespace rlx::vision
