// Sound in WAV files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rlx::audio {

// One channel; full scale is 1.
struct Sound {
  int64_t rate = 0;  // samples per second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(rate); }
};

// Whole numbers of 8 to 32 bits or floats, any rate; several channels are averaged. Errors
// (ErrorKind::invalid_file) name the file and what is wrong with it.
Sound read_wav(const std::string& path);
Sound parse_wav(std::span<const std::byte> bytes, const std::string& name);

// The same sound at another rate, without what lies above half of the lower one.
Sound resampled(const Sound& sound, int64_t rate);

}  // namespace rlx::audio
