#include "cli/leaf_values.h"

#include <algorithm>
#include <random>

#include "base/fail.h"
#include "base/hash.h"
#include "cli/arguments.h"
#include "ir/op.h"
#include "ir/operand_name.h"
#include "ir/subgraphs.h"

namespace rlx::cli {
namespace {

// Whether the operand is this leaf, or a view of it.
bool reads(const Graph& graph, ValueId v, int32_t leaf) {
  if (v.is_absent()) return false;
  while (graph.producer(v).op->has(Trait::view)) v = graph.producer(v).inputs[0];
  return v.node == leaf;
}

// Whether its bytes are exponents of scales, as mxfp4 has them. Small ones make weights below 2^-126, which
// devices may take for 0: products of them alone cannot be compared with anything.
bool holds_exponents(const Graph& graph, int32_t leaf) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& n) {
    if (!n.op->name().starts_with("dequant_")) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (operand_name(n.op->name(), static_cast<int64_t>(i)) != "scale" || !reads(graph, n.inputs[i], leaf))
        continue;
      return std::ranges::any_of(attributes(*n.op), [](const auto& attribute) {
        const auto* word = std::get_if<std::string>(&attribute.second);
        return attribute.first == "scheme" && word && *word == "mxfp4";
      });
    }
    return false;
  });
}

// Integers may be row numbers of a table: stay below the smallest table that they index, directly or through
// a view.
int64_t index_bound(const Graph& graph, int32_t leaf) {
  int64_t bound = 10;
  for (const Node& n : graph.nodes()) {
    if (n.op->name() != "gather" || n.inputs.size() < 2) continue;
    if (!reads(graph, n.inputs[1], leaf)) continue;
    int64_t axis = 0;
    for (const auto& [name, value] : attributes(*n.op)) {
      if (const auto* number = std::get_if<int64_t>(&value); name == "axis" && number) axis = *number;
    }
    const Shape& table = graph.type(n.inputs[0]).shape;
    const Dim& rows = table[axis < 0 ? axis + table.rank() : axis];
    if (rows.is_static()) bound = std::min(bound, rows.value());
  }
  return std::max<int64_t>(bound, 1);
}

// An int4 has fewer values than the i8 that carries it.
int64_t type_bound(onnx::ElementType type) {
  const int64_t bits = onnx::bits_of(type);
  if (!onnx::is_integer(type) || bits >= 8) return INT64_MAX;
  return int64_t{1} << (onnx::is_unsigned(type) ? bits : bits - 1);
}

// More than this is not made up: nobody would wait for it.
constexpr int64_t kMostRandom = int64_t{1} << 30;

Tensor random_leaf(const Graph& graph, int32_t id, uint64_t seed, onnx::ElementType carried) {
  const Node& n = graph.node(id);
  const TensorType& type = n.outputs[0];
  const std::vector<int64_t> dims = type.shape.values();
  const auto count = static_cast<size_t>(type.shape.elements().value());
  if (type.shape.elements().value() > kMostRandom) {
    throw Misuse(formatted("'{}' is {}, which has {} elements; random values are made for up to {} of them",
                           n.name, type.text(), count, kMostRandom));
  }
  // The distributions of <random> differ between libraries; the engine itself does not.
  std::mt19937_64 engine(Hash().number(seed).text(n.name).value());
  if (is_float(value_dtype(type.dtype)) || type.dtype == DType::c64) {
    const bool complex = type.dtype == DType::c64;
    std::vector<double> values(complex ? 2 * count : count);
    for (double& v : values) v = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
    if (!complex) return Tensor::from_doubles(type.dtype, dims, values);
    const std::vector<float> parts(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(type.dtype, dims, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  const auto bound = static_cast<uint64_t>(
      type.dtype == DType::bool_ ? 2 : std::min(index_bound(graph, id), type_bound(carried)));
  const int64_t first = holds_exponents(graph, id) ? 118 : 0;  // 127 stands for 1
  std::vector<int64_t> values(count);
  for (int64_t& v : values) v = first + static_cast<int64_t>(engine() % bound);
  return Tensor::from_ints(type.dtype, dims, values);
}

}  // namespace

NamedTensors LeafValues::all() const {
  NamedTensors out = inputs;
  out.insert(params.begin(), params.end());
  return out;
}

LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const NamedTensors& given,
                            const std::map<std::string, onnx::ElementType>& types) {
  LeafValues out;
  for_each_graph(graph, [&](const Graph& g) {
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      // What bodies take is not given by callers, but their params are.
      const bool is_input = n.op->is(LeafKind::input) && &g == &graph;
      if ((!is_input && !n.op->is(LeafKind::param)) || out.params.contains(n.name)) continue;
      const auto value = given.find(n.name);
      const auto type = types.find(n.name);
      if (value == given.end()) out.random.push_back(n.name);
      (is_input ? out.inputs : out.params)
          .emplace(n.name, value != given.end()
                               ? value->second
                               : random_leaf(g, id, seed,
                                             type == types.end() ? onnx::element_type_of(n.outputs[0].dtype)
                                                                 : type->second));
    }
  });
  return out;
}

}  // namespace rlx::cli
