#include "audio/speech_spans.h"

#include <algorithm>
#include <cmath>

namespace rlx::audio {
namespace {

constexpr double kFrameSeconds = 0.02;
constexpr double kSilence = -70;  // dB below full scale: less than the noise of any microphone
constexpr double kLeastRange =
    2.5;  // dB between loud and quiet frames; those of steady noise differ by less than 2
constexpr double kClearRange = 20;     // dB; where it is less, words drown in what is behind them
constexpr double kAboveFloor = 3;      // dB
constexpr double kBelowLoudest = 45;   // dB
constexpr double kPauseSeconds = 1.2;  // pauses within a sentence are shorter
constexpr double kMarginSeconds = 0.3;

int64_t samples_in(double seconds, int64_t rate) {
  return std::max<int64_t>(static_cast<int64_t>(seconds * static_cast<double>(rate)), 1);
}

double energy(std::span<const float> samples) {
  double sum = 0;
  for (const float v : samples) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

std::span<const float> part(std::span<const float> samples, int64_t begin, int64_t end) {
  return samples.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// Of each frame, in dB below full scale; the rest that fills no frame belongs to the last one.
std::vector<double> loudness(std::span<const float> samples, int64_t frame) {
  std::vector<double> out;
  const int64_t size = std::ssize(samples);
  for (int64_t at = 0; at < size; at += frame) {
    if (size - at < frame && !out.empty()) break;
    const int64_t end = std::min(at + frame, size);
    out.push_back(10 * std::log10(energy(part(samples, at, end)) / static_cast<double>(end - at) + 1e-20));
  }
  return out;
}

double quantile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

// The quietest place of the last third of what may be the next part.
int64_t quiet_cut(std::span<const float> samples, int64_t begin, int64_t longest, int64_t rate) {
  const int64_t window = samples_in(0.2, rate);
  double least = HUGE_VAL;
  int64_t best = begin + longest;
  for (int64_t at = begin + longest * 2 / 3; at + window <= begin + longest;
       at += samples_in(kFrameSeconds, rate)) {
    const double here = energy(part(samples, at, at + window));
    if (here < least) {
      least = here;
      best = at + window / 2;
    }
  }
  return best;
}

// Spans of at most `most` seconds.
std::vector<SampleSpan> cut(const std::vector<SampleSpan>& spans, std::span<const float> samples,
                            int64_t rate, double most) {
  const int64_t longest = samples_in(most, rate);
  std::vector<SampleSpan> out;
  for (SampleSpan span : spans) {
    while (span.end - span.begin > longest) {
      const int64_t at = quiet_cut(samples, span.begin, longest, rate);
      out.push_back({span.begin, at});
      span.begin = at;
    }
    out.push_back(span);
  }
  return out;
}

}  // namespace

std::vector<SampleSpan> speech_spans(std::span<const float> samples, int64_t rate, double most) {
  if (samples.empty()) return {};
  const int64_t frame = samples_in(kFrameSeconds, rate);
  const std::vector<double> frames = loudness(samples, frame);
  const double floor = quantile(frames, 0.1);
  const double loudest = *std::ranges::max_element(frames);
  const double range = quantile(frames, 0.95) - floor;
  if (loudest < kSilence || range < kLeastRange) return {};
  const int64_t size = std::ssize(samples);
  if (range < kClearRange) return cut({{0, size}}, samples, rate, most);

  const double threshold = std::max({floor + kAboveFloor, loudest - kBelowLoudest, kSilence});
  std::vector<SampleSpan> loud;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i] < threshold) continue;
    const int64_t at = static_cast<int64_t>(i) * frame;
    const int64_t end = i + 1 == frames.size() ? size : at + frame;
    if (!loud.empty() && at - loud.back().end < samples_in(kPauseSeconds, rate)) {
      loud.back().end = end;
    } else {
      loud.push_back({at, end});
    }
  }
  const int64_t margin = samples_in(kMarginSeconds, rate);
  for (SampleSpan& span : loud)
    span = {std::max<int64_t>(span.begin - margin, 0), std::min(span.end + margin, size)};
  return cut(loud, samples, rate, most);
}

}  // namespace rlx::audio
