// The three networks of PP-OCR, one step of reading a picture each: rlx/ocr.h's TextReader takes one after
// the other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rlx/ocr.h"
#include "vision/ctc.h"
#include "vision/text_boxes.h"

namespace rlx::vision {

// By how much a picture is enlarged before text is looked for in it: small pictures by up to 2, because they
// are quick to search and the letters in them are often small; larger ones not at all. Less if a side would
// be longer than `longest`.
double detector_scale(int64_t width, int64_t height, int64_t longest);

// A line the way it stands.
struct FacingBox {
  TextBox box;
  bool sure = true;  // that it is this way round
};

struct ReadLine {
  TextBox box;
  Reading reading;
};

// One at a time may use it.
class TextNetworks {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  TextNetworks(const Device& device, const TextModels& models);

  // Told how many lines of how many are done, before each batch and at the end.
  using LinesDone = std::function<void(int64_t done, int64_t all)>;

  // Boxes around lines of text, in the order in which one reads them. Large pictures are searched in tiles.
  std::vector<TextBox> find(const Image& image, int64_t longest_side = kAnySide,
                            const BoxOptions& options = {});
  // The same boxes, with those that seem to stand on their heads the other way round.
  std::vector<FacingBox> upright(const Image& image, const std::vector<TextBox>& boxes,
                                 const LinesDone& done = {});
  // What they say, in the order in which one reads them. Lines that are hard to read are also read without
  // margins and the other way round; what reads best stays, and the box with it.
  std::vector<ReadLine> read(const Image& image, const std::vector<FacingBox>& boxes,
                             const LinesDone& done = {});

  int64_t parameters() const { return parameters_; }
  const Executable& detector() const { return detector_; }
  const Executable& classifier() const { return classifier_; }
  const Executable& recogniser() const { return recogniser_; }

 private:
  std::vector<TextBox> find_at(const Image& image, double scale, const BoxOptions& options);
  std::vector<Reading> recognise(const Image& image, const std::vector<TextBox>& lines,
                                 const LinesDone& done);

  Alphabet alphabet_;
  int64_t parameters_ = 0;
  Executable detector_;
  Executable classifier_;
  Executable recogniser_;
};

}  // namespace rlx::vision
