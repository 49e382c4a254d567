#include "measure/bench_cases.h"

#include <algorithm>

#include "ir/op.h"
#include "measure/leaf_values.h"
#include "measure/stopwatch.h"
#include "rlx/models.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/order.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/recurrent.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/resampling.h"
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

Graph matmul_of(int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {n, n}), g.input("b", DType::f32, {n, n})));
  return g;
}

// a [m, k] from the host, times a weight that lies as [k, n].
Graph linear(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {m, k}), g.param("w", DType::f32, {k, n})));
  return g;
}

// The weight lies as [n, k] and is read like that.
Graph matvec_nk() {
  Graph g;
  const Value w = g.param("w", DType::f32, {4096, 4096});
  g.output("y", matmul(g.input("a", DType::f32, {1, 4096}), transpose(w)));
  return g;
}

// m rows times a weight whose blocks lie along k, as in GGUF files.
template <DType kEncoding, int64_t kRows, int64_t kDepth>
Graph encoded() {
  Graph g;
  const Value w = g.param("w", kEncoding, {4096, kDepth});
  g.output("y", matmul(g.input("a", DType::f32, {kRows, kDepth}), transpose(w)));
  return g;
}

// How llama.cpp measures its products: the widest of a model of 8 billion weights.
constexpr int64_t kWide = 14336;

// 64 rows in turns over 8 experts. Constant, because random integers would also name experts that do not
// exist.
Graph grouped() {
  Graph g;
  std::vector<int64_t> experts(64);
  for (size_t i = 0; i < experts.size(); ++i) experts[i] = static_cast<int64_t>(i % 8);
  const Value expert = g.constant(Tensor::from_ints(DType::i64, {64}, experts));
  const Value w = g.param("w", DType::f32, {8, 512, 512});
  g.output("y", grouped_matmul(g.input("x", DType::f32, {64, 512}), w, expert));
  return g;
}

// `size` x `size` taps on an image of 56 x 56, which keeps its size.
Graph conv_of(int64_t channels, int64_t filters, int64_t size) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, channels, 56, 56});
  const Value w = g.param("w", DType::f32, {filters, channels, size, size});
  g.output("y", conv(x, w, {}, {.pads = std::vector<int64_t>(4, size / 2)}));
  return g;
}

Graph depthwise() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 256, 56, 56});
  const Value w = g.param("w", DType::f32, {256, 1, 3, 3});
  g.output("y", conv(x, w, {}, {.pads = {1, 1, 1, 1}, .groups = 256}));
  return g;
}

Graph softmax_rows() {
  Graph g;
  g.output("y", softmax(g.input("x", DType::f32, {4096, 768})));
  return g;
}

// Eight ops on 4 Mi floats: one dispatch when they are fused.
Graph elementwise_chain() {
  Graph g;
  const Value x = g.input("x", DType::f32, {4 << 20});
  const Value a = tanh(x * 1.5 + 0.25);
  const Value b = sigmoid(a) * a - x;
  g.output("y", sqrt(abs(b)));
  return g;
}

// What is made of a state of these many floats; only a little of it is read back.
Graph of_state(const Shape& dims, Value (*make)(Value)) {
  Graph g;
  g.output("y", slice(reshape(make(g.state("x", DType::f32, dims)), {-1}), 0, 0, 16));
  return g;
}

// --- What only moves memory: compare it with the triad ---

