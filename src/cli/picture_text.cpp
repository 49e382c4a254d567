#include "cli/picture_text.h"

#include <algorithm>

#include "base/format.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "measure/stopwatch.h"
#include "vision/draw.h"

namespace rlx::cli {

PictureText read_text(vision::TextReader& reader, const vision::Image& image, const ReadOptions& options) {
  PictureText out;
  std::vector<vision::TextBox> boxes;
  std::vector<vision::FacingBox> facing;
  std::vector<vision::ReadLine> lines;
  {
    const Progress progress("finding text");
    const measure::Stopwatch watch;
    boxes = reader.find(image, options.longest_side);
    out.find_ms = watch.ms();
    out.boxes = boxes.size();
  }
  {
    Progress progress("turning lines upright");
    const measure::Stopwatch watch;
    facing = reader.upright(image, boxes, [&](int64_t done, int64_t all) { progress.update(done, all); });
    out.turn_ms = watch.ms();
  }
  {
    Progress progress("reading lines");
    const measure::Stopwatch watch;
    lines = reader.read(image, facing, [&](int64_t done, int64_t all) { progress.update(done, all); });
    out.read_ms = watch.ms();
  }
  for (const auto& [box, r] : lines) {
    if (!r.text.empty() && r.confidence >= options.least_confidence)
      out.lines.push_back({r.text, r.confidence, box});
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
