#include "tests/support/random_graph.h"

#include <algorithm>
#include <random>

#include "ops/elementwise/elementwise.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/order.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

class Generator {
 public:
  Generator(uint32_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  RandomGraph make() {
    dtype_ = pick(4) == 0 ? DType::f16 : DType::f32;
    // Sizes that make broadcasting, odd tails and whole vec4s all likely.
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 31, 64};
    for (int64_t& d : dims_) d = kSizes[pick(std::size(kSizes))];
    const int64_t leaves = 2 + pick(3);
    for (int64_t i = 0; i < leaves; ++i) leaf(i % 2 == 0);
    const int64_t nodes = 3 + pick(10);
    for (int64_t i = 0; i < nodes; ++i) {
      const Value v = step();
      if (v && v.shape().elements().value() <= 20000) pool_.push_back(v);
    }
    out_.graph.output("y", pool_.back());
    if (pick(2) == 0) out_.graph.output("z", pool_[pick(pool_.size())]);
    return std::move(out_);
  }

 private:
  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  Value any() { return pool_[pick(pool_.size())]; }

  std::vector<int64_t> shape() {
    std::vector<int64_t> s;
    for (size_t r = 1 + pick(3), i = 0; i < r; ++i) s.push_back(pick(4) == 0 ? 1 : dims_[3 - r + i]);
    return s;
  }

  void leaf(bool input) {
    const std::vector<int64_t> s = shape();
    const std::string name = std::string(input ? "in" : "param") + std::to_string(pool_.size());
    pool_.push_back(input ? out_.graph.input(name, dtype_, Shape(s))
                          : out_.graph.param(name, dtype_, Shape(s)));
    out_.leaves[name] = random_tensor(dtype_, s, -1, 1, random_);
  }

  Value param(const std::string& prefix, const std::vector<int64_t>& s, double low, double high) {
    const std::string name = prefix + std::to_string(out_.graph.size());
    out_.leaves[name] = random_tensor(dtype_, s, low, high, random_);
    return out_.graph.param(name, dtype_, Shape(s));
  }

  // By channels, so that it may become part of the filters.
  Value normalised(Value y, ConvLayout layout) {
    const int64_t axis = layout == ConvLayout::channels_last ? y.shape().rank() - 1 : 1;
    const int64_t n = y.shape()[axis].value();
    const Value mean = param("mean", {n}, -1, 1);
    const Value variance = param("variance", {n}, 0.5, 2);
    return batch_norm(y, mean, variance, param("gamma", {n}, -0.5, 0.5), {}, 1e-3, axis);
  }

  Value pooled(Value x, ConvLayout layout) {
    std::vector<int64_t> kernel;
    PoolOptions options{.ceil_mode = pick(2) == 0, .layout = layout};
    for (int64_t i = 0; i < x.shape().rank() - 2; ++i) {
      const int64_t size = x.shape()[i + (layout == ConvLayout::channels_last ? 1 : 2)].value();
      kernel.push_back(std::min(size, 1 + static_cast<int64_t>(pick(3))));
      options.strides.push_back(1 + static_cast<int64_t>(pick(2)));
    }
    return pick(2) == 0 ? max_pool(x, kernel, options) : avg_pool(x, kernel, options);
  }

  // One or two convolutions of x, as [batch, channels, spatial..], whose weights may be joined and packed.
  Value convolution(Value x) {
    const int64_t rank = x.shape().rank();
    if (rank == 0) return {};
    if (rank < 3)
      x = reshape(
          x, rank == 1 ? std::vector<int64_t>{1, 1, -1} : std::vector<int64_t>{1, x.shape()[0].value(), -1});
    ConvOptions options;
    options.layout = pick(3) == 0 ? ConvLayout::channels_last : ConvLayout::channels_first;
    const bool last = options.layout == ConvLayout::channels_last;
    const int64_t spatial = x.shape().rank() - 2;
    if (spatial > 3) return {};
    const int64_t channels = x.shape()[last ? spatial + 1 : 1].value();
    options.groups = pick(4) == 0 ? channels : 1;
    std::vector<int64_t> after;
    std::vector<int64_t> kernel;
    for (int64_t i = 0; i < spatial; ++i) {
      kernel.push_back(1 + static_cast<int64_t>(pick(3)));
      options.strides.push_back(1 + static_cast<int64_t>(pick(2)));
      options.dilations.push_back(1 + static_cast<int64_t>(pick(2)));
      // Enough for the kernel to fit.
      const int64_t covered = (kernel.back() - 1) * options.dilations.back() + 1;
      const int64_t missing = std::max<int64_t>(covered - x.shape()[i + (last ? 1 : 2)].value(), 0);
      options.pads.push_back(missing + static_cast<int64_t>(pick(2)));
      after.push_back(static_cast<int64_t>(pick(3)));
    }
    options.pads.insert(options.pads.end(), after.begin(), after.end());
    const auto one = [&](int64_t filters) {
      std::vector<int64_t> dims = {filters * options.groups, channels / options.groups};
      dims.insert(dims.end(), kernel.begin(), kernel.end());
      const double terms = static_cast<double>(product(dims)) / static_cast<double>(dims[0]);
      const Value w = param("filters", dims, -1 / terms, 1 / terms);
      const Value y = conv(x, w, pick(2) == 0 ? param("bias", {dims[0]}, -1, 1) : Value{}, options);
      // In f16 it has a cast at its end after expansion, which the reference rounds for.
      return dtype_ == DType::f32 && pick(3) == 0 ? normalised(y, options.layout) : y;
    };
    const Value y = one(1 + static_cast<int64_t>(pick(8)));
    if (pick(3) == 0) return pooled(y, options.layout);
    if (pick(2) == 0) return y;
    return concat({y, one(1 + static_cast<int64_t>(pick(5)))}, last ? spatial + 1 : 1);
  }