// Two thirds of the bytes are read, one third is written.
Graph triad() {
  Graph g;
  const Shape dims = {1, 64, 112, 112};
  const Value y = g.state("b", DType::f32, dims) + 3 * g.state("c", DType::f32, dims);
  g.output("y", slice(reshape(y, {-1}), 0, 0, 16));
  return g;
}
Value pool_3x3(Value x) { return max_pool(x, {3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}); }
Value pool_2x2(Value x) { return max_pool(x, {2, 2}, {.strides = {2, 2}}); }
Value pool_global(Value x) { return adaptive_avg_pool(x, {1, 1}); }
Value resize_nearest(Value x) {
  return resize(x, {.axes = {2, 3},
                    .scales = {2, 2},
                    .mode = ResizeMode::nearest,
                    .coordinates = ResizeCoordinates::asymmetric,
                    .rounding = ResizeRounding::floor});
}
Value resize_linear(Value x) { return resize(x, {.axes = {2, 3}, .scales = {2, 2}}); }
Value resize_smooth(Value x) { return resize(x, {.axes = {2, 3}, .sizes = {96, 96}, .antialias = true}); }
Graph of_image(int64_t channels, int64_t size, Value (*make)(Value)) {
  return of_state({1, channels, size, size}, make);
}
Value param_of(Value x, std::string_view name, int64_t size) {
  return x.graph().param(std::string(name), DType::f32, {size});
}
Value norm_of_groups(Value x) {
  return group_norm(x, 32, param_of(x, "gamma", 320), param_of(x, "beta", 320));
}
Value norm_of_channels(Value x) {
  return instance_norm(x, param_of(x, "gamma", 320), param_of(x, "beta", 320));
}
Value norm_of_rows(Value x) { return layer_norm(x, param_of(x, "gamma", 768), param_of(x, "beta", 768)); }
Value norm_of_batch(Value x) {
  return batch_norm(x, param_of(x, "mean", 64), param_of(x, "variance", 64), param_of(x, "gamma", 64),
                    param_of(x, "beta", 64));
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
  g.output("y", slice(reshape(made.y, {-1}), 0, 0, 16));
  return g;
}
Graph delta_net(int64_t n) {
  Graph g;
  const auto state = [&](const char* name, const Shape& shape) { return g.state(name, DType::f32, shape); };
  const Shape wide = {1, n, 8, 128}, narrow = {1, n, 8};
  const Scanned made = gated_delta_net(state("q", wide), state("k", wide), state("v", wide),
                                       state("g", narrow), state("beta", narrow));
  g.output("y", slice(reshape(made.y, {-1}), 0, 0, 16));
  return g;
}
// y = a + b c of n rows: as many bytes are read and written as by x, delta, z and y, or q, k, v and y.
Graph multiplied(int64_t n, int64_t width) {
  Graph g;
  const auto state = [&](const char* name) { return g.state(name, DType::f32, {n, width}); };
  g.output("y", slice(reshape(state("a") + state("b") * state("c"), {-1}), 0, 0, 16));
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

Graph bert_base() { return models::bert_encoder({}, 1, 128); }

constexpr int64_t kDecoded = 256;
Graph decoder() { return models::decoder_step({.capacity = kDecoded}); }
// The same for one length.
Graph decoder_at_128() { return bind_symbols(decoder(), {{"length", 128}}); }

constexpr double kMatvec = 2.0 * 4096 * 4096;
constexpr double kWideProduct = 2.0 * 4096 * kWide;
constexpr double kSmallM = 2.0 * 7 * 768 * 3072;
constexpr double kGrouped = 2.0 * 64 * 512 * 512;
constexpr double kConv3x3 = 2.0 * 56 * 56 * 64 * 64 * 9;
constexpr double kConv1x1 = 2.0 * 56 * 56 * 256 * 64;
constexpr double kDepthwise = 2.0 * 56 * 56 * 256 * 9;
constexpr double kCube512 = 2.0 * 512 * 512 * 512;
constexpr double kCube1024 = 2.0 * 1024 * 1024 * 1024;
// 12 layers of 128 tokens: four projections and two wide ones, and the two products of attention.
constexpr double kLstm = 2.0 * kSteps * (kUnits + kUnits) * 4 * kUnits;
constexpr double kBertBase =
    12.0 * 2 * (128.0 * 768 * 768 * 4 + 128.0 * 768 * 3072 * 2 + 2.0 * 128 * 128 * 768);

constexpr Case kCases[] = {
    {"add16", "add of 16 floats", add16, 0},
    {"matmul512", "matmul 512 x 512 x 512", [] { return matmul_of(512); }, kCube512},
    {"matmul1024", "matmul 1024 x 1024 x 1024", [] { return matmul_of(1024); }, kCube1024},
    {"matvec", "matmul 1 x 4096 x 4096", [] { return linear(1, 4096, 4096); }, kMatvec},
    {"matvec_nk", "the same, weight read as [n, k]", matvec_nk, kMatvec},
    {"matvec_q8_0", "the same, weight in q8_0", encoded<DType::q8_0, 1, 4096>, kMatvec},
    {"matvec_q8_1", "the same, weight in q8_1", encoded<DType::q8_1, 1, 4096>, kMatvec},
    {"matvec_q8_k", "the same, weight in q8_k", encoded<DType::q8_k, 1, 4096>, kMatvec},
    {"matvec_q6_k", "the same, weight in q6_k", encoded<DType::q6_k, 1, 4096>, kMatvec},
    {"matvec_q5_k", "the same, weight in q5_k", encoded<DType::q5_k, 1, 4096>, kMatvec},
    {"matvec_q5_0", "the same, weight in q5_0", encoded<DType::q5_0, 1, 4096>, kMatvec},
    {"matvec_q5_1", "the same, weight in q5_1", encoded<DType::q5_1, 1, 4096>, kMatvec},
    {"matvec_q4_k", "the same, weight in q4_k", encoded<DType::q4_k, 1, 4096>, kMatvec},
    {"matvec_q4_0", "the same, weight in q4_0", encoded<DType::q4_0, 1, 4096>, kMatvec},
    {"matvec_q4_1", "the same, weight in q4_1", encoded<DType::q4_1, 1, 4096>, kMatvec},
    {"matvec_q3_k", "the same, weight in q3_k", encoded<DType::q3_k, 1, 4096>, kMatvec},
    {"matvec_q2_k", "the same, weight in q2_k", encoded<DType::q2_k, 1, 4096>, kMatvec},
    {"matvec_iq4_nl", "the same, weight in iq4_nl", encoded<DType::iq4_nl, 1, 4096>, kMatvec},
    {"matvec_iq4_xs", "the same, weight in iq4_xs", encoded<DType::iq4_xs, 1, 4096>, kMatvec},
    {"matvec_iq3_s", "the same, weight in iq3_s", encoded<DType::iq3_s, 1, 4096>, kMatvec},
    {"matvec_iq3_xxs", "the same, weight in iq3_xxs", encoded<DType::iq3_xxs, 1, 4096>, kMatvec},
    {"matvec_iq2_s", "the same, weight in iq2_s", encoded<DType::iq2_s, 1, 4096>, kMatvec},
    {"matvec_iq2_xs", "the same, weight in iq2_xs", encoded<DType::iq2_xs, 1, 4096>, kMatvec},
    {"matvec_iq2_xxs", "the same, weight in iq2_xxs", encoded<DType::iq2_xxs, 1, 4096>, kMatvec},
    {"matvec_iq1_m", "the same, weight in iq1_m", encoded<DType::iq1_m, 1, 4096>, kMatvec},
    {"matvec_iq1_s", "the same, weight in iq1_s", encoded<DType::iq1_s, 1, 4096>, kMatvec},
    {"matvec_mxfp4", "the same, weight in mxfp4", encoded<DType::mxfp4, 1, 4096>, kMatvec},
    {"matvec_nvfp4", "the same, weight in nvfp4", encoded<DType::nvfp4, 1, 4096>, kMatvec},
    {"matvec_tq2_0", "the same, weight in tq2_0", encoded<DType::tq2_0, 1, 4096>, kMatvec},
    {"matvec_tq1_0", "the same, weight in tq1_0", encoded<DType::tq1_0, 1, 4096>, kMatvec},
    {"wide_matvec_f32", "matmul 1 x 14336 x 4096, weight in f32", encoded<DType::f32, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q8_0", "matmul 1 x 14336 x 4096, weight in q8_0", encoded<DType::q8_0, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q6_k", "matmul 1 x 14336 x 4096, weight in q6_k", encoded<DType::q6_k, 1, kWide>,
     kWideProduct},
    {"wide_matvec_q4_k", "matmul 1 x 14336 x 4096, weight in q4_k", encoded<DType::q4_k, 1, kWide>,
     kWideProduct},
    {"wide_matmul_f32", "matmul 512 x 14336 x 4096, weight in f32", encoded<DType::f32, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q8_0", "matmul 512 x 14336 x 4096, weight in q8_0", encoded<DType::q8_0, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q6_k", "matmul 512 x 14336 x 4096, weight in q6_k", encoded<DType::q6_k, 512, kWide>,
     512 * kWideProduct},
    {"wide_matmul_q4_k", "matmul 512 x 14336 x 4096, weight in q4_k", encoded<DType::q4_k, 512, kWide>,
     512 * kWideProduct},
    {"small_m", "matmul 7 x 768 x 3072", [] { return linear(7, 768, 3072); }, kSmallM},
    {"grouped", "64 rows x 512 x 512, 8 experts", grouped, kGrouped},
    {"conv3x3", "conv 3x3, 64 to 64 channels, 56 x 56", [] { return conv_of(64, 64, 3); }, kConv3x3},
    {"conv1x1", "conv 1x1, 256 to 64 channels, 56 x 56", [] { return conv_of(256, 64, 1); }, kConv1x1},
    {"depthwise3x3", "conv 3x3 of each of 256 channels, 56 x 56", depthwise, kDepthwise},
    {"triad", "b + 3 c, 64 channels, 112 x 112", triad, 0},
    {"max_pool", "max pool 3x3, stride 2, 64 channels, 112 x 112", [] { return of_image(64, 112, pool_3x3); },
     0},
    {"max_pool2x2", "max pool 2x2, stride 2, 64 channels, 224 x 224",
     [] { return of_image(64, 224, pool_2x2); }, 0},
    {"global_pool", "mean of each of 512 channels, 56 x 56", [] { return of_image(512, 56, pool_global); },
     0},
    {"resize_nearest", "nearest x2 of 64 channels, 56 x 56", [] { return of_image(64, 56, resize_nearest); },
     0},
    {"resize", "linear x2 of 64 channels, 56 x 56", [] { return of_image(64, 56, resize_linear); }, 0},
    {"resize_smooth", "antialiased, 64 channels, 224 x 224 to 96 x 96",
     [] { return of_image(64, 224, resize_smooth); }, 0},
    {"group_norm", "group norm of [1, 320, 64, 64], 32 groups",
     [] { return of_image(320, 64, norm_of_groups); }, 0},
    {"instance_norm", "the same, each channel a group", [] { return of_image(320, 64, norm_of_channels); },
     0},
    {"layer_norm", "layer norm of [4096, 768]", [] { return of_state({4096, 768}, norm_of_rows); }, 0},
    {"batch_norm", "batch norm of 64 channels, 112 x 112", [] { return of_image(64, 112, norm_of_batch); },
     0},
    {"softmax", "softmax of [4096, 768]", softmax_rows, 0},
    {"elementwise", "8 element-wise ops on 4 Mi floats", elementwise_chain, 0},
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
    {"decode", "12 small layers, cache longer in each run", decoder, 0, {"length", kDecoded}},
    {"decode_again", "the same at one length", decoder_at_128, 0},
    {"bert-base", "BERT-base, 12 layers, 128 tokens", bert_base, kBertBase},
};

}  // namespace

