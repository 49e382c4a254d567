#include "cli/picture_text.h"

#include <algorithm>

#include "base/format.h"
#include "cli/text.h"
#include "vision/draw.h"

namespace rlx::cli {

PictureText read_text(vision::TextReader& reader, const vision::Image& image, const ReadOptions& options) {
  PictureText out;
  const Stopwatch finding;
  std::vector<vision::TextBox> boxes = reader.find(image, options.longest_side);
  out.find_ms = finding.ms();
  out.boxes = boxes.size();
  const Stopwatch turning;
  boxes = reader.upright(image, std::move(boxes));
  out.turn_ms = turning.ms();
  const Stopwatch reading;
  const std::vector<vision::Reading> readings = reader.read(image, boxes);
  out.read_ms = reading.ms();
  for (size_t i = 0; i < boxes.size(); ++i) {
    const vision::Reading& r = readings[i];
    if (!r.text.empty() && r.confidence >= options.least_confidence)
      out.lines.push_back({r.text, r.confidence, boxes[i]});
  }
  return out;
}

std::string lines_table(const PictureText& text) {
  std::vector<std::vector<std::string>> rows = {{"confidence", "text"}};
  for (const TextLine& line : text.lines) rows.push_back({formatted("{:.3f}", line.confidence), line.text});
  return table(rows, {0});
}

vision::Image with_boxes(vision::Image image, const PictureText& text) {
  const double thickness = std::max(1.5, static_cast<double>(std::max(image.width, image.height)) / 500);
  for (const TextLine& line : text.lines) vision::draw_box(image, line.box, {255, 64, 96}, thickness);
  return image;
}

}  // namespace rlx::cli
