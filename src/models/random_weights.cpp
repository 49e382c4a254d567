#include <cmath>

#include "base/border.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "rlx/models.h"

namespace rlx::models {
namespace {

// SplitMix64: the n-th number of a stream costs the same as the first, so blocks can be drawn in parallel.
uint64_t random_bits(uint64_t seed, uint64_t n) {
  uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Mean 0, deviation 1: the sum of four 16-bit numbers is near enough to normal and needs no logarithm, which
// would take seconds for the 110 million weights of BERT-base.
double random_normal(uint64_t seed, uint64_t n) {
  const uint64_t bits = random_bits(seed, n);
  const double sum =
      static_cast<double>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
  return (sum - 2 * 65535.0) / (65536.0 * std::sqrt(4.0 / 12.0));
}

Tensor random_weight(const TensorType& type, uint64_t seed, double mean, double deviation) {
  const std::vector<int64_t> dims = type.shape.values();
  std::vector<float> values(static_cast<size_t>(type.shape.elements().value()));
  parallel_for(static_cast<int64_t>(values.size()), 1 << 18, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      values[static_cast<size_t>(i)] =
          static_cast<float>(mean + deviation * random_normal(seed, static_cast<uint64_t>(i)));
    }
  });
  if (type.dtype == DType::f32) return Tensor::of<float>(dims, values);
  return Tensor::from_doubles(type.dtype, dims, std::vector<double>(values.begin(), values.end()));
}

}  // namespace

namespace {

// LayerNorm.weight in BERT, input_layernorm.weight and norm.weight in Llama.
bool scales_a_norm(std::string_view name) {
  return name.ends_with("Norm.weight") || name.ends_with("norm.weight");
}

}  // namespace

NamedTensors random_weights(const Graph& graph, uint64_t seed, double deviation) try {
  NamedTensors out;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      if (!n.op->is(LeafKind::param)) continue;
      // A separate stream for each name: a weight does not change when others are added.
      const uint64_t stream = random_bits(seed, Hash().text(n.name).value());
      out.emplace(n.name, random_weight(n.outputs[0], stream, scales_a_norm(n.name) ? 1 : 0, deviation));
    }
  });
  return out;
} catch (...) {
  throw_as_error("making random weights");
}

}  // namespace rlx::models
