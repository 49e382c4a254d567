// Where in a recording somebody may be speaking, by loudness alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rlx::audio {

// Samples from begin to end, without the latter.
struct SampleSpan {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const SampleSpan&, const SampleSpan&) = default;
};

// The parts that are louder than what is behind them, with a little of that around each; what lies less
// than 1.2 seconds apart is one part, and one of more than `most` seconds is cut where it is quietest. Where
// there is much noise all of it is one part: in short pieces of noise fewer words are understood. Empty for
// silence and for sounds that stay the same, noise or a hum: speech gets louder and quieter.
std::vector<SampleSpan> speech_spans(std::span<const float> samples, int64_t rate, double most);

}  // namespace rlx::audio
