// Reading recordings. Link rlx::media.
//
//   const rlx::audio::Sound sound = rlx::audio::read_wav("recording.wav");
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx::audio {

// One channel; full scale is 1.
struct Sound {
  int64_t rate = 0;  // samples per second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(rate); }
};

// A WAV file: whole numbers of 8 to 32 bits or floats, any rate; several channels are averaged.
// ErrorKind::invalid_file names the file and what is wrong with it.
Sound read_wav(const std::string& path);
// The same for a file in memory; `name` is for messages.
Sound parse_wav(std::span<const std::byte> bytes, const std::string& name = "the recording");

}  // namespace rlx::audio
RLX_EXPORT_END
