#include "audio/spectrogram.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "vision/heat_map.h"
#include "vision/image.h"

namespace rlx::cli {
namespace {

constexpr int64_t kMels = 128;

struct Options {
  DeviceFlags device;
  std::string file;
  std::string output;
  ReportFlags report;
  audio::SpectrogramOptions spectra;
  bool mel = false;
  int64_t range = 80;
};

// 1, 2 or 5 times a power of ten: about `count` of them fill the extent.
double nice_step(double extent, double count) {
  const double least = extent / count;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

// Without an exponent, for which there is no letter.
std::string seconds_text(double at) {
  std::string text = formatted("{:.6f}", at);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::vector<vision::Tick> time_ticks(const audio::Spectrogram& s) {
  const double seconds = s.column_seconds * static_cast<double>(s.columns);
  const bool minutes = seconds > 120;
  double step = nice_step(seconds, 9);
  if (minutes) {
    for (const double whole : {15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0}) {
      step = whole;
      if (seconds / whole <= 9) break;
    }
  }
  std::vector<vision::Tick> out;
  for (int i = 0; i * step <= seconds && i < 1000; ++i) {
    const double at = i * step;
    const auto whole = static_cast<int64_t>(at);
    // The centre of the first column is at 0.
    out.push_back({(at / s.column_seconds + 0.5) / static_cast<double>(s.columns),
                   minutes ? formatted("{}:{:02}", whole / 60, whole % 60) : seconds_text(at)});
  }
  return out;
}

std::string hertz_text(double hertz) {
  return hertz >= 1000 ? formatted("{:.4g} kHz", hertz / 1000) : formatted("{:.4g} Hz", hertz);
}

std::vector<vision::Tick> frequency_ticks(const audio::Spectrogram& s) {
  std::vector<vision::Tick> out;
  // The highest frequency lies at the upper edge, or in the middle of the last row.
  const auto add = [&](double hertz) {
    const double at = s.place_of(hertz);
    if (at >= 0 && hertz <= s.rate / 2) out.push_back({std::min(at, 1.0), hertz_text(hertz)});
  };
  if (s.mel) {
    for (const double hertz : {250.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16000.0}) add(hertz);
    return out;
  }
  const double step = nice_step(s.rate / 2, 9);
  for (int i = 0; i * step <= s.rate / 2; ++i) add(i * step);
  return out;
}

vision::HeatMap heat_map(const audio::Spectrogram& s, double range) {
  constexpr double kSilence = -150;  // nothing but rounding errors: no reason to show these
  const double loudest = *std::ranges::max_element(s.decibels);
  const double high = loudest < kSilence ? 0 : 5 * std::ceil(loudest / 5);
  vision::HeatMap map{.columns = s.columns,
                      .rows = s.rows,
                      .values = s.decibels,
                      .low = high - range,
                      .high = high,
                      .x = time_ticks(s),
                      .y = frequency_ticks(s),
                      .legend = {}};
  const double step = nice_step(range, 9);
  for (double level = std::ceil(map.low / step) * step; level <= high; level += step)
    map.legend.push_back({(level - map.low) / range, formatted("{:.4g} dB", level + 0.0)});
  return map;
}

Json to_json(const Options& o, const audio::Sound& sound, const audio::Spectrogram& s,
             const vision::HeatMap& map) {
  const auto loudest = std::ranges::max_element(s.decibels) - s.decibels.begin();
  const int64_t column = loudest / s.rows;
  return Json::object({{"file", with_shown_names(o.file)},
                       {"picture", o.output},
                       {"seconds", sound.seconds()},
                       {"rate", sound.rate},
                       {"frame", s.frame},
                       {"hop", s.hop},
                       {"frames", s.frames},
                       {"columns", s.columns},
                       {"rows", s.rows},
                       {"mel", s.mel},
                       {"low_db", map.low},
                       {"high_db", map.high},
                       {"peak", Json::object({{"seconds", static_cast<double>(column) * s.column_seconds},
                                              {"hertz", s.hertz_of_row(loudest % s.rows)},
                                              {"db", double{s.decibels[static_cast<size_t>(loudest)]}}})}});
}

void run_spectrogram(Options o) {
  check_outputs(o.report.outputs({{"--output", o.output, FileKind::png}}), {o.file});
  const audio::Sound sound = audio::read_wav(o.file);  // a broken one is found before anything slow
  if (o.mel) o.spectra.mels = kMels;
  const Device device = o.device.open();
  const audio::Spectrogram s = [&] {
    const Progress progress("computing spectra");
    return audio::spectrogram(device, sound, o.spectra);
  }();
  const vision::HeatMap map = heat_map(s, static_cast<double>(o.range));
  write_report(o.output, vision::encode_png(vision::draw_heat_map(map)));
  o.report.write(to_json(o, sound, s, map));
  if (o.report.only_json() || o.output == "-") return;
  print(formatted("{}: {:.3g} s at {} Hz, {} frames of {} samples, {} apart, {} {}\n", o.output,
                  sound.seconds(), sound.rate, s.frames, s.frame, s.hop, s.rows,
                  s.mel ? "mel bands" : "bins"));
}

}  // namespace

void add_spectrogram(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command =
      arguments.command("spectrogram", "A picture of a recording: how loud which frequencies are when");
  command.required("FILE.wav", o->file, "A WAV file of any rate and number of channels; - is standard input");
  command.required("-o,--output", o->output, "The picture to write; - is standard output",
                   {.value = "FILE.png"});
  command.number("--frame", o->spectra.frame, 2, 1 << 20,
                 "Samples of a spectrum: more tell frequencies apart, fewer times (default: 1/40 to 1/20 s)");
  command.number("--hop", o->spectra.hop, 1, 1 << 20,
                 "Samples from frame to frame (default: a quarter of a frame, less for short sounds)");
  command.flag("--mel", o->mel, formatted("{} bands on the mel scale, as ears tell pitches apart", kMels));
  command.number("--range", o->range, 1, 200, "Decibels from the first colour to the last (default 80)");
  o->report.add_to(command, "sizes and the loudest place");
  o->device.add_to(command);
  command.footer(
      "Levels are relative to a tone of full scale. A long recording has several frames in each column of "
      "the "
      "picture,\n"
      "which then has the mean of their powers.\n"
      "\n"
      "Examples:\n"
      "  rlx spectrogram recording.wav -o recording.png\n"
      "  rlx spectrogram speech.wav -o speech.png --mel --range 70\n"
      "  rlx spectrogram tone.wav -o tone.png --frame 8192 --json | jq .peak");
  command.action([o] {
    take_standard_input(o->file);
    run_spectrogram(*o);
  });
}

}  // namespace rlx::cli
