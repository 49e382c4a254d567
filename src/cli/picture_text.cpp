#include "cli/picture_text.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "measure/stopwatch.h"
#include "vision/draw.h"

namespace rlx::cli {

namespace {

const char* title_of(vision::TextStep step) {
  switch (step) {
    case vision::TextStep::find:
      return "finding text";
    case vision::TextStep::turn:
      return "turning lines upright";
    case vision::TextStep::read:
      return "reading lines";
  }
  return "";
}

double& time_of(PictureText& text, vision::TextStep step) {
  return step == vision::TextStep::find   ? text.find_ms
         : step == vision::TextStep::turn ? text.turn_ms
                                          : text.read_ms;
}

}  // namespace

PictureText read_text(vision::TextReader& reader, const vision::Image& image,
                      const vision::ReadOptions& options) {
  PictureText out;
  std::optional<Progress> progress;
  std::optional<vision::TextStep> step;
  measure::Stopwatch watch;
  const auto end_step = [&] {
    if (step) time_of(out, *step) = watch.ms();
  };
  const auto show = [&](const vision::TextProgress& p) {
    if (step != p.step) {
      end_step();
      progress.emplace(title_of(p.step));
      step = p.step;
      watch = {};
    }
    if (p.step != vision::TextStep::find) progress->update(p.done, p.all);
  };
  out.lines = reader.read(image, options, show);
  end_step();
  return out;
}

std::string lines_table(const PictureText& text) {
  std::vector<std::vector<std::string>> rows = {{"confidence", "text"}};
  for (const vision::TextLine& line : text.lines)
    rows.push_back({formatted("{:.3f}", line.confidence), line.text});
  return table(rows, {0});
}

vision::Image with_boxes(vision::Image image, const PictureText& text) {
  const double thickness = std::max(1.5, static_cast<double>(std::max(image.width, image.height)) / 500);
  for (const vision::TextLine& line : text.lines)
    vision::draw_box(image, line.corners, {255, 64, 96}, thickness);
  return image;
}

}  // namespace rlx::cli
