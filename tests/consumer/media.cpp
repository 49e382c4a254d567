// A user's program that reads pictures and sound, against the installed package: media PICTURE
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "rlx/ocr.h"
#include "rlx/rlx.h"
#include "rlx/speech.h"

namespace {

// A second of silence at 8 kHz: 8 bits, one channel.
std::vector<std::byte> silence() {
  std::vector<std::byte> out(44 + 8000, std::byte{128});
  const auto put = [&](size_t at, const void* from, size_t size) {
    std::memcpy(out.data() + at, from, size);
  };
  const uint32_t sizes[] = {36 + 8000, 16, 8000};
  const uint32_t rates[] = {8000, 8000};  // samples and bytes per second
  const uint16_t format[] = {1, 1}, block[] = {1, 8};
  put(0, "RIFF", 4), put(4, &sizes[0], 4), put(8, "WAVEfmt ", 8), put(16, &sizes[1], 4);
  put(20, format, 4), put(24, rates, 8), put(32, block, 4), put(36, "data", 4), put(40, &sizes[2], 4);
  return out;
}

// What is wrong with networks that are not there.
template <class Load>
std::string complaint(Load&& load) {
  try {
    load();
  } catch (const rlx::Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const rlx::vision::Image image = rlx::vision::read_image(argv[1]);
    const rlx::audio::Sound sound = rlx::audio::parse_wav(silence());
    std::printf("%lld x %lld, %g s\n", static_cast<long long>(image.width),
                static_cast<long long>(image.height), sound.seconds());
    const rlx::Device device = rlx::Device::open();
    const auto text_models = rlx::vision::TextModels::in("nowhere");
    const auto speech_models = rlx::audio::SpeechModels::in("nowhere");
    const std::string text = complaint([&] { rlx::vision::TextReader(device, text_models).read(image); });
    const std::string speech =
        complaint([&] { rlx::audio::Transcriber(device, speech_models).transcribe(sound); });
    std::printf("%s\n%s\n", text.c_str(), speech.c_str());
    const bool right =
        image.width > 0 && sound.seconds() == 1 && text.contains("nowhere") && speech.contains("nowhere");
    return right ? 0 : 1;
  } catch (const rlx::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
