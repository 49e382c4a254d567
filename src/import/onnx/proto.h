// The messages of an ONNX file (onnx.proto3) as plain structs. Names, texts and tensor data are views of the
// file's bytes: nothing is copied, and whoever holds these structs keeps the file mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/element_type.h"

namespace rlx::onnx {

struct GraphProto;

struct TensorProto {
  std::string_view name;
  std::vector<int64_t> dims;
  ElementType type = ElementType::undefined;
  // The elements are in one of these: little-endian bytes, or lists of numbers as protobuf packs them, in as
  // many pieces as the writer made.
  std::optional<std::string_view> raw;
  std::vector<std::string_view> floats, doubles;          // fixed width
  std::vector<std::string_view> int32s, int64s, uint64s;  // varints
  size_t strings = 0;
  // Or in another file.
  bool external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_data;
};

struct AttributeProto {
  // As onnx.proto3 numbers them.
  enum class Kind : int32_t {
    undefined = 0,
    float_ = 1,
    int_ = 2,
    string = 3,
    tensor = 4,
    graph = 5,
    floats = 6,
    ints = 7,
    strings = 8,
    tensors = 9,
    graphs = 10,
    sparse_tensor = 11,
    sparse_tensors = 12,
    type_proto = 13,
    type_protos = 14,
  };
  std::string_view name;
  Kind kind = Kind::undefined;
  std::string_view reference;  // in a function: the attribute of the call that it stands for
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::shared_ptr<const TensorProto> t;
  std::shared_ptr<GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
};

struct NodeProto {
  std::vector<std::string_view> inputs;  // "": an optional one that is not given
  std::vector<std::string_view> outputs;
  std::string_view name;
  std::string_view op;
  std::string_view domain;
  std::string_view overload;
  std::vector<AttributeProto> attributes;
};
// For messages: that of its first output if it has none of its own.
std::string node_name(const NodeProto& node);

struct DimProto {
  std::optional<int64_t> value;
  std::string_view param;
};

struct ValueInfo {
  enum class Kind { none, tensor, sequence, other };
  std::string_view name;
  Kind kind = Kind::none;
  bool optional = false;  // such a value, or nothing
  // Of the tensor, or of the elements of the sequence.
  ElementType type = ElementType::undefined;
  std::optional<std::vector<DimProto>> shape;  // nothing: not even the rank is known
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  bool sparse_initializers = false;
};

struct OpsetId {
  std::string_view domain;
  int64_t version = 0;
};

struct FunctionProto {
  std::string_view name;
  std::string_view domain;
  std::string_view overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;        // that a call must give
  std::vector<AttributeProto> attribute_defaults;  // that it may leave out
  std::vector<NodeProto> nodes;
  std::vector<OpsetId> opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string_view producer;
  std::string_view producer_version;
  std::vector<OpsetId> opsets;
  std::vector<FunctionProto> functions;
  GraphProto graph;
};

// Each node comes behind those that it needs. ErrorKind::invalid_file says what is wrong. `file` is its name
// for messages.
ModelProto parse_model(std::span<const std::byte> bytes, std::string_view file);
// A value alone, as in the files of ONNX's own tests: a tensor, those of a sequence, or what an optional
// holds.
TensorProto parse_tensor(std::span<const std::byte> bytes, std::string_view file);
std::vector<TensorProto> parse_sequence(std::span<const std::byte> bytes, std::string_view file);
struct OptionalProto {
  std::optional<TensorProto> tensor;
  std::optional<std::vector<TensorProto>> sequence;
};
OptionalProto parse_optional(std::span<const std::byte> bytes, std::string_view file);

}  // namespace rlx::onnx