  // The last axis of x times one of some weights, chosen by row.
  Value experts(Value x) {
    const int64_t rank = x.shape().rank();
    if (rank == 0) return {};
    std::vector<int64_t> rows = x.shape().values();
    const int64_t k = rows.back();
    rows.pop_back();
    const auto count = 1 + static_cast<int64_t>(pick(4));
    const Tensor chosen = random_tensor(DType::i32, rows, -1, static_cast<double>(count), random_);
    const double bound = 1 / static_cast<double>(k);
    return grouped_matmul(x, param("experts", {count, k, 1 + static_cast<int64_t>(pick(9))}, -bound, bound),
                          out_.graph.constant(chosen));
  }

  // Another value that broadcasts with x, or x itself.
  Value partner(Value x) {
    for (int tries = 0; tries < 8; ++tries) {
      const Value y = any();
      const Shape& a = x.shape();
      const Shape& b = y.shape();
      bool fits = true;
      for (int64_t i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
        const Dim& p = a[a.rank() - i];
        const Dim& q = b[b.rank() - i];
        fits &= p == q || p.is(1) || q.is(1);
      }
      if (fits) return y;
    }
    return x;
  }

  // An input of integers from 0 to `most`.
  Value integers(const std::vector<int64_t>& s, double most) {
    const std::string name = "in_integers" + std::to_string(out_.graph.size());
    out_.leaves[name] = random_tensor(DType::i32, s, 0, most, random_);
    return out_.graph.input(name, DType::i32, Shape(s));
  }

  Value branch(Value x) {
    const Value y = partner(x);
    const auto body = [&](std::string_view function) {
      Graph g;
      g.name = function;
      const Value a = g.input("a", dtype_, x.shape());
      const Value b = g.input("b", dtype_, y.shape());
      g.output("r", apply_function(function, {a, b}) * 0.5);
      return g;
    };
    return if_else(integers({}, 1), {x, y}, body("add"), body("sub"))[0];
  }

  // x becomes tanh(x / 2 + c) some times, where c is the mean of another value, plus a param if there is one.
  Graph loop_body(Value x, bool goes_on, bool slices) {
    Graph body;
    body.name = "step";
    const Value i = body.input("i", DType::i32, {});
    const Value carried = body.input("x", dtype_, x.shape());
    Value shift = body.input("c", dtype_, {});
    if (pick(2) == 0) {
      const std::string name = "body_param" + std::to_string(out_.graph.size());
      out_.leaves[name] = random_tensor(dtype_, {}, -1, 1, random_);
      shift = shift + body.param(name, dtype_, {});
    }
    const Value next = tanh(carried * 0.5 + shift);
    body.output("more", goes_on ? body.scalar(DType::bool_, 1) : less(i, 2));
    body.output("next", next);
    if (slices) body.output("slice", next * 0.5);
    return body;
  }

  Value looped(Value x) {
    LoopOptions options;
    options.captured = {mean(any())};
    switch (pick(3)) {
      case 0:
        options.trips = integers({}, 4);
        return loop({x}, loop_body(x, pick(2) == 0, false), options)[0];
      case 1:
        options.exactly = Dim(1 + pick(3));
        return loop({x}, loop_body(x, true, true), options)[1];
      default:
        options.trips = integers({}, 4);
        options.count = "trips" + std::to_string(out_.graph.size());
        options.capacity = 4;
        return sum(loop({x}, loop_body(x, pick(2) == 0, true), options)[1], {0});
    }
  }

  Value scanned(Value x) {
    if (x.shape().rank() == 0) return {};
    Shape slice = x.shape();
    slice.erase(0);
    Graph body;
    const Value carried = body.input("carried", dtype_, slice);
    const Value next = carried * 0.5 + tanh(body.input("slice", dtype_, slice));
    body.output("carried", next);
    body.output("all", next * 0.5);
    const Value zero = out_.graph.constant(Tensor::full(dtype_, slice.values(), 0));
    return scan({zero}, {x}, body)[pick(2)];
  }

  // The mean of some rows.
  Value some_rows(Value x) {
    if (x.shape().rank() == 0) return {};
    const int64_t rows = x.shape()[0].value();
    const std::string symbol = "kept" + std::to_string(out_.graph.size());
    const Value found = nonzero(integers({rows}, 1), symbol).indices;
    const Value kept = gather(x, reshape(found, {Dim(symbol)}));
    return sum(kept, {0}) * (1 / static_cast<double>(rows));
  }

