#include "measure/case_groups.h"

#include <string>
#include <string_view>
#include <vector>

#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/resampling.h"

namespace rlx::measure {
namespace {

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

// Two thirds of the bytes are read, one third is written.
Graph triad() {
  Graph g;
  const Shape dims = {1, 64, 112, 112};
  output_start(g, g.state("b", DType::f32, dims) + 3 * g.state("c", DType::f32, dims));
  return g;
}

// --- Images ---

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
// All of it is one group.
Value norm_of_all(Value x) { return group_norm(x, 1, param_of(x, "gamma", 512), param_of(x, "beta", 512)); }

// --- Rearranging ---

Graph transposed(const Shape& dims, const std::vector<int64_t>& perm) {
  Graph g;
  output_start(g, transpose(g.state("x", DType::f32, dims), perm));
  return g;
}

// Two of these along an axis.
Graph joined(const Shape& dims, int64_t axis) {
  Graph g;
  output_start(g, concat({g.state("a", DType::f32, dims), g.state("b", DType::f32, dims)}, axis));
  return g;
}

// Rows of BERT's table of words.
Graph embedded(int64_t words) {
  Graph g;
  const Value ids = g.input("ids", DType::i64, {words});
  output_start(g, gather(g.param("table", DType::f32, {30522, 768}), ids));
  return g;
}

// --- Reductions ---

Graph sum_of(const Shape& dims, const std::vector<int64_t>& axes) {
  Graph g;
  g.output("y", sum(g.state("x", DType::f32, dims), axes));
  return g;
}

Graph softmax_of_columns() {
  return of_state({64, 128, 1024}, [](Value x) { return softmax(x, 1); });
}

constexpr Case kCases[] = {
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
    {"group_norm1", "group norm of [1, 512, 5300], one group",
     [] { return of_state({1, 512, 5300}, norm_of_all); }, 0},
    {"layer_norm", "layer norm of [4096, 768]", [] { return of_state({4096, 768}, norm_of_rows); }, 0},
    {"batch_norm", "batch norm of 64 channels, 112 x 112", [] { return of_image(64, 112, norm_of_batch); },
     0},
    {"softmax", "softmax of [4096, 768]", softmax_rows, 0},
    {"softmax_axis1", "softmax of [64, 128, 1024] along axis 1", softmax_of_columns, 0},
    {"sum_rows", "sum of each row of [4096, 768]", [] { return sum_of({4096, 768}, {1}); }, 0},
    {"sum_columns", "sum of each column of [4096, 768]", [] { return sum_of({4096, 768}, {0}); }, 0},
    {"sum_all", "sum of 4 Mi floats", [] { return sum_of({4 << 20}, {}); }, 0},
    {"transpose", "transpose of [2048, 2048]", [] { return transposed({2048, 2048}, {1, 0}); }, 0},
    {"transpose_batch", "transpose of 12 matrices [128, 64]",
     [] { return transposed({12, 128, 64}, {0, 2, 1}); }, 0},
    {"transpose_heads", "transpose of [128, 12, 64] to heads first",
     [] { return transposed({128, 12, 64}, {1, 0, 2}); }, 0},
    {"transpose_nhwc", "transpose of [1, 64, 112, 112] to channels last",
     [] { return transposed({1, 64, 112, 112}, {0, 2, 3, 1}); }, 0},
    {"concat_last", "concat of two [4096, 384], last axis", [] { return joined({4096, 384}, 1); }, 0},
    {"concat_first", "concat of two [2048, 768], first axis", [] { return joined({2048, 768}, 0); }, 0},
    {"concat_channels", "concat of two [1, 32, 112, 112], channels",
     [] { return joined({1, 32, 112, 112}, 1); }, 0},
    {"gather128", "gather of 128 rows of [30522, 768]", [] { return embedded(128); }, 0},
    {"gather4096", "gather of 4,096 rows of [30522, 768]", [] { return embedded(4096); }, 0},
    {"elementwise", "8 element-wise ops on 4 Mi floats", elementwise_chain, 0},
};

}  // namespace

std::span<const Case> memory_cases() { return kCases; }

}  // namespace rlx::measure
