// Reads the text in a picture, or writes down what is said in a recording:
//
//   example_media FOLDER photo.jpg        FOLDER has the networks of PP-OCR (rlx/ocr.h)
//   example_media FOLDER recording.wav    FOLDER has those of Moonshine (rlx/speech.h)
#include <cstdio>
#include <string>
#include <string_view>

#include "rlx/device.h"
#include "rlx/error.h"
#include "rlx/ocr.h"
#include "rlx/speech.h"

namespace {

void read_picture(const std::string& folder, const std::string& file) {
  const rlx::vision::Image image = rlx::vision::read_image(file);
  rlx::vision::TextReader reader(rlx::Device::open(), rlx::vision::TextModels::in(folder));
  for (const rlx::vision::TextLine& line : reader.read(image))
    std::printf("%3.0f %%  %s\n", 100 * line.confidence, line.text.c_str());
}

void write_down(const std::string& folder, const std::string& file) {
  const rlx::audio::Sound sound = rlx::audio::read_wav(file);
  rlx::audio::Transcriber transcriber(rlx::Device::open(), rlx::audio::SpeechModels::in(folder));
  for (const rlx::audio::Utterance& u : transcriber.transcribe(sound).utterances)
    std::printf("%6.1f s  %s\n", u.begin_seconds, u.text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: example_media FOLDER picture.png|picture.jpg|recording.wav\n", stderr);
    return 2;
  }
  try {
    const bool is_sound = std::string_view(argv[2]).ends_with(".wav");
    (is_sound ? write_down : read_picture)(argv[1], argv[2]);
  } catch (const rlx::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
