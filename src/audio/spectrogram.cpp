#include "audio/spectrogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/fail.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/spectra.h"
#include "rlx/sound.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

namespace rlx::audio {
namespace {

constexpr int64_t kMostBins = int64_t{1} << 22;  // computed at a time; a long sound takes several runs
constexpr double kLeastPower = 1e-20;            // -200 dB

// A part of a sound: so many columns, each of so many frames.
struct Part {
  int64_t columns, joined;
};

int64_t samples_of(const Part& part, const Spectrogram& s) {
  return (part.columns * part.joined - 1) * s.hop + s.frame;
}

// "sound" f32[samples] to "levels" f32[columns, rows].
Graph part_graph(const Part& part, const Spectrogram& s) {
  Graph g;
  const Value sound = g.input("sound", DType::f32, {samples_of(part, s)});
  const Value spectra = stft(sound, {.frame = s.frame, .hop = s.hop, .window = hann_window(g, s.frame)});
  const double window_sum = static_cast<double>(s.frame) / 2;
  const double half = window_sum / 2;  // of a tone, at its bin
  Value power = (square(real(spectra)) + square(imag(spectra))) / (half * half);
  power = mean(reshape(power, {part.columns, part.joined, s.frame / 2 + 1}), {1});
  if (s.mel) {
    const Value filters = mel_filters(g, s.rows, s.frame, s.rate, {.equal_area = false});
    // The window spreads a tone over three bins, whose powers together are 3 / 2 of the middle one's.
    power = matmul(power, transpose(filters)) * (2.0 / 3);
  }
  g.output("levels", log2(maximum(power, kLeastPower)) * (10 * std::log10(2.0)));
  return g;
}

// The samples of a part, zero where the sound has none.
Tensor part_of(const Sound& sound, int64_t first, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count), 0);
  const int64_t from = std::max<int64_t>(first, 0);
  const int64_t to = std::min(first + count, std::ssize(sound.samples));
  if (from < to)
    std::copy(sound.samples.begin() + from, sound.samples.begin() + to, x.begin() + (from - first));
  return Tensor::of({count}, x);
}

// What the options leave open.
Spectrogram layout(const Sound& sound, const SpectrogramOptions& o) {
  const int64_t samples = std::ssize(sound.samples);
  if (samples == 0 || sound.rate < 1)
    fail(ErrorKind::invalid_argument, "spectrogram: the sound has no samples");
  Spectrogram s{.rate = static_cast<double>(sound.rate), .mel = o.mels > 0};
  const auto twentieth = static_cast<uint64_t>(std::max<int64_t>(sound.rate / 20, 64));
  s.frame = o.frame != 0 ? o.frame : static_cast<int64_t>(std::bit_floor(twentieth));
  const int64_t quarter = std::max<int64_t>(1, s.frame / 4);
  s.hop = o.hop != 0 ? o.hop : std::clamp<int64_t>((samples - 1) / o.most_columns + 1, 1, quarter);
  if (s.frame < 2 || s.hop < 1)
    fail(ErrorKind::invalid_argument,
         "spectrogram: frames have {} samples and are {} apart; these must be at least 2 and 1", s.frame,
         s.hop);
  s.frames = (samples - 1) / s.hop + 1;
  s.rows = s.mel ? o.mels : s.frame / 2 + 1;
  return s;
}

}  // namespace

double Spectrogram::place_of(double hertz) const {
  const auto count = static_cast<double>(rows);
  if (!mel) return (hertz * static_cast<double>(frame) / rate + 0.5) / count;
  // The first band is highest one step above 0, and the last one step below the end of the scale.
  const double step = hertz_to_mel(rate / 2) / (count + 1);
  return (hertz_to_mel(hertz) / step - 0.5) / count;
}

double Spectrogram::hertz_of_row(int64_t row) const {
  const auto at = static_cast<double>(row);
  if (!mel) return at * rate / static_cast<double>(frame);
  return mel_to_hertz(hertz_to_mel(rate / 2) * (at + 1) / static_cast<double>(rows + 1));
}

Spectrogram spectrogram(const Device& device, const Sound& sound, const SpectrogramOptions& options) {
  Spectrogram s = layout(sound, options);
  const int64_t joined = (s.frames - 1) / options.most_columns + 1;
  s.columns = (s.frames - 1) / joined + 1;
  s.column_seconds = static_cast<double>(joined * s.hop) / s.rate;
  const int64_t most = std::max<int64_t>(1, kMostBins / (joined * (s.frame / 2 + 1)));
  const Part part{.columns = std::min(s.columns, most), .joined = joined};
  Executable exe = compile(part_graph(part, s), device);
  for (int64_t column = 0; column < s.columns; column += part.columns) {
    // Frames are centred at multiples of hop.
    const int64_t first = column * joined * s.hop - s.frame / 2;
    const Tensor levels = exe.run({{"sound", part_of(sound, first, samples_of(part, s))}}).at("levels");
    const std::span<const float> all = levels.span<float>();
    const int64_t wanted = std::min(part.columns, s.columns - column) * s.rows;
    s.decibels.insert(s.decibels.end(), all.begin(), all.begin() + wanted);
  }
  return s;
}

}  // namespace rlx::audio
