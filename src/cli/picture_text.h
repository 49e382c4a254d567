// What `rlx ocr` and `rlx demo` share: the text of a picture, with the time that each step took.
#pragma once

#include <string>
#include <vector>

#include "rlx/ocr.h"

namespace rlx::cli {

struct PictureText {
  std::vector<vision::TextLine> lines;
  double find_ms = 0;
  double turn_ms = 0;
  double read_ms = 0;

  double all_ms() const { return find_ms + turn_ms + read_ms; }
};

PictureText read_text(vision::TextReader& reader, const vision::Image& image,
                      const vision::ReadOptions& options = {});

std::string lines_table(const PictureText& text);
// The picture with an outline around each line.
vision::Image with_boxes(vision::Image image, const PictureText& text);

}  // namespace rlx::cli
