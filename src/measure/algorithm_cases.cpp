#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "measure/case_groups.h"
#include "measure/measure.h"
#include "rlx/models.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/order.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/recurrent.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/run_sizes.h"
#include "rlx/ops/spectra.h"
#include "rlx/ops/state_space.h"

namespace rlx::measure {
namespace {

Graph add16() {
  Graph g;
  const Value a = g.input("a", DType::f32, {16});
  g.output("y", a + g.input("b", DType::f32, {16}));
  return g;
}

Graph negation(int64_t n) { return of_state({n}, neg); }
Graph running_sum(int64_t n) {
  return of_state({n}, [](Value x) { return cumsum(x); });
}
Graph running_maximum(int64_t n) {
  return of_state({n}, [](Value x) { return cummax(x); });
}
Graph sorted(int64_t n) {
  return of_state({n}, [](Value x) { return sort(x).values; });
}
Graph spectrum(int64_t n) {
  return of_state({n}, [](Value x) { return view_as_real(fft(x)); });
}
Graph half_spectrum(int64_t n) {
  return of_state({n}, [](Value x) { return view_as_real(rfft(x)); });
}
Graph complex_spectrum(int64_t n) {
  return of_state({n, 2}, [](Value x) { return view_as_real(fft(view_as_complex(x))); });
}
Graph top_50(int64_t n) {
  return of_state({n}, [](Value x) { return topk(x, 50).values; });
}
Graph middle(int64_t n) {
  Graph g;
  g.output("y", median(g.state("x", DType::f32, {n})));
  return g;
}
Graph different(int64_t n) {
  return of_state({n}, [](Value x) { return unique(x).values; });
}

// Rows of 16 floats, each added to one of a tenth as many. Which one looks random, and is computed when the
// weights are loaded.
constexpr int64_t kScattered = 16;
Graph scattered_rows(int64_t n) {
  Graph g;
  const int64_t targets = n / 10;
  const Value number = range(g, n, 1, 1, DType::i32);
  const Value row = mod(bitwise_xor(number * 40503, right_shift(number, 5)), static_cast<double>(targets));
  const Value x = g.state("x", DType::f32, {targets, kScattered});
  const Value updates = g.state("updates", DType::f32, {n, kScattered});
  const Value y = scatter_nd(x, reshape(row, {n, 1}), updates, ScatterReduction::add);
  g.output("y", slice(y, 0, 0, 1));
  return g;
}
Graph negated_rows(int64_t n) { return negation(n * kScattered); }

// A batch of n matrices.
Graph inverted(int64_t n) {
  Graph g;
  g.output("y", slice(inverse(g.state("x", DType::f32, {n, 64, 64})), 0, 0, 1));
  return g;
}
Graph determinants(int64_t n) {
  Graph g;
  g.output("y", det(g.state("x", DType::f32, {n, 64, 64})));
  return g;
}
Graph solved(int64_t n) {
  Graph g;
  g.output("y", solve(g.state("a", DType::f32, {n, 64, 64}), g.state("b", DType::f32, {n, 64})).x);
  return g;
}
Graph solved_alone(int64_t n) {
  Graph g;
  g.output("y", solve(g.state("a", DType::f32, {n, n}), g.state("b", DType::f32, {n})).x);
  return g;
}

// n steps of a Mamba layer (1536 channels, 16 states), and of a gated delta net (8 heads of 128 keys and
// values).
constexpr int64_t kChannels = 1536, kStates = 16;
Graph selective(int64_t n) {
  Graph g;
  const auto state = [&](const char* name, int64_t width) {
    return g.state(name, DType::f32, {1, n, width});
  };
  const Value a = g.param("a", DType::f32, {kChannels, kStates});
  const Scanned made = selective_scan(
      state("x", kChannels), state("delta", kChannels), a, state("b", kStates), state("c", kStates),
      {.d = g.param("d", DType::f32, {kChannels}), .z = state("z", kChannels)});
  output_start(g, made.y);
  return g;
}
Graph delta_net(int64_t n) {
  Graph g;
  const auto state = [&](const char* name, const Shape& shape) { return g.state(name, DType::f32, shape); };
  const Shape wide = {1, n, 8, 128}, narrow = {1, n, 8};
  const Scanned made = gated_delta_net(state("q", wide), state("k", wide), state("v", wide),
                                       state("g", narrow), state("beta", narrow));
  output_start(g, made.y);
  return g;
}
// y = a + b c of n rows: as many bytes are read and written as by x, delta, z and y, or q, k, v and y.
Graph multiplied(int64_t n, int64_t width) {
  Graph g;
  const auto state = [&](const char* name) { return g.state(name, DType::f32, {n, width}); };
  output_start(g, state("a") + state("b") * state("c"));
  return g;
}
Graph multiplied_channels(int64_t n) { return multiplied(n, kChannels); }
Graph multiplied_heads(int64_t n) { return multiplied(n, 8 * 128); }

double sort_on_host(int64_t n) {
  Graph like;
  like.param("x", DType::f32, {n});
  const NamedTensors random = models::random_weights(like, 1);
  const std::span<const float> all = random.at("x").span<float>();
  std::vector<double> times;
  while (times.size() < 3) {
    std::vector<float> values(all.begin(), all.end());
    const double before = process_cpu_ms();
    std::ranges::sort(values);
    times.push_back(process_cpu_ms() - before);
  }
  std::ranges::sort(times);
  return times[1];
}

constexpr Baseline kNegation{"a negation of as many floats", negation};
constexpr Baseline kHostSort{"std::sort on one core", nullptr, sort_on_host};
constexpr Scaled kNegate{10'000'000, negation};
constexpr Scaled kCumsum{10'000'000, running_sum, kNegation};
constexpr Scaled kCummax{10'000'000, running_maximum, kNegation};
constexpr Scaled kSort{1'000'000, sorted, kHostSort};
constexpr Scaled kFft{1 << 20, spectrum, kNegation};
constexpr Scaled kRfft{1 << 20, half_spectrum, kNegation};
constexpr Scaled kComplexFft{1 << 20, complex_spectrum, kNegation};
constexpr Scaled kMedian{1'000'000, middle, kHostSort};
constexpr Scaled kTopK{150'000, top_50, kNegation};
constexpr Scaled kUnique{1'000'000, different, kHostSort};
constexpr Scaled kScatterAdd{
    1'000'000, scattered_rows, {"a negation of as many rows", negated_rows}, 1000, 1'000'000};
constexpr Scaled kInverse{1000, inverted, {}, 1, 1000};
constexpr Scaled kDet{1000, determinants, {}, 1, 1000};
constexpr Scaled kSelectiveScan{1024, selective, {"a + b c of the same bytes", multiplied_channels}, 1, 4096};
constexpr Scaled kGatedDelta{1024, delta_net, {"a + b c of the same bytes", multiplied_heads}, 1, 4096};
constexpr Scaled kSolve{1000, solved, {}, 1, 1000};
constexpr Scaled kSolveAlone{512, solved_alone, {}, 1, 1000};

// A token of 150,000, as a decoder draws it.
Graph token(const SampleOptions& options) {
  Graph g;
  const Value seed = g.input("seed", DType::u32, {2});
  g.output("y", sample(g.state("logits", DType::f32, {1, 150'000}), seed, options));
  return g;
}

// 64 steps of 256 units from 256 inputs.
constexpr int64_t kSteps = 64, kUnits = 256;
Graph lstm_of(int64_t batch) {
  Graph g;
  const Value x = g.input("x", DType::f32, {kSteps, batch, kUnits});
  const Value w = g.param("w", DType::f32, {1, 4 * kUnits, kUnits});
  const Value r = g.param("r", DType::f32, {1, 4 * kUnits, kUnits});
  const LstmOutputs made = lstm(x, w, r, {.bias = g.param("bias", DType::f32, {1, 8 * kUnits})});
  g.output("y", made.y);
  g.output("h", made.h);
  g.output("c", made.c);
  return g;
}

// Only the products of the same: that of all inputs, and one for each step, of what the one before it made.
Graph lstm_products(int64_t batch) {
  Graph g;
  const Value x = g.input("x", DType::f32, {kSteps * batch, kUnits});
  const Value r = g.param("r", DType::f32, {kUnits, 4 * kUnits});
  g.output("gates", matmul(x, g.param("w", DType::f32, {kUnits, 4 * kUnits})));
  Value h = slice(x, 0, 0, batch);
  for (int64_t step = 0; step < kSteps; ++step) h = slice(matmul(h, r), 1, 0, kUnits);
  g.output("h", h);
  return g;
}

// 12 layers of 128 tokens: four projections and two wide ones, and the two products of attention.
constexpr double kLstm = 2.0 * kSteps * (kUnits + kUnits) * 4 * kUnits;
constexpr Case kCases[] = {
    {"add16", "add of 16 floats", add16, 0},
    {"negate", "negation of 10 M floats", nullptr, 0, {}, kNegate},
    {"cumsum", "running sum of 10 M floats", nullptr, 0, {}, kCumsum},
    {"cummax", "running maximum of 10 M floats", nullptr, 0, {}, kCummax},
    {"fft", "Fourier transform of 2^20 floats", nullptr, 0, {}, kFft},
    {"rfft", "half of its bins", nullptr, 0, {}, kRfft},
    {"fft_c64", "Fourier transform of 2^20 complex numbers", nullptr, 0, {}, kComplexFft},
    {"sort", "sort of 1 M floats", nullptr, 0, {}, kSort},
    {"median", "median of 1 M floats", nullptr, 0, {}, kMedian},
    {"topk", "top 50 of 150,000 floats", nullptr, 0, {}, kTopK},
    {"unique", "different ones of 1 M floats", nullptr, 0, {}, kUnique},
    {"scatter_add", "1 M rows of 16 floats added to 100,000", nullptr, 0, {}, kScatterAdd},
    {"inverse", "inverse of 1,000 matrices 64 x 64", nullptr, 0, {}, kInverse},
    {"det", "determinant of 1,000 matrices 64 x 64", nullptr, 0, {}, kDet},
    {"selective_scan", "1,024 steps, 1536 channels, 16 states", nullptr, 0, {}, kSelectiveScan},
    {"gated_delta", "1,024 steps, 8 heads, state 128 x 128", nullptr, 0, {}, kGatedDelta},
    {"solve64", "solution of 1,000 systems 64 x 64", nullptr, 0, {}, kSolve},
    {"solve512", "solution of one system 512 x 512", nullptr, 0, {}, kSolveAlone},
    {"sample", "token of 150,000, top_k 50, top_p 0.9", [] { return token({.top_k = 50, .top_p = 0.9}); }, 0},
    {"sample_top_p", "the same without top_k", [] { return token({.top_p = 0.9}); }, 0},
    {"sample_all", "the same without filters", [] { return token({}); }, 0},
    {"lstm", "lstm, 64 steps, batch 8, 256 to 256", [] { return lstm_of(8); }, 8 * kLstm},
    {"lstm_products", "only the products of it", [] { return lstm_products(8); }, 8 * kLstm},
    {"lstm1", "lstm, 64 steps, batch 1, 256 to 256", [] { return lstm_of(1); }, kLstm},
    {"lstm1_products", "only the products of it", [] { return lstm_products(1); }, kLstm},
};

}  // namespace

std::span<const Case> algorithm_cases() { return kCases; }

}  // namespace rlx::measure
