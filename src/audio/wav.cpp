// A RIFF file is a list of chunks: four letters, a length, and that many bytes, padded to an even number. Of
// a WAV file, `fmt ` says what the samples in `data` are.
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/border.h"
#include "base/fail.h"
#include "import/file_bytes.h"
#include "rlx/sound.h"

namespace rlx::audio {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint16_t kPcm = 1;
constexpr uint16_t kFloat = 3;
constexpr uint16_t kExtensible = 0xfffe;  // the first two bytes of a longer field are the format

template <class T>
T read(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Format {
  uint16_t kind, channels, bits;
  uint32_t rate;

  size_t sample_bytes() const { return bits / 8u; }
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : rest_(bytes), name_(name) {}

  Sound sound() {
    if (rest_.empty()) wrong("the file is empty");
    if (rest_.size() < 12 || text(0) != "RIFF" || text(8) != "WAVE") wrong("it is not a WAV file");
    rest_ = rest_.subspan(12);
    std::optional<Format> format;
    while (rest_.size() >= 8) {
      const std::string id = text(0);
      const auto claimed = size_t{read<uint32_t>(rest_, 4)};
      rest_ = rest_.subspan(8);
      // Programs that write to a pipe leave the length of the data open: 0, or more than a file can have.
      constexpr size_t kOpen = 0x7ffff000;
      const bool open = id == "data" && (claimed == 0 || (claimed >= kOpen && claimed > rest_.size()));
      if (!open && claimed > rest_.size())
        wrong("its chunk '{}' should have {} bytes, but the file ends after {}", printable(id), claimed,
              rest_.size());
      const auto chunk = open ? rest_ : rest_.first(claimed);
      if (id == "fmt ") format = parse_format(chunk);
      if (id == "data") {
        if (!format) wrong("its samples come before their format");
        return samples(*format, chunk);
      }
      rest_ = rest_.subspan(std::min(rest_.size(), claimed + claimed % 2));
    }
    wrong("it has no samples");
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(std::format_string<Args...> text, Args&&... args) const {
    fail(ErrorKind::invalid_file, "{}: {}", name_, std::format(text, std::forward<Args>(args)...));
  }

  std::string text(size_t at) const { return {reinterpret_cast<const char*>(rest_.data()) + at, 4}; }
  static std::string printable(std::string s) {
    for (char& c : s) c = c >= 32 && c < 127 ? c : '?';
    return s;
  }

  Format parse_format(std::span<const std::byte> chunk) const {
    if (chunk.size() < 16) wrong("its format has {} bytes instead of 16", chunk.size());
    Format f{.kind = read<uint16_t>(chunk, 0),
             .channels = read<uint16_t>(chunk, 2),
             .bits = read<uint16_t>(chunk, 14),
             .rate = read<uint32_t>(chunk, 4)};
    if (f.kind == kExtensible) {
      if (chunk.size() < 26) wrong("its extended format has {} bytes instead of 26 or more", chunk.size());
      f.kind = read<uint16_t>(chunk, 24);
    }
    const bool known = (f.kind == kPcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32)) ||
                       (f.kind == kFloat && (f.bits == 32 || f.bits == 64));
    if (!known)
      wrong(
          "its samples have format {} with {} bits; whole numbers (format 1) of 8, 16, 24 or 32 bits and "
          "floats "
          "(format 3) of 32 or 64 can be read",
          f.kind, f.bits);
    if (f.channels == 0 || f.channels > 256) wrong("it has {} channels", f.channels);
    constexpr uint32_t kMostRate = 1'000'000;
    if (f.rate == 0 || f.rate > kMostRate) wrong("it has {} samples per second", f.rate);
    return f;
  }

  static float sample(const Format& f, std::span<const std::byte> bytes, size_t at) {
    if (f.kind == kFloat)
      return f.bits == 32 ? read<float>(bytes, at) : static_cast<float>(read<double>(bytes, at));
    if (f.bits == 8) return (static_cast<float>(read<uint8_t>(bytes, at)) - 128.0f) / 128.0f;
    // The highest bytes of a number of 32 bits.
    uint32_t number = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&number) + (4 - f.sample_bytes()), bytes.data() + at,
                f.sample_bytes());
    return static_cast<float>(static_cast<double>(static_cast<int32_t>(number)) / 2147483648.0);
  }

  Sound samples(const Format& f, std::span<const std::byte> chunk) const {
    const size_t frame = f.sample_bytes() * f.channels;
    Sound out{.rate = f.rate, .samples = {}};
    out.samples.reserve(chunk.size() / frame);
    for (size_t at = 0; at + frame <= chunk.size(); at += frame) {
      float sum = 0;
      for (size_t c = 0; c < f.channels; ++c) sum += sample(f, chunk, at + c * f.sample_bytes());
      const float mean = sum / static_cast<float>(f.channels);
      if (!std::isfinite(mean)) wrong("sample {} is not a finite number", out.samples.size());
      out.samples.push_back(mean);
    }
    if (out.samples.empty()) wrong("it has no samples");
    return out;
  }

  std::span<const std::byte> rest_;
  const std::string& name_;
};

}  // namespace

Sound parse_wav(std::span<const std::byte> bytes, const std::string& name) try {
  return Reader(bytes, name).sound();
} catch (...) {
  throw_as_error("reading a recording");
}

Sound read_wav(const std::string& path) try {
  const FileBytes file(path);
  return parse_wav(file.bytes(), path);
} catch (...) {
  throw_as_error("reading a recording");
}

}  // namespace rlx::audio
