#include "cli/transcribe.h"

#include <cmath>
#include <cstdio>

#include "base/fail.h"
#include "base/flags.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::string file;
  std::string models;
  ReportFlags report;
};

audio::SpeechModels models_of(const Options& o) {
  return o.models.empty() ? audio::SpeechModels::usual() : audio::SpeechModels::in(o.models);
}

void require(const audio::SpeechModels& models) {
  if (const std::string missing = models.missing(); !missing.empty()) {
    fail(ErrorKind::invalid_file,
         "there is no file {}: ./rlx downloads the networks, or --models names a folder with "
         "encoder_model.onnx, "
         "decoder_model_merged.onnx and llama-tokenizer.js",
         missing);
  }
}

audio::Transcriber::Heard seconds_shown(Progress& progress, const audio::Sound& sound) {
  return [&progress, all = std::llround(sound.seconds())](double seconds) {
    progress.update(std::llround(seconds), all, "seconds");
  };
}

void run_transcribe(const Options& o) {
  const audio::SpeechModels models = models_of(o);
  check_outputs(o.report.outputs(), {o.file, models.encoder, models.decoder, models.vocabulary});
  const audio::Sound sound = audio::read_wav(o.file);  // a broken one is found before anything slow
  require(models);
  const Device device = o.device.open();
  Progress progress(formatted("transcribing {}", short_name(o.file)));
  audio::Transcriber transcriber(device, models);
  const audio::Transcript said = o.report.only_json()
                                     ? transcriber.transcribe(sound, {}, seconds_shown(progress, sound))
                                     : transcribe_aloud(transcriber, sound, progress);
  Json utterances = Json::array();
  for (const audio::Utterance& u : said.utterances)
    utterances.add(Json::object({{"begin", u.begin_seconds}, {"end", u.end_seconds}, {"text", u.text}}));
  o.report.write(Json::object({{"file", with_shown_names(o.file)},
                               {"seconds", sound.seconds()},
                               {"text", said.text()},
                               {"utterances", utterances},
                               {"tokens", transcriber.times().tokens},
                               {"encode_ms", transcriber.times().encode_ms},
                               {"decode_ms", transcriber.times().decode_ms}}));
}

}  // namespace

// tools/models.sh puts it there.
std::string demo_recording() {
  return cache_folder() + "/models/nodejs-whisper-0.3.1/cpp/whisper.cpp/bindings/go/samples/jfk.wav";
}

audio::Transcript transcribe_aloud(audio::Transcriber& transcriber, const audio::Sound& sound,
                                   Progress& progress) {
  const auto say = [](std::string_view piece) {
    print(piece);
    std::fflush(stdout);
  };
  audio::Transcript said = transcriber.transcribe(sound, say, seconds_shown(progress, sound));
  print(said.utterances.empty() ? formatted("no speech was found in {:.1f} seconds\n", sound.seconds())
                                : "\n");
  return said;
}

void add_transcribe(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("transcribe", "The words of a recording, with Moonshine");
  command.required("FILE.wav", o->file, "A WAV file of any rate and number of channels; - is standard input");
  o->report.add_to(command, "text and times");
  command.text("--models", o->models, "The folder with the networks (default: in the cache folder)",
               {.value = "DIR"});
  o->device.add_to(command);
  command.footer(
      "English. Words are printed as they are recognised; the sound is cut at pauses, and after 30 seconds "
      "where "
      "it is\n"
      "quiet. JSON has the words between two pauses as utterances, with their times in seconds.\n"
      "\n"
      "Examples:\n"
      "  rlx transcribe interview.wav\n"
      "  rlx transcribe note.wav --json | jq -r .text\n"
      "  ffmpeg -i film.mp4 -f wav - | rlx transcribe -");
  command.action([o] {
    take_standard_input(o->file);
    run_transcribe(*o);
  });
}

}  // namespace rlx::cli