  Value control_flow(Value x) {
    switch (pick(4)) {
      case 0:
        return branch(x);
      case 1:
        return looped(x);
      case 2:
        return scanned(x);
      default:
        return some_rows(x);
    }
  }

  Value step() {
    const Value x = any();
    const int64_t rank = x.shape().rank();
    if (options_.control_flow && pick(4) == 0) return control_flow(x);
    switch (pick(19)) {
      case 0:
      case 1: {
        static constexpr std::string_view kUnary[] = {"tanh", "sigmoid", "relu", "neg", "abs",
                                                      "gelu", "silu",    "sin",  "cos", "erf"};
        return apply_function(kUnary[pick(std::size(kUnary))], {x});
      }
      case 2:
      case 3: {
        static constexpr std::string_view kBinary[] = {"add", "sub", "maximum", "minimum"};
        return apply_function(kBinary[pick(std::size(kBinary))], {x, partner(x)}) * 0.5;
      }
      case 4:
        return tanh(x) * tanh(partner(x));
      case 5: {
        std::vector<int64_t> perm(static_cast<size_t>(rank));
        for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
        std::ranges::shuffle(perm, random_);
        return transpose(x, perm);
      }
      case 6:
        return rank > 0 ? reshape(x, {-1}) : reshape(x, {1, 1});
      case 7: {
        if (rank == 0) return {};
        const auto axis = static_cast<int64_t>(pick(static_cast<size_t>(rank)));
        const int64_t size = x.shape()[axis].value();
        if (size < 2) return {};
        const auto start = static_cast<int64_t>(pick(static_cast<size_t>(size - 1)));
        return slice(x, axis, start, 1 + static_cast<int64_t>(pick(static_cast<size_t>(size - start))));
      }
      case 8:
        return rank > 0 ? softmax(x, static_cast<int64_t>(pick(static_cast<size_t>(rank)))) : Value{};
      case 9: {
        if (rank == 0) return {};
        const auto axis = static_cast<int64_t>(pick(static_cast<size_t>(rank)));
        return pick(2) ? mean(x, {axis}, pick(2) == 0) : max(x, {axis}, pick(2) == 0);
      }
      case 10: {
        if (rank < 2) return {};
        std::vector<int64_t> swapped;
        for (int64_t i = 0; i < rank; ++i) swapped.push_back(i);
        std::swap(swapped[static_cast<size_t>(rank) - 1], swapped[static_cast<size_t>(rank) - 2]);
        const double k = static_cast<double>(x.shape()[rank - 1].value());
        return matmul(x, transpose(x, swapped)) * (1 / k);
      }
      case 11: {
        if (rank == 0) return {};
        const int64_t n = x.shape()[rank - 1].value();
        return tanh(rms_norm(x, param("gamma", {n}, 0.5, 1), {}, 0.1));
      }
      case 12:
        return rank > 0 ? concat({x, x * 0.5}, static_cast<int64_t>(pick(static_cast<size_t>(rank))))
                        : Value{};
      case 13:
      case 14:
        return convolution(x);
      case 15:
        return experts(x);
      case 16: {
        if (rank == 0) return {};
        const auto axis = static_cast<int64_t>(pick(static_cast<size_t>(rank)));
        if (pick(2)) return sort(x, axis, pick(2) == 0).values;
        const auto n = static_cast<double>(x.shape()[axis].value());
        return cumsum(x, axis, pick(2) == 0, pick(2) == 0) * (1 / n);
      }
      case 17: {
        if (rank == 0) return {};
        if (dtype_ == DType::f32 && pick(2))  // its size, by its bits
          return bitcast(bitwise_and(bitcast(x, DType::i32), 0x7fffffff), DType::f32);
        return median(
            x, {.axes = {static_cast<int64_t>(pick(static_cast<size_t>(rank)))}, .keepdims = pick(2) == 0});
      }
      default:
        return where(less(x, out_.graph.scalar(dtype_, 100)), x, x * 2.0);
    }
  }

  std::mt19937 random_;
  RandomGraphOptions options_;
  DType dtype_ = DType::f32;
  int64_t dims_[3] = {};
  std::vector<Value> pool_;
  RandomGraph out_;
};

}  // namespace

RandomGraph random_graph(uint32_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).make();
}

Tolerance graph_tolerance(const Graph& graph, double scale) {
  double longest = 1;
  bool half = false;
  for (const Node& n : graph.nodes()) {
    for (const TensorType& t : n.outputs) {
      half |= t.dtype == DType::f16;
      for (const Dim& d : t.shape) {
        if (d.is_static()) longest = std::max(longest, static_cast<double>(d.value()));
      }
    }
  }
  // Each node adds a few roundings of its result; with f16 tensors they are roundings to f16.
  const double unit = half ? epsilon(DType::f16) / epsilon(DType::f32) : 4;
  return {.ulps = 4 * unit * graph.size(), .terms = longest, .scale = scale};
}

}  // namespace rlx::testing
