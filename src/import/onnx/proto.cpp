#include "import/onnx/proto.h"

#include <protozero/pbf_reader.hpp>

#include "base/fail.h"
#include "import/onnx/node_order.h"
#include "rlx/ops/spectra.h"

namespace rlx::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// Sub-graphs in attributes, each a message in a message: deeper ones would overflow the stack.
constexpr int kMaxDepth = 64;

// A message in the file may have 2 bytes, and costs us some hundred: a file cannot make us allocate without
// end.
constexpr int64_t kMaxMessages = 2'000'000;
// A name is part of every message and print that mentions it.
constexpr size_t kMaxName = 1024;

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

  ModelProto model(pbf_reader in) {
    ModelProto m;
    bool has_graph = false;
    if (in.length() == 0) wrong("the file is empty, which is not an ONNX file");
    if (!looks_like_model(in)) wrong("this is not an ONNX model: its bytes are no list of a model's fields");
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          m.ir_version = number(in);
          break;
        case 2:
          m.producer = text(in);
          break;
        case 3:
          m.producer_version = text(in);
          break;
        case 7:
          if (has_graph) wrong("the model has two graphs");
          has_graph = true;
          m.graph = graph(message(in));
          break;
        case 8:
          m.opsets.push_back(opset(message(in)));
          break;
        case 25:
          m.functions.push_back(function(message(in)));
          break;
        default:
          in.skip();
      }
    }
    if (!has_graph) wrong("this is not an ONNX model: it has no graph");
    return m;
  }

  std::vector<TensorProto> sequence(pbf_reader in) {
    std::vector<TensorProto> out;
    while (in.next()) {
      if (in.tag() == 3) {
        out.push_back(tensor(message(in)));
      } else if (in.tag() >= 4 && in.tag() <= 7) {
        wrong("it has a sequence of something other than tensors");
      } else {
        in.skip();
      }
    }
    return out;
  }

  OptionalProto optional(pbf_reader in) {
    OptionalProto out;
    while (in.next()) {
      if (in.tag() == 3) {
        out.tensor = tensor(message(in));
      } else if (in.tag() == 5) {
        out.sequence = sequence(message(in));
      } else if (in.tag() == 4 || in.tag() == 6 || in.tag() == 7) {
        wrong("it has an optional of something other than a tensor or a sequence");
      } else {
        in.skip();
      }
    }
    return out;
  }

  TensorProto tensor(pbf_reader in) {
    TensorProto t;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          add_ints(in, t.dims);
          break;
        case 2:
          t.type = element_type(number(in));
          break;
        case 3:
          wrong("a tensor is stored in segments, which ONNX no longer has");
        case 4:
          t.floats.push_back(piece(in));
          break;
        case 5:
          t.int32s.push_back(piece(in));
          break;
        case 6:
          ++t.strings;
          in.skip();
          break;
        case 7:
          t.int64s.push_back(piece(in));
          break;
        case 8:
          t.name = name(in);
          break;
        case 9:
          t.raw = text(in);
          break;
        case 10:
          t.doubles.push_back(piece(in));
          break;
        case 11:
          t.uint64s.push_back(piece(in));
          break;
        case 13:
          t.external_data.push_back(entry(message(in)));
          break;
        case 14:
          t.external = number(in) == 1;
          break;
        default:
          in.skip();
      }
    }
    return t;
  }

 private:
  // Whether the fields of the file up to the graph are of the kinds that a model has; a file that is cut
  // short within or after the graph is one.
  static bool looks_like_model(pbf_reader in) {
    bool any = false;
    try {
      while (in.next()) {
        const bool is_number = in.tag() == 1 || in.tag() == 5;
        const bool is_known = in.tag() <= 8 || in.tag() == 14 || in.tag() == 20 || in.tag() == 25;
        if (is_known &&
            !in.has_wire_type(is_number ? pbf_wire_type::varint : pbf_wire_type::length_delimited))
          return false;
        if (in.tag() == 7) return true;
        in.skip();
        any = any || is_known;
      }
    } catch (const protozero::exception&) {
      return any;
    }
    return true;
  }

  template <class... Args>
  [[noreturn]] void wrong(std::format_string<Args...> message, Args&&... args) const {
    fail(ErrorKind::invalid_file, "{}: {}", file_, formatted(message, std::forward<Args>(args)...));
  }

  ElementType element_type(int64_t number) const {
    const bool fits = number >= 0 && number <= kLastElementType;
    const auto type = fits ? element_type_of(static_cast<int32_t>(number)) : std::nullopt;
    if (!type) wrong("there is no element type {}; ONNX has 0 to {}", number, kLastElementType);
    return *type;
  }

  // --- Fields. One of another kind than onnx.proto3 says would be read as garbage. ---

  void expect(const pbf_reader& in, pbf_wire_type kind) const {
    if (!in.has_wire_type(kind)) wrong("field {} of a message is of the wrong kind", in.tag());
  }
  std::string_view text(pbf_reader& in) const {
    expect(in, pbf_wire_type::length_delimited);
    const protozero::data_view view = in.get_view();
    return {view.data(), view.size()};
  }
  std::string_view name(pbf_reader& in) const {
    const std::string_view all = text(in);
    if (all.size() > kMaxName)
      wrong("the name '{}' has {} bytes; {} are the most", excerpt(all), all.size(), kMaxName);
    return all;
  }
  int64_t number(pbf_reader& in) const {
    expect(in, pbf_wire_type::varint);
    return in.get_int64();
  }
  float real(pbf_reader& in) const {
    expect(in, pbf_wire_type::fixed32);
    return in.get_float();
  }
  pbf_reader message(pbf_reader& in) {
    expect(in, pbf_wire_type::length_delimited);
    if (++messages_ > kMaxMessages)
      wrong("it has more than {} nodes, tensors, attributes and the like", kMaxMessages);
    return in.get_message();
  }

  // A repeated number comes packed in one piece or, from old writers, one field for each.
  void add_ints(pbf_reader& in, std::vector<int64_t>& into) const {
    if (in.has_wire_type(pbf_wire_type::length_delimited)) {
      for (const int64_t v : in.get_packed_int64()) into.push_back(v);
    } else {
      into.push_back(number(in));
    }
  }
  void add_floats(pbf_reader& in, std::vector<float>& into) const {
    if (in.has_wire_type(pbf_wire_type::length_delimited)) {
      for (const float v : in.get_packed_float()) into.push_back(v);
    } else {
      into.push_back(real(in));
    }
  }

  // The bytes of a packed list, or of a single number that is not packed.
  std::string_view piece(pbf_reader& in) {
    if (in.has_wire_type(pbf_wire_type::length_delimited)) return text(in);
    const char* const begin = in.data().data();
    in.skip();
    return {begin, static_cast<size_t>(in.data().data() - begin)};
  }

  std::pair<std::string_view, std::string_view> entry(pbf_reader in) {
    std::pair<std::string_view, std::string_view> e;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          e.first = text(in);
          break;
        case 2:
          e.second = text(in);
          break;
        default:
          in.skip();
      }
    }
    return e;
  }

  OpsetId opset(pbf_reader in) {
    OpsetId id;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          id.domain = name(in);
          break;
        case 2:
          id.version = number(in);
          break;
        default:
          in.skip();
      }
    }
    return id;
  }

  GraphProto graph(pbf_reader in) {
    if (++depth_ > kMaxDepth) wrong("sub-graphs are nested more than {} deep", kMaxDepth);
    GraphProto g;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          g.nodes.push_back(node(message(in)));
          break;
        case 2:
          g.name = name(in);
          break;
        case 5:
          g.initializers.push_back(tensor(message(in)));
          break;
        case 11:
          g.inputs.push_back(value_info(message(in)));
          break;
        case 12:
          g.outputs.push_back(value_info(message(in)));
          break;
        case 13:
          g.values.push_back(value_info(message(in)));
          break;
        case 15:
          g.sparse_initializers = true;
          in.skip();
          break;
        default:
          in.skip();
      }
    }
    --depth_;
    return g;
  }

  FunctionProto function(pbf_reader in) {
    FunctionProto f;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          f.name = name(in);
          break;
        case 4:
          f.inputs.push_back(name(in));
          break;
        case 5:
          f.outputs.push_back(name(in));
          break;
        case 6:
          f.attributes.push_back(name(in));
          break;
        case 7:
          f.nodes.push_back(node(message(in)));
          break;
        case 9:
          f.opsets.push_back(opset(message(in)));
          break;
        case 10:
          f.domain = name(in);
          break;
        case 11:
          f.attribute_defaults.push_back(attribute(message(in)));
          if (!f.attribute_defaults.back().reference.empty())
            wrong("the default of an attribute of the function '{}' is a reference", f.name);
          break;
        case 13:
          f.overload = name(in);
          break;
        default:
          in.skip();
      }
    }
    return f;
  }

  NodeProto node(pbf_reader in) {
    NodeProto n;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          n.inputs.push_back(name(in));
          break;
        case 2:
          n.outputs.push_back(name(in));
          break;
        case 3:
          n.name = name(in);
          break;
        case 4:
          n.op = name(in);
          break;
        case 5:
          n.attributes.push_back(attribute(message(in)));
          break;
        case 7:
          n.domain = name(in);
          break;
        case 8:
          n.overload = name(in);
          break;
        default:
          in.skip();
      }
    }
    return n;
  }

  AttributeProto attribute(pbf_reader in) {
    using Kind = AttributeProto::Kind;
    AttributeProto a;
    Kind seen = Kind::undefined;  // for old writers, which give no type
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          a.name = name(in);
          break;
        case 2:
          a.f = real(in);
          seen = Kind::float_;
          break;
        case 3:
          a.i = number(in);
          seen = Kind::int_;
          break;
        case 4:
          a.s = text(in);
          seen = Kind::string;
          break;
        case 5:
          a.t = std::make_shared<TensorProto>(tensor(message(in)));
          seen = Kind::tensor;
          break;
        case 6:
          a.g = std::make_shared<GraphProto>(graph(message(in)));
          seen = Kind::graph;
          break;
        case 7:
          add_floats(in, a.floats);
          seen = Kind::floats;
          break;
        case 8:
          add_ints(in, a.ints);
          seen = Kind::ints;
          break;
        case 9:
          a.strings.push_back(text(in));
          seen = Kind::strings;
          break;
        case 20:
          a.kind = static_cast<Kind>(static_cast<int32_t>(number(in)));
          break;
        case 21:
          a.reference = name(in);
          break;
        default:
          in.skip();
      }
    }
    if (a.kind == Kind::undefined) a.kind = seen;
    if (a.reference.empty() && ((a.kind == Kind::tensor && !a.t) || (a.kind == Kind::graph && !a.g)))
      wrong("the attribute '{}' is without its value", excerpt(a.name));
    return a;
  }

  ValueInfo value_info(pbf_reader in) {
    ValueInfo v;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          v.name = name(in);
          break;
        case 2:
          type(message(in), v);
          break;
        default:
          in.skip();
      }
    }
    return v;
  }

  void type(pbf_reader in, ValueInfo& into) {
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          into.kind = ValueInfo::Kind::tensor;
          tensor_type(message(in), into);
          break;
        case 4: {
          ValueInfo element;
          element_of(message(in), element);
          into.kind =
              element.kind == ValueInfo::Kind::tensor ? ValueInfo::Kind::sequence : ValueInfo::Kind::other;
          into.type = element.type;
          into.shape = element.shape;
          break;
        }
        case 9:
          into.optional = true;
          element_of(message(in), into);
          break;
        case 6:
          in.skip();
          break;  // a denotation, for people
        default:
          into.kind = ValueInfo::Kind::other;
          in.skip();
      }
    }
  }

  // Of a sequence or an optional.
  void element_of(pbf_reader in, ValueInfo& into) {
    if (++depth_ > kMaxDepth) wrong("types are nested more than {} deep", kMaxDepth);
    while (in.next()) {
      if (in.tag() == 1) {
        type(message(in), into);
      } else {
        in.skip();
      }
    }
    --depth_;
  }

  void tensor_type(pbf_reader in, ValueInfo& into) {
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          into.type = element_type(number(in));
          break;
        case 2:
          into.shape = shape(message(in));
          break;
        default:
          in.skip();
      }
    }
  }

  std::vector<DimProto> shape(pbf_reader in) {
    std::vector<DimProto> dims;
    while (in.next()) {
      if (in.tag() == 1) {
        dims.push_back(dim(message(in)));
      } else {
        in.skip();
      }
    }
    return dims;
  }

  DimProto dim(pbf_reader in) {
    DimProto d;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          d.value = number(in);
          break;
        case 2:
          d.param = name(in);
          break;
        default:
          in.skip();
      }
    }
    return d;
  }

  std::string_view file_;
  int depth_ = 0;
  int64_t messages_ = 0;
};

