// Small ONNX models for tests, as the bytes that a file would have:
//
//   OnnxModel model;                                   // opset 21
//   model.graph.input("x", {2, "n"}).node("Relu", {"x"}, {"y"}).output("y");
//   const onnx::Model loaded = onnx::parse(model.bytes());
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/tensor.h"

namespace rlx::testing {

using onnx::ElementType;

// What an input or an output is: a tensor, or something of tensors.
enum class OnnxKind { tensor, sequence, optional, optional_sequence };

class OnnxGraph {
 public:
  using Dim = std::variant<int64_t, std::string>;  // a number, or the name of a symbol
  using Attribute =
      std::variant<int, double, std::string, std::vector<int64_t>, std::vector<float>, Tensor, OnnxGraph>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  OnnxGraph& input(const std::string& name, const std::vector<Dim>& dims,
                   ElementType type = ElementType::float32, OnnxKind kind = OnnxKind::tensor);
  OnnxGraph& output(const std::string& name, ElementType type = ElementType::float32,
                    OnnxKind kind = OnnxKind::tensor);
  OnnxGraph& initializer(const std::string& name, const Tensor& value);
  // Any bytes as a TensorProto, for those that no writer would make.
  OnnxGraph& initializer_message(const std::string& message);
  // Any bytes as fields of the GraphProto.
  OnnxGraph& fields(const std::string& bytes) {
    fields_ += bytes;
    return *this;
  }
  OnnxGraph& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs, const Attributes& attributes = {},
                  const std::string& domain = "");

  std::string message() const { return "\x12\x04test" + fields_; }

 private:
  std::string fields_;
};

// A TensorProto with raw data.
std::string onnx_tensor(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                        const std::string& raw);

class OnnxModel {
 public:
  explicit OnnxModel(int64_t opset = 21) { import("", opset); }

  OnnxGraph graph;

  OnnxModel& import(const std::string& domain, int64_t version);
  // The nodes of `body`; what it declares as inputs and outputs is left out.
  OnnxModel& function(const std::string& domain, const std::string& name,
                      const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                      const OnnxGraph& body, const std::vector<std::string>& attributes = {});
  std::string text() const;
  std::vector<std::byte> bytes() const;

 private:
  std::string fields_;
};

}  // namespace rlx::testing
