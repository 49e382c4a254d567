// An ONNX file: its messages, and the bytes that they are views of.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "import/onnx/importer.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor_data.h"

namespace rlx::onnx {

struct ModelFile {
  std::shared_ptr<const FileBytes> bytes;
  std::string name;
  ModelProto model;
  TensorData data;

  static ModelFile open(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return ModelFile(std::make_shared<const FileBytes>(path), path, folder.empty() ? "." : folder);
  }
  // `folder` is where external data is; "": nowhere.
  ModelFile(std::shared_ptr<const FileBytes> file, std::string name_for_messages, std::string folder)
      : bytes(std::move(file)),
        name(std::move(name_for_messages)),
        model(parse_model(bytes->bytes(), name)),
        data(bytes, std::move(folder)) {}
};

// All problems in one message.
Error refusal(const std::string& file, const std::vector<ImportProblem>& problems);

}  // namespace rlx::onnx