std::span<const Case> bench_cases() { return kCases; }

const Case* find_case(std::string_view name) {
  const auto it = std::ranges::find(kCases, name, &Case::name);
  return it == std::end(kCases) ? nullptr : it;
}

std::span<const std::string_view> onnx_cases() {
  static constexpr std::string_view kOnnx[] = {"add16",       "matmul512", "matmul1024", "matvec",
                                               "small_m",     "conv3x3",   "conv1x1",    "softmax",
                                               "elementwise", "bert-base"};
  return kOnnx;
}

namespace {

// Blocks of any bytes: encoding as many numbers would take minutes, and not every format can be encoded.
// Bytes below 64 make no f16 that is infinite, NaN or beyond 2.
Tensor random_blocks(const TensorType& type) {
  std::vector<std::byte> bytes(host_bytes_of(type.dtype, type.shape.elements().value()));
  uint64_t state = 1;
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<std::byte>(state >> 58);
  }
  return Tensor(type.dtype, type.shape.values(), std::move(bytes));
}

LeafValues case_values(const Graph& graph) {
  Graph plain;  // the params that are not encoded
  NamedTensors blocks;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::param)) continue;
    const TensorType& type = n.outputs[0];
    if (is_encoded(type.dtype)) {
      blocks.emplace(n.name, random_blocks(type));
    } else {
      plain.param(n.name, type.dtype, type.shape);
    }
  }
  LeafValues out{.inputs = make_leaf_values(graph, 1, blocks).inputs,
                 .params = models::random_weights(plain, 1)};
  out.params.merge(blocks);
  return out;
}

