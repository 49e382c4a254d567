#include "measure/case_groups.h"

#include <vector>

#include "rlx/ops/convolution.h"

namespace rlx::measure {
namespace {

// `size` x `size` taps on an image of 56 x 56, which keeps its size.
Graph conv_of(int64_t channels, int64_t filters, int64_t size) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, channels, 56, 56});
  const Value w = g.param("w", DType::f32, {filters, channels, size, size});
  g.output("y", conv(x, w, {}, {.pads = std::vector<int64_t>(4, size / 2)}));
  return g;
}

// A filter of 3 x 3 for each of 256 channels.
Graph depthwise(int64_t stride) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 256, 56, 56});
  const Value w = g.param("w", DType::f32, {256, 1, 3, 3});
  g.output("y", conv(x, w, {}, {.strides = {stride, stride}, .pads = {1, 1, 1, 1}, .groups = 256}));
  return g;
}

// The same along time, as a Conformer has it.
Graph depthwise_in_time() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 256, 1000});
  const Value w = g.param("w", DType::f32, {256, 1, 31});
  g.output("y", conv(x, w, {}, {.pads = {15, 15}, .groups = 256}));
  return g;
}

// A spectrogram as a convolution: 5 seconds of 16,000 samples.
constexpr int64_t kSamples = 80'000, kWindow = 512, kHop = 160, kFilters = 258;
Graph conv_of_sound() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 1, kSamples});
  g.output("y", conv(x, g.param("w", DType::f32, {kFilters, 1, kWindow}), {}, {.strides = {kHop}}));
  return g;
}

constexpr double kStft = 2.0 * kFilters * kWindow * ((kSamples - kWindow) / kHop + 1);
constexpr double kConv3x3 = 2.0 * 56 * 56 * 64 * 64 * 9;
constexpr double kConv1x1 = 2.0 * 56 * 56 * 256 * 64;
constexpr double kDepthwise = 2.0 * 56 * 56 * 256 * 9;

constexpr Case kCases[] = {
    {"conv3x3", "conv 3x3, 64 to 64 channels, 56 x 56", [] { return conv_of(64, 64, 3); }, kConv3x3},
    {"conv1x1", "conv 1x1, 256 to 64 channels, 56 x 56", [] { return conv_of(256, 64, 1); }, kConv1x1},
    {"depthwise3x3", "conv 3x3 of each of 256 channels, 56 x 56", [] { return depthwise(1); }, kDepthwise},
    {"depthwise3x3_s2", "the same with stride 2", [] { return depthwise(2); }, kDepthwise / 4},
    {"depthwise31", "conv 31 of each of 256 channels, 1,000 steps", depthwise_in_time, 2.0 * 256 * 1000 * 31},
    {"conv_stft", "conv 512, stride 160, 1 to 258 channels, 80,000 samples", conv_of_sound, kStft},
};

}  // namespace

std::span<const Case> conv_cases() { return kCases; }

}  // namespace rlx::measure
