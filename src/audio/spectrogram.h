// How loud which frequencies are at which time.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/device.h"
#include "rlx/sound.h"

namespace rlx::audio {

struct SpectrogramOptions {
  int64_t frame = 0;  // samples of a spectrum; 0: about a twentieth of a second, a power of two
  int64_t hop = 0;    // from frame to frame; 0: a quarter of a frame, or less for a short sound
  int64_t mels = 0;   // bands on the mel scale; 0: the bins of the spectrum
  // Frames that lie closer together are joined: a column then has the mean of their powers.
  int64_t most_columns = 840;
};

struct Spectrogram {
  int64_t frame = 0, hop = 0, frames = 0;
  int64_t columns = 0, rows = 0;
  double rate = 0;
  bool mel = false;
  double column_seconds = 0;  // from column to column; the centre of the first is at 0
  std::vector<float>
      decibels;  // one column after the other, each from the lowest frequency up; a tone of full scale has 0

  // The place of a frequency along a column, from 0 (the lower edge of the first row) to 1.
  double place_of(double hertz) const;
  double hertz_of_row(int64_t row) const;
};

// Frames are multiplied by Hann's window; the sound is silent before its start and after its end.
Spectrogram spectrogram(const Device& device, const Sound& sound, const SpectrogramOptions& options = {});

}  // namespace rlx::audio