// protozero throws its own exceptions for broken messages.
template <class Parse>
auto checked(std::span<const std::byte> bytes, std::string_view file, Parse&& parse) {
  try {
    Parser parser(file);
    return parse(parser, pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  } catch (const protozero::end_of_buffer_exception&) {
    fail(ErrorKind::invalid_file, "{}: not a whole ONNX file: after {} bytes it ends within a message", file,
         bytes.size());
  } catch (const protozero::exception&) {
    fail(ErrorKind::invalid_file, "{}: not a whole ONNX file: its bytes are no protobuf messages", file);
  }
}

}  // namespace

std::string node_name(const NodeProto& node) {
  if (!node.name.empty()) return std::string(node.name);
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) return std::string(output);
  }
  return std::string(node.op);
}

ModelProto parse_model(std::span<const std::byte> bytes, std::string_view file) {
  ModelProto model = checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.model(in); });
  sort_nodes(model, file);
  return model;
}

TensorProto parse_tensor(std::span<const std::byte> bytes, std::string_view file) {
  return checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.tensor(in); });
}

std::vector<TensorProto> parse_sequence(std::span<const std::byte> bytes, std::string_view file) {
  return checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.sequence(in); });
}

OptionalProto parse_optional(std::span<const std::byte> bytes, std::string_view file) {
  return checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.optional(in); });
}

}  // namespace rlx::onnx
