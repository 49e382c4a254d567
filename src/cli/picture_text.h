// What `rlx ocr` and `rlx demo` share: the text of a picture, with the time that each step took.
#pragma once

#include <string>
#include <vector>

#include "vision/image.h"
#include "vision/text_reader.h"

namespace rlx::cli {

struct TextLine {
  std::string text;
  double confidence = 0;
  vision::TextBox box;
};

struct PictureText {
  std::vector<TextLine> lines;  // as one reads them
  size_t boxes = 0;             // some may hold nothing that can be read
  double find_ms = 0;
  double turn_ms = 0;
  double read_ms = 0;

  double all_ms() const { return find_ms + turn_ms + read_ms; }
};

struct ReadOptions {
  int64_t longest_side = vision::kAnySide;
  double least_confidence = 0.5;
};
PictureText read_text(vision::TextReader& reader, const vision::Image& image,
                      const ReadOptions& options = {});

std::string lines_table(const PictureText& text);
// The picture with an outline around each line.
vision::Image with_boxes(vision::Image image, const PictureText& text);

}  // namespace rlx::cli
