// The elements of the tensors in an ONNX file: in the message itself or in files beside the model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "import/file_bytes.h"
#include "import/onnx/proto.h"
#include "rlx/tensor.h"

namespace rlx::onnx {

class TensorData {
 public:
  // `model` keeps the messages' bytes alive; `folder` is where external data must be.
  TensorData(std::shared_ptr<const FileBytes> model, std::string folder)
      : model_(std::move(model)), folder_(std::move(folder)) {}

  // A view of the file where the type and its carrier have the same bytes, otherwise converted. Errors name
  // the tensor; an element type without a carrier is Refused.
  Tensor tensor(const TensorProto& proto);

 private:
  // The bytes, and what keeps them mapped.
  std::pair<std::span<const std::byte>, std::shared_ptr<const void>> external(const TensorProto& proto);

  std::shared_ptr<const FileBytes> model_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<const FileBytes>, std::less<>> files_;
};

}  // namespace rlx::onnx
