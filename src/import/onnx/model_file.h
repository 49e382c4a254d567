// An ONNX file: its messages, and the bytes that they are views of.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "import/onnx/importer.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor_data.h"
#include "rlx/onnx.h"

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

// The error for a file with nodes that cannot be imported: all problems in one message, and one by one.
class RefusedFile : public Error {
 public:
  RefusedFile(const std::string& file, std::vector<ImportProblem> problems);
  const std::vector<ImportProblem>& problems() const { return problems_; }

 private:
  std::vector<ImportProblem> problems_;
};

// What rlx/onnx.h's load does with a file that is open.
Model load(ModelFile file, const LoadOptions& options);

}  // namespace rlx::onnx