// With the values that params of the same names would have.
void fill_states(Executable& exe) {
  Graph like;
  for (const TensorInfo& s : exe.states()) like.param(s.name, s.type.dtype, s.type.shape);
  for (const auto& [name, value] : models::random_weights(like, 1)) exe.write_state(name, value);
}

}  // namespace

CaseRun run_case_graph(const Graph& graph, const Growing& growing, const Device& device, double seconds) {
  const LeafValues leaves = case_values(graph);
  CaseRun r;
  const Stopwatch watch;
  Executable exe = compile(graph, device);
  r.compile_ms = watch.ms();
  const Stopwatch upload_watch;
  for (const auto& [name, value] : leaves.params) exe.set_param(name, value);
  r.upload_ms = upload_watch.ms();
  fill_states(exe);
  SymbolValues symbols;
  if (growing.end > 1) symbols[std::string(growing.symbol)] = 1;
  r.time = measure_runs(exe, leaves.inputs, seconds, 2000, {&growing, symbols.size()});
  r.plan = exe.plan_report(symbols);
  return r;
}

double baseline_cpu_ms(const Baseline& beside, int64_t n, const Device& device, double seconds) {
  return beside.host_cpu_ms ? beside.host_cpu_ms(n)
                            : run_case_graph(beside.make(n), {}, device, seconds).time.cpu_ms;
}

}  // namespace rlx::measure
