#include "cli/transcribe.h"

#include <cstdio>

#include "base/fail.h"
#include "base/flags.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::string file;
  std::string models;
  std::string json;
};

audio::SpeechModels models_of(const Options& o) {
  audio::SpeechModels models = speech_models();
  if (!o.models.empty()) {
    models = {.encoder = o.models + "/encoder_model.onnx",
              .decoder = o.models + "/decoder_model_merged.onnx",
              .vocabulary = o.models + "/llama-tokenizer.js"};
  }
  if (const std::string missing = models.missing(); !missing.empty()) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: ./rlx downloads the networks, or --models names a folder with "
         "encoder_model.onnx, "
         "decoder_model_merged.onnx and llama-tokenizer.js",
         missing);
  }
  return models;
}

void run_transcribe(const Options& o) {
  const audio::Sound sound = audio::read_wav(o.file);  // a broken one is found before anything slow
  const audio::SpeechModels models = models_of(o);
  audio::Transcriber transcriber(o.device.open(), models);
  const bool only_json = o.json == "-";
  const std::string text = only_json ? transcriber.transcribe(sound) : transcribe_aloud(transcriber, sound);
  if (o.json.empty()) return;
  const std::string json = Json::object({{"file", o.file},
                                         {"seconds", sound.seconds()},
                                         {"text", text},
                                         {"tokens", transcriber.times().tokens},
                                         {"encode_ms", transcriber.times().encode_ms},
                                         {"decode_ms", transcriber.times().decode_ms}})
                               .text(2) +
                           "\n";
  if (only_json) {
    print(json);
  } else {
    write_report(o.json, json);
  }
}

}  // namespace

// tools/models.sh puts them there.
audio::SpeechModels speech_models() {
  const std::string cache = cache_folder() + "/models/";
  const std::string networks = cache + "usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float/";
  return {.encoder = networks + "encoder_model.onnx",
          .decoder = networks + "decoder_model_merged.onnx",
          .vocabulary = cache + "llama-tokenizer-js-1.2.2/llama-tokenizer.js"};
}

std::string demo_recording() {
  return cache_folder() + "/models/nodejs-whisper-0.3.1/cpp/whisper.cpp/bindings/go/samples/jfk.wav";
}

std::string transcribe_aloud(audio::Transcriber& transcriber, const audio::Sound& sound) {
  const std::string text = transcriber.transcribe(sound, [](std::string_view piece) {
    print(std::string(piece));
    std::fflush(stdout);
  });
  print("\n");
  return text;
}

void add_transcribe(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("transcribe", "The words of a recording, with Moonshine");
  command.required("FILE.wav", o->file, "A WAV file of any rate and number of channels");
  command.text("--json", o->json, "Also write text and times as JSON; - prints nothing else",
               {.value = "FILE"});
  command.text("--models", o->models, "The folder with the networks (default: in the cache folder)",
               {.value = "DIR"});
  o->device.add_to(command);
  command.footer(
      "English. Words are printed as they are recognised; recordings of more than 30 seconds are cut where "
      "they are\n"
      "quiet.\n"
      "\n"
      "Examples:\n"
      "  rlx transcribe interview.wav\n"
      "  rlx transcribe note.wav --json - | jq -r .text");
  command.action([o] { run_transcribe(*o); });
}

}  // namespace rlx::cli
