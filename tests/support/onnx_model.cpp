#include "tests/support/onnx_model.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace rlx::testing {
namespace {

using protozero::pbf_writer;

// A type within another, in the field of this number.
std::string wrapped_type(const std::string& type, uint32_t field) {
  std::string out;
  pbf_writer outer(out);
  pbf_writer holder(outer, field);
  holder.add_message(1, type);
  holder.commit();
  return out;
}

std::string tensor_type(ElementType type, const std::vector<OnnxGraph::Dim>* dims) {
  std::string out;
  pbf_writer type_proto(out);
  pbf_writer tensor(type_proto, 1);
  tensor.add_int32(1, static_cast<int32_t>(type));
  if (dims) {
    std::string message;  // a scalar has an empty one, which a nested writer would leave out
    pbf_writer shape(message);
    for (const OnnxGraph::Dim& d : *dims) {
      pbf_writer dim(shape, 1);
      if (const int64_t* number = std::get_if<int64_t>(&d)) {
        dim.add_int64(1, *number);
      } else {
        dim.add_string(2, std::get<std::string>(d));
      }
    }
    tensor.add_message(2, message);
  }
  tensor.commit();
  return out;
}

std::string value_info(const std::string& name, ElementType type, const std::vector<OnnxGraph::Dim>* dims,
                       OnnxKind kind) {
  std::string type_proto = tensor_type(type, dims);
  if (kind == OnnxKind::sequence || kind == OnnxKind::optional_sequence)
    type_proto = wrapped_type(type_proto, 4);
  if (kind == OnnxKind::optional || kind == OnnxKind::optional_sequence)
    type_proto = wrapped_type(type_proto, 9);
  std::string out;
  pbf_writer info(out);
  info.add_string(1, name);
  info.add_message(2, type_proto);
  return out;
}

std::string tensor_message(const std::string& name, const Tensor& value) {
  const auto bytes = value.bytes();
  return onnx_tensor(name, onnx::element_type_of(value.dtype()), value.shape(),
                     std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

struct AttributeWriter {
  pbf_writer& out;
  void kind(int32_t number) { out.add_int32(20, number); }

  void operator()(int value) {
    out.add_int64(3, value);
    kind(2);
  }
  void operator()(double value) {
    out.add_float(2, static_cast<float>(value));
    kind(1);
  }
  void operator()(const std::string& value) {
    out.add_bytes(4, value);
    kind(3);
  }
  void operator()(const std::vector<int64_t>& values) {
    out.add_packed_int64(8, values.begin(), values.end());
    kind(7);
  }
  void operator()(const std::vector<float>& values) {
    out.add_packed_float(7, values.begin(), values.end());
    kind(6);
  }
  void operator()(const Tensor& value) {
    out.add_message(5, tensor_message("", value));
    kind(4);
  }
  void operator()(const OnnxGraph& value) {
    out.add_message(6, value.message());
    kind(5);
  }
};

}  // namespace

std::string onnx_tensor(const std::string& name, ElementType type, const std::vector<int64_t>& dims,
                        const std::string& raw) {
  std::string out;
  pbf_writer tensor(out);
  tensor.add_packed_int64(1, dims.begin(), dims.end());
  tensor.add_int32(2, static_cast<int32_t>(type));
  tensor.add_string(8, name);
  tensor.add_bytes(9, raw);
  return out;
}

OnnxGraph& OnnxGraph::input(const std::string& name, const std::vector<Dim>& dims, ElementType type,
                            OnnxKind kind) {
  pbf_writer(fields_).add_message(11, value_info(name, type, &dims, kind));
  return *this;
}

OnnxGraph& OnnxGraph::output(const std::string& name, ElementType type, OnnxKind kind) {
  pbf_writer(fields_).add_message(12, value_info(name, type, nullptr, kind));
  return *this;
}

OnnxGraph& OnnxGraph::initializer(const std::string& name, const Tensor& value) {
  return initializer_message(tensor_message(name, value));
}

OnnxGraph& OnnxGraph::initializer_message(const std::string& message) {
  pbf_writer(fields_).add_message(5, message);
  return *this;
}

OnnxGraph& OnnxGraph::node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const Attributes& attributes,
                           const std::string& domain) {
  pbf_writer graph(fields_);
  pbf_writer node(graph, 1);
  for (const std::string& name : inputs) node.add_string(1, name);
  for (const std::string& name : outputs) node.add_string(2, name);
  node.add_string(4, op);
  for (const auto& [name, value] : attributes) {
    pbf_writer attribute(node, 5);
    attribute.add_string(1, name);
    std::visit(AttributeWriter{attribute}, value);
  }
  if (!domain.empty()) node.add_string(7, domain);
  return *this;
}

OnnxModel& OnnxModel::import(const std::string& domain, int64_t version) {
  pbf_writer model(fields_);
  pbf_writer opset(model, 8);
  opset.add_string(1, domain);
  opset.add_int64(2, version);
  return *this;
}

OnnxModel& OnnxModel::function(const std::string& domain, const std::string& name,
                               const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs, const OnnxGraph& body,
                               const std::vector<std::string>& attributes) {
  pbf_writer model(fields_);
  pbf_writer function(model, 25);
  function.add_string(1, name);
  for (const std::string& input : inputs) function.add_string(4, input);
  for (const std::string& output : outputs) function.add_string(5, output);
  for (const std::string& attribute : attributes) function.add_string(6, attribute);
  const std::string message = body.message();
  protozero::pbf_reader graph(message);
  while (graph.next()) {
    if (graph.tag() == 1) {
      function.add_message(7, graph.get_view());
    } else {
      graph.skip();
    }
  }
  {
    pbf_writer opset(function, 9);
    opset.add_string(1, "");
    opset.add_int64(2, 21);
  }
  function.add_string(10, domain);
  return *this;
}

std::string OnnxModel::text() const {
  std::string out = fields_;
  pbf_writer model(out);
  model.add_int64(1, 10);
  model.add_string(2, "a test");
  model.add_string(3, "1.5");
  model.add_message(7, graph.message());
  return out;
}

std::vector<std::byte> OnnxModel::bytes() const {
  const std::string all = text();
  const auto* data = reinterpret_cast<const std::byte*>(all.data());
  return {data, data + all.size()};
}

}  // namespace rlx::testing
