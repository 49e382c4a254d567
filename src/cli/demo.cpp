#include <filesystem>

#include "base/fail.h"
#include "cli/commands.h"
#include "cli/demo_bert.h"
#include "cli/demo_picture.h"
#include "cli/picture_text.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/transcribe.h"
#include "measure/stopwatch.h"
#include "vision/image.h"

namespace rlx::cli {
namespace {

struct Options {
  BertDemo bert;
  std::string which = "text";
  std::string models;
  std::string boxes = "demo-boxes.png";

  const ReportFlags& report() const { return bert.report; }
};

void line(const char* title, const std::string& text) { print(formatted("  {:12} {}\n", title, text)); }

std::string dispatches_text(const Executable& exe) {
  return formatted("{} dispatches", exe.dispatch_count());
}

// --- Text ---

struct TextDemo {
  double ready_ms = 0;
  int64_t parameters = 0;
  PictureText first, warm;
};

void show(const TextDemo& d, const vision::TextReader& reader, const std::string& boxes) {
  line("networks", formatted("detector, classifier, recogniser: {:.2f} million weights, ready after {}",
                             static_cast<double>(d.parameters) / 1e6, ms_text(d.ready_ms)));
  line("find text", formatted("{}, {}", ms_text(d.warm.find_ms), dispatches_text(reader.detector())));
  line("turn upright",
       formatted("{}, {} for six lines", ms_text(d.warm.turn_ms), dispatches_text(reader.classifier())));
  line("read",
       formatted("{}, {} for six lines", ms_text(d.warm.read_ms), dispatches_text(reader.recogniser())));
  line("in all", formatted("{}; the first time {}, with compiling shaders", ms_text(d.warm.all_ms()),
                           ms_text(d.first.all_ms())));
  print("\n" + lines_table(d.warm));
  print(formatted("\n{} has a box around each line. `rlx ocr FILE` reads your own pictures.\n", boxes));
}

Json to_json(const TextDemo& d, const std::string& adapter, const std::string& boxes) {
  Json lines = Json::array();
  for (const vision::TextLine& l : d.warm.lines)
    lines.add(Json::object({{"text", l.text}, {"confidence", l.confidence}}));
  return Json::object({{"demo", "text"},
                       {"picture", kDemoPictureName},
                       {"adapter", adapter},
                       {"parameters", d.parameters},
                       {"ready_ms", d.ready_ms},
                       {"find_ms", d.warm.find_ms},
                       {"turn_ms", d.warm.turn_ms},
                       {"read_ms", d.warm.read_ms},
                       {"first_ms", d.first.all_ms()},
                       {"lines", lines},
                       {"boxes", boxes}});
}

void run_text_demo(const Options& o, const vision::TextModels& models) {
  const bool text = !o.report().only_json() && o.boxes != "-";
  check_outputs(o.report().outputs({{"--boxes", o.boxes, FileKind::png}}),
                {models.detector, models.classifier, models.recogniser, models.alphabet});
  const vision::Image image = vision::decode_image(demo_picture(), "the demo's picture");
  if (text)
    print(formatted("Text in a picture ({}, {} x {}), read by PP-OCRv4\n\n", kDemoPictureName, image.width,
                    image.height));
  const Device device = o.bert.device.open();
  const AdapterInfo& adapter = device.info();
  if (text)
    line("adapter", formatted("{} ({}, {})", adapter.name, adapter.backend, to_string(adapter.caps.kind)));
  TextDemo d;
  const Progress progress("loading the networks");
  const measure::Stopwatch watch;
  vision::TextReader reader(device, models);
  d.ready_ms = watch.ms();
  d.parameters = reader.parameters();
  d.first = read_text(reader, image);
  d.warm = read_text(reader, image);
  write_report(o.boxes, vision::encode_png(with_boxes(image, d.warm)));
  o.report().write(to_json(d, adapter.name, o.boxes));
  if (text) show(d, reader, o.boxes);
}

// --- Speech ---

void run_speech_demo(const Options& o) {
  const audio::SpeechModels models = audio::SpeechModels::usual();
  check_outputs(o.report().outputs(), {models.encoder, models.decoder, models.vocabulary, demo_recording()});
  std::string missing = models.missing();
  if (missing.empty() && !std::filesystem::exists(demo_recording())) missing = demo_recording();
  if (!missing.empty()) {
    fail(ErrorKind::invalid_file,
         "the networks and the recording of the demo are not at hand: there is no {}; ./rlx "
         "downloads them",
         missing);
  }
  const bool text = !o.report().only_json();
  const audio::Sound sound = audio::read_wav(demo_recording());
  if (text)
    print(
        formatted("Speech in a recording ({:.1f} seconds, public domain), written down by Moonshine-tiny\n\n",
                  sound.seconds()));
  const Device device = o.bert.device.open();
  const AdapterInfo& adapter = device.info();
  if (text)
    line("adapter", formatted("{} ({}, {})", adapter.name, adapter.backend, to_string(adapter.caps.kind)));
  Progress progress("transcribing");
  const measure::Stopwatch watch;
  audio::Transcriber transcriber(device, models);
  const double ready_ms = watch.ms();
  if (text)
    line("networks", formatted("encoder and decoder: {:.2f} million weights, ready after {}\n",
                               static_cast<double>(transcriber.parameters()) / 1e6, ms_text(ready_ms)));
  const audio::Transcript said =
      text ? transcribe_aloud(transcriber, sound, progress) : transcriber.transcribe(sound);
  const audio::SpeechTimes first = transcriber.times();
  transcriber.transcribe(sound);
  const audio::SpeechTimes both = transcriber.times();
  const double encode_ms = both.encode_ms - first.encode_ms;
  const double decode_ms = both.decode_ms - first.decode_ms;
  o.report().write(Json::object({{"demo", "speech"},
                                 {"adapter", adapter.name},
                                 {"seconds", sound.seconds()},
                                 {"text", said.text()},
                                 {"parameters", transcriber.parameters()},
                                 {"ready_ms", ready_ms},
                                 {"tokens", first.tokens},
                                 {"encode_ms", encode_ms},
                                 {"decode_ms", decode_ms},
                                 {"first_encode_ms", first.encode_ms},
                                 {"first_decode_ms", first.decode_ms}}));
  if (!text) return;
  print("\n");
  line("encode", formatted("{}, {}; the first time {}", ms_text(encode_ms),
                           dispatches_text(transcriber.encoder()), ms_text(first.encode_ms)));
  line("decode",
       formatted("{} for {} tokens, {} each; the first time {}, with compiling shaders", ms_text(decode_ms),
                 first.tokens, dispatches_text(transcriber.step()), ms_text(first.decode_ms)));
  print("\n`rlx transcribe FILE.wav` writes down your own recordings.\n");
}

void run_demo(const Options& o) {
  if (o.which != "text" && o.which != "speech" && o.which != "bert")
    throw Misuse(formatted("there is no demo '{}'; there are: text, speech, bert", o.which));
  if (o.which == "speech") return run_speech_demo(o);
  if (o.which == "bert") return run_bert_demo(o.bert);
  const vision::TextModels models =
      vision::TextModels::in(o.models.empty() ? vision::TextModels::usual_folder() : o.models);
  if (const std::string missing = models.missing(); !missing.empty()) {
    if (!o.models.empty()) fail(ErrorKind::invalid_file, "there is no file {}", missing);
    if (!o.report().only_json())
      print(formatted("The networks that read text are not at hand (there is no {});\nBERT runs instead.\n\n",
                      missing));
    return run_bert_demo(o.bert);
  }
  run_text_demo(o, models);
}

}  // namespace

void add_demo(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command =
      arguments.command("demo", "Reads the text in a picture; or writes down speech, or runs BERT-base");
  command.text("WHICH", o->which, "text (default), speech or bert");
  command.text("--boxes", o->boxes, "text: the picture with a box around each line (default demo-boxes.png)",
               {.value = "FILE.png"});
  command.text("--models", o->models, "text: the folder with the networks (default: in the cache folder)",
               {.value = "DIR"});
  command.number("--layers", o->bert.layers, 0, 48, "bert: fewer layers, for a quick look");
  command.number("--tokens", o->bert.tokens, 1, INT64_MAX, "bert: the length of the text");
  command.flag("--no-check", o->bert.no_check,
               "bert: skip the comparison, which takes the CPU a few seconds");
  o->bert.report.add_to(command, "the same");
  o->bert.device.add_to(command);
  command.footer(
      "Where the networks that read text cannot be downloaded, BERT runs: it needs no files.\n"
      "\n"
      "Examples:\n  rlx demo\n  rlx demo speech\n  rlx demo bert\n  rlx demo bert --layers 2 --tokens 37");
  command.action([o] { run_demo(*o); });
}

}  // namespace rlx::cli
