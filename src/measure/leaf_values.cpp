#include "measure/leaf_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "base/fail.h"
#include "base/hash.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "ops/products/product_op.h"

namespace rlx::measure {
namespace {

using Ranges = std::map<int32_t, ValueRange>;

// What the ops that read leaves, directly or through views, want their values to be.
Ranges sensible_ranges(const Graph& graph) {
  Ranges found;
  for (const Node& n : graph.nodes()) {
    const std::vector<TensorType> types = input_types(graph, n);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      ValueId v = n.inputs[i];
      if (v.is_absent()) continue;
      while (graph.producer(v).op->has(Trait::view)) v = graph.producer(v).inputs[0];
      if (!graph.producer(v).op->is_leaf()) continue;
      const std::optional<ValueRange> wanted = n.op->sensible_values(static_cast<int64_t>(i), types);
      if (!wanted) continue;
      const auto [it, fresh] = found.try_emplace(v.node, *wanted);
      ValueRange& all = it->second;
      if (fresh || wanted->low > all.high || wanted->high < all.low)
        continue;  // the first of two that exclude each other
      all = {.low = std::max(all.low, wanted->low),
             .high = std::min(all.high, wanted->high),
             .positive_definite = all.positive_definite || wanted->positive_definite};
    }
  }
  return found;
}

// An int4 has fewer values than the i8 that carries it.
int64_t type_bound(onnx::ElementType type) {
  const int64_t bits = onnx::bits_of(type);
  if (!onnx::is_integer(type) || bits > 32) return INT64_MAX;
  return int64_t{1} << (onnx::is_unsigned(type) ? bits : bits - 1);
}

// More than this is not made up: nobody would wait for it.
constexpr int64_t kMostRandom = int64_t{1} << 30;

// Adds to the diagonals of square matrices what makes them dominant.
void make_positive_definite(const std::vector<int64_t>& dims, std::vector<double>& values) {
  const auto n = static_cast<size_t>(dims.back());
  for (size_t i = 0; i < values.size(); ++i) {
    if (i / n % n == i % n) values[i] += static_cast<double>(n);
  }
}

Tensor random_leaf(const Node& n, const ValueRange* range, uint64_t seed, onnx::ElementType carried) {
  const TensorType& type = n.outputs[0];
  const std::vector<int64_t> dims = type.shape.values();
  const auto count = static_cast<size_t>(type.shape.elements().value());
  if (type.shape.elements().value() > kMostRandom) {
    fail(ErrorKind::invalid_argument,
         "'{}' is {}, which has {} elements; random values are made for up to {} of them", n.name,
         type.text(), count, kMostRandom);
  }
  // The distributions of <random> differ between libraries; the engine itself does not.
  std::mt19937_64 engine(Hash().number(seed).text(n.name).value());
  if (is_float(value_dtype(type.dtype)) || type.dtype == DType::c64) {
    const bool complex = type.dtype == DType::c64;
    std::vector<double> values(complex ? 2 * count : count);
    const auto [low, high, positive_definite] = range ? *range : ValueRange{.low = -1, .high = 1};
    for (double& v : values) v = low + static_cast<double>(engine() >> 11) * 0x1p-53 * (high - low);
    if (positive_definite && dims.size() >= 2 && dims.back() == dims[dims.size() - 2])
      make_positive_definite(dims, values);
    if (!complex) return Tensor::from_doubles(type.dtype, dims, values);
    const std::vector<float> parts(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(type.dtype, dims, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  // Integers may be anything: few of them are too large for what they stand for.
  const ValueRange within = range ? *range : ValueRange{.low = 0, .high = 9};
  const auto first = static_cast<int64_t>(within.low);
  const int64_t last =
      std::min(static_cast<int64_t>(within.high), type.dtype == DType::bool_ ? 1 : type_bound(carried) - 1);
  const auto choices = static_cast<uint64_t>(std::max(last, first) - first + 1);
  std::vector<int64_t> values(count);
  for (int64_t& v : values) v = first + static_cast<int64_t>(engine() % choices);
  return Tensor::from_ints(type.dtype, dims, values);
}

}  // namespace

NamedTensors LeafValues::all() const {
  NamedTensors out = inputs;
  out.insert(params.begin(), params.end());
  return out;
}

LeafValues make_leaf_values(const Graph& graph, uint64_t seed, const NamedTensors& given,
                            const onnx::CarriedTypes& types) {
  LeafValues out;
  for_each_graph(graph, [&](const Graph& g) {
    const Ranges ranges = sensible_ranges(g);
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      // What bodies take is not given by callers, but their params are.
      const bool is_input = n.op->is(LeafKind::input) && &g == &graph;
      if ((!is_input && !n.op->is(LeafKind::param)) || out.params.contains(n.name)) continue;
      const auto value = given.find(n.name);
      const auto range = ranges.find(id);
      if (value == given.end()) out.random.push_back(n.name);
      (is_input ? out.inputs : out.params)
          .emplace(n.name, value != given.end()
                               ? value->second
                               : random_leaf(n, range == ranges.end() ? nullptr : &range->second, seed,
                                             onnx::type_in_file(types, n.name, n.outputs[0].dtype)));
    }
  });
  return out;
}

}  // namespace rlx::measure
