#include "import/onnx/proto.h"

#include <protozero/pbf_reader.hpp>

#include "base/fail.h"

namespace rlx::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// Sub-graphs in attributes, each a message in a message: deeper ones would overflow the stack.
constexpr int kMaxDepth = 64;

std::string_view text(protozero::data_view view) { return {view.data(), view.size()}; }

int64_t as_int64(pbf_reader& in) { return in.get_int64(); }

// A repeated number comes packed in one piece or, from old writers, one field for each.
void add_ints(pbf_reader& in, std::vector<int64_t>& into) {
  if (in.wire_type() == pbf_wire_type::length_delimited) {
    for (const int64_t v : in.get_packed_int64()) into.push_back(v);
  } else {
    into.push_back(as_int64(in));
  }
}

void add_floats(pbf_reader& in, std::vector<float>& into) {
  if (in.wire_type() == pbf_wire_type::length_delimited) {
    for (const float v : in.get_packed_float()) into.push_back(v);
  } else {
    into.push_back(in.get_float());
  }
}

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file) {}

  ModelProto model(pbf_reader in) {
    ModelProto m;
    bool has_graph = false;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          m.ir_version = as_int64(in);
          break;
        case 2:
          m.producer = text(in.get_view());
          break;
        case 3:
          m.producer_version = text(in.get_view());
          break;
        case 7:
          if (has_graph) wrong("the model has two graphs");
          has_graph = true;
          m.graph = graph(in.get_message());
          break;
        case 8:
          m.opsets.push_back(opset(in.get_message()));
          break;
        case 25:
          m.functions.push_back(function(in.get_message()));
          break;
        default:
          in.skip();
      }
    }
    if (!has_graph) wrong("the model has no graph: this is not an ONNX file");
    return m;
  }

  TensorProto tensor(pbf_reader in) {
    TensorProto t;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          add_ints(in, t.dims);
          break;
        case 2:
          t.type = element_type(in.get_int32());
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
          t.name = text(in.get_view());
          break;
        case 9:
          t.raw = text(in.get_view());
          break;
        case 10:
          t.doubles.push_back(piece(in));
          break;
        case 11:
          t.uint64s.push_back(piece(in));
          break;
        case 13:
          t.external_data.push_back(entry(in.get_message()));
          break;
        case 14:
          t.external = in.get_int32() == 1;
          break;
        default:
          in.skip();
      }
    }
    return t;
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(std::format_string<Args...> message, Args&&... args) const {
    fail(ErrorKind::invalid_file, "{}: {}", file_, formatted(message, std::forward<Args>(args)...));
  }

  ElementType element_type(int32_t number) const {
    const auto type = element_type_of(number);
    if (!type) wrong("there is no element type {}; ONNX has 0 to {}", number, kLastElementType);
    return *type;
  }

  // The bytes of a packed list, or of a single number that is not packed.
  static std::string_view piece(pbf_reader& in) {
    if (in.wire_type() == pbf_wire_type::length_delimited) return text(in.get_view());
    const char* const begin = in.data().data();
    in.skip();
    return {begin, static_cast<size_t>(in.data().data() - begin)};
  }

  static std::pair<std::string_view, std::string_view> entry(pbf_reader in) {
    std::pair<std::string_view, std::string_view> e;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          e.first = text(in.get_view());
          break;
        case 2:
          e.second = text(in.get_view());
          break;
        default:
          in.skip();
      }
    }
    return e;
  }

  static OpsetId opset(pbf_reader in) {
    OpsetId id;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          id.domain = text(in.get_view());
          break;
        case 2:
          id.version = as_int64(in);
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
          g.nodes.push_back(node(in.get_message()));
          break;
        case 2:
          g.name = text(in.get_view());
          break;
        case 5:
          g.initializers.push_back(tensor(in.get_message()));
          break;
        case 11:
          g.inputs.push_back(value_info(in.get_message()));
          break;
        case 12:
          g.outputs.push_back(value_info(in.get_message()));
          break;
        case 13:
          g.values.push_back(value_info(in.get_message()));
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
          f.name = text(in.get_view());
          break;
        case 4:
          f.inputs.push_back(text(in.get_view()));
          break;
        case 5:
          f.outputs.push_back(text(in.get_view()));
          break;
        case 6:
          f.attributes.push_back(text(in.get_view()));
          break;
        case 7:
          f.nodes.push_back(node(in.get_message()));
          break;
        case 9:
          f.opsets.push_back(opset(in.get_message()));
          break;
        case 10:
          f.domain = text(in.get_view());
          break;
        case 11:
          f.attribute_defaults.push_back(attribute(in.get_message()));
          break;
        case 13:
          f.overload = text(in.get_view());
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
          n.inputs.push_back(text(in.get_view()));
          break;
        case 2:
          n.outputs.push_back(text(in.get_view()));
          break;
        case 3:
          n.name = text(in.get_view());
          break;
        case 4:
          n.op = text(in.get_view());
          break;
        case 5:
          n.attributes.push_back(attribute(in.get_message()));
          break;
        case 7:
          n.domain = text(in.get_view());
          break;
        case 8:
          n.overload = text(in.get_view());
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
          a.name = text(in.get_view());
          break;
        case 2:
          a.f = in.get_float();
          seen = Kind::float_;
          break;
        case 3:
          a.i = as_int64(in);
          seen = Kind::int_;
          break;
        case 4:
          a.s = text(in.get_view());
          seen = Kind::string;
          break;
        case 5:
          a.t = std::make_shared<TensorProto>(tensor(in.get_message()));
          seen = Kind::tensor;
          break;
        case 6:
          a.g = std::make_shared<GraphProto>(graph(in.get_message()));
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
          a.strings.push_back(text(in.get_view()));
          seen = Kind::strings;
          break;
        case 20:
          a.kind = static_cast<Kind>(in.get_int32());
          break;
        case 21:
          a.reference = text(in.get_view());
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
          v.name = text(in.get_view());
          break;
        case 2:
          type(in.get_message(), v);
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
          tensor_type(in.get_message(), into);
          break;
        case 4:
          into.kind = ValueInfo::Kind::sequence;
          in.skip();
          break;
        case 9:
          into.kind = ValueInfo::Kind::optional;
          in.skip();
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

  void tensor_type(pbf_reader in, ValueInfo& into) {
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          into.type = element_type(in.get_int32());
          break;
        case 2:
          into.shape = shape(in.get_message());
          break;
        default:
          in.skip();
      }
    }
  }

  static std::vector<DimProto> shape(pbf_reader in) {
    std::vector<DimProto> dims;
    while (in.next()) {
      if (in.tag() == 1) {
        dims.push_back(dim(in.get_message()));
      } else {
        in.skip();
      }
    }
    return dims;
  }

  static DimProto dim(pbf_reader in) {
    DimProto d;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          d.value = as_int64(in);
          break;
        case 2:
          d.param = text(in.get_view());
          break;
        default:
          in.skip();
      }
    }
    return d;
  }

  std::string_view file_;
  int depth_ = 0;
};

// protozero throws its own exceptions for broken messages.
template <class Parse>
auto checked(std::span<const std::byte> bytes, std::string_view file, Parse&& parse) {
  try {
    Parser parser(file);
    return parse(parser, pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  } catch (const protozero::exception& e) {
    fail(ErrorKind::invalid_file, "{}: not a whole ONNX file ({})", file, e.what());
  }
}

}  // namespace

ModelProto parse_model(std::span<const std::byte> bytes, std::string_view file) {
  return checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.model(in); });
}

TensorProto parse_tensor(std::span<const std::byte> bytes, std::string_view file) {
  return checked(bytes, file, [](Parser& parser, pbf_reader in) { return parser.tensor(in); });
}

}  // namespace rlx::onnx
