// What a function of rlx/ops.h does when it is told nothing more is what the op of the text form does then.
// (docs/ops.md states the defaults of the attributes; a test of `rlx ops` compares it with them.)
#include <gtest/gtest.h>

#include <functional>

#include "ir/op.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/order.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/resampling.h"

namespace rlx {
namespace {

struct Default {
  std::string_view call;  // with what must be given
  std::function<Value(const std::vector<Value>&)> make;
};

// x is an image, w filters, m a matrix, v a vector, i indices, s a seed.
constexpr std::string_view kLeaves =
    "%x = input : f32[2, 4, 8, 8]\n%m = input : f32[6, 6]\n%v = input : f32[4]\n%i = input : i64[6, 6]\n"
    "%w = input : f32[4, 4, 3, 3]\n%s = input : i64[]\n";
enum Leaf : uint8_t { kX, kM, kV, kI, kW, kS };

using In = const std::vector<Value>&;

const Default kDefaults[] = {
    {"max_pool(%x) {kernel=[2,2]}", [](In in) { return max_pool(in[kX], {2, 2}); }},
    {"min_pool(%x) {kernel=[2,2]}", [](In in) { return min_pool(in[kX], {2, 2}); }},
    {"sum_pool(%x) {kernel=[2,2]}", [](In in) { return sum_pool(in[kX], {2, 2}); }},
    {"avg_pool(%x) {kernel=[2,2]}", [](In in) { return avg_pool(in[kX], {2, 2}); }},
    {"prod_pool(%x) {kernel=[2,2]}", [](In in) { return prod_pool(in[kX], {2, 2}); }},
    {"lp_pool(%x) {kernel=[2,2]}", [](In in) { return lp_pool(in[kX], {2, 2}); }},
    {"adaptive_avg_pool(%x) {size=[2,2]}", [](In in) { return adaptive_avg_pool(in[kX], {2, 2}); }},
    {"adaptive_max_pool(%x) {size=[2,2]}", [](In in) { return adaptive_max_pool(in[kX], {2, 2}); }},
    {"conv(%x, %w)", [](In in) { return conv(in[kX], in[kW]); }},
    {"conv_transpose(%x, %w)", [](In in) { return conv_transpose(in[kX], in[kW]); }},
    {"im2col(%x) {kernel=[2,2]}", [](In in) { return im2col(in[kX], {2, 2}); }},
    {"layer_norm(%m)", [](In in) { return layer_norm(in[kM]); }},
    {"rms_norm(%m)", [](In in) { return rms_norm(in[kM]); }},
    {"batch_norm(%x, %v, %v)", [](In in) { return batch_norm(in[kX], in[kV], in[kV]); }},
    {"group_norm(%x) {groups=2}", [](In in) { return group_norm(in[kX], 2); }},
    {"instance_norm(%x)", [](In in) { return instance_norm(in[kX]); }},
    {"lp_normalize(%m)", [](In in) { return lp_normalize(in[kM]); }},
    {"mean_variance_norm(%x) {axes=[1]}", [](In in) { return mean_variance_norm(in[kX], {1}); }},
    {"local_response_norm(%x) {size=3}", [](In in) { return local_response_norm(in[kX], 3); }},
    {"sort(%m)", [](In in) { return sort(in[kM]).values; }},
    {"argsort(%m)", [](In in) { return argsort(in[kM]); }},
    {"topk(%m) {k=2}", [](In in) { return topk(in[kM], 2).values; }},
    {"quantile(%m) {q=[0.5]}", [](In in) { return quantile(in[kM], {0.5}); }},
    {"median(%m)", [](In in) { return median(in[kM]); }},
    {"searchsorted(%v, %v)", [](In in) { return searchsorted(in[kV], in[kV]); }},
    {"gather(%m, %i)", [](In in) { return gather(in[kM], in[kI]); }},
    {"gather_elements(%m, %i)", [](In in) { return gather_elements(in[kM], in[kI]); }},
    {"scatter_elements(%m, %i, %m)", [](In in) { return scatter_elements(in[kM], in[kI], in[kM]); }},
    {"triu(%m)", [](In in) { return triu(in[kM]); }},
    {"tril(%m)", [](In in) { return tril(in[kM]); }},
    {"hardmax(%m)", [](In in) { return hardmax(in[kM]); }},
    {"transpose(%m)", [](In in) { return transpose(in[kM]); }},
    {"slice(%m) {axis=0, start=1, length=2}", [](In in) { return slice(in[kM], 0, 1, 2); }},
    {"pad(%m) {before=[1,0], after=[0,1]}", [](In in) { return pad(in[kM], {1, 0}, {0, 1}); }},
    {"depth_to_space(%x) {block=2}", [](In in) { return depth_to_space(in[kX], 2); }},
    {"space_to_depth(%x) {block=2}", [](In in) { return space_to_depth(in[kX], 2); }},
    {"sum(%x)", [](In in) { return sum(in[kX]); }},
    {"mean(%x)", [](In in) { return mean(in[kX]); }},
    {"max(%x)", [](In in) { return max(in[kX]); }},
    {"min(%x)", [](In in) { return min(in[kX]); }},
    {"prod(%x)", [](In in) { return prod(in[kX]); }},
    {"variance(%x)", [](In in) { return variance(in[kX]); }},
    {"log_sum_exp(%x)", [](In in) { return log_sum_exp(in[kX]); }},
    {"argmax(%m)", [](In in) { return argmax(in[kM]); }},
    {"argmin(%m)", [](In in) { return argmin(in[kM]); }},
    {"softmax(%m)", [](In in) { return softmax(in[kM]); }},
    {"log_softmax(%m)", [](In in) { return log_softmax(in[kM]); }},
    {"cumsum(%m)", [](In in) { return cumsum(in[kM]); }},
    {"cumprod(%m)", [](In in) { return cumprod(in[kM]); }},
    {"cummax(%m)", [](In in) { return cummax(in[kM]); }},
    {"cummin(%m)", [](In in) { return cummin(in[kM]); }},
    {"affine_grid(%t) {size=[2, 4, 3, 3]}",
     [](In in) { return affine_grid(in[kX].graph().input("t", DType::f32, {2, 2, 3}), {2, 4, 3, 3}); }},
    {"grid_sample(%x, %t)",
     [](In in) { return grid_sample(in[kX], in[kX].graph().input("t", DType::f32, {2, 3, 3, 2})); }},
    {"random_uniform(%s) {shape=[3]}", [](In in) { return random_uniform(in[kS].graph(), {3}, in[kS]); }},
    {"random_normal(%s) {shape=[3]}", [](In in) { return random_normal(in[kS].graph(), {3}, in[kS]); }},
    {"bernoulli(%m, %s)", [](In in) { return bernoulli(in[kM], in[kS]); }},
    {"dequantize(%q, %v)",
     [](In in) { return dequantize(in[kX].graph().input("q", DType::i8, {2, 4}), in[kV]); }},
};

// The nodes, without their names. Ops that are made of others are those others.
std::string nodes_of(const Graph& graph) {
  std::string out;
  for (const Node& n : remove_dead_code(expand_ops(graph)).nodes()) {
    if (n.op->is(LeafKind::input)) continue;
    out += n.op->name();
    for (const auto& [name, value] : attributes(*n.op)) out += " " + name + "=" + attribute_text(value);
    out += "\n";
  }
  return out;
}

TEST(Defaults, FunctionsAndTextsHaveTheSame) {
  for (const Default& d : kDefaults) {
    SCOPED_TRACE(d.call);
    Graph g = parse_graph("graph g {\n" + std::string(kLeaves) + "}");
    std::vector<Value> leaves;
    for (const char* name : {"x", "m", "v", "i", "w", "s"}) leaves.push_back(g.value({g.find(name), 0}));
    g.output("y", d.make(leaves));
    std::string more;
    for (const char* name : {"t", "q"}) {
      if (const int32_t id = g.find(name); id >= 0)
        more += "%" + std::string(name) + " = input : " + g.node(id).outputs[0].text() + "\n";
    }
    const Graph text = parse_graph("graph g {\n" + std::string(kLeaves) + more +
                                   "%y = " + std::string(d.call) + "\noutput y = %y\n}");
    EXPECT_EQ(nodes_of(g), nodes_of(text));
  }
}

}  // namespace
}  // namespace rlx
