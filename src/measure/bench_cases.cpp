#include "measure/bench_cases.h"

#include <algorithm>
#include <vector>

#include "ir/op.h"
#include "measure/case_groups.h"
#include "measure/stopwatch.h"
#include "rlx/models.h"
#include "rlx/ops/rearrange.h"

namespace rlx::measure {

void output_start(Graph& graph, Value y) { graph.output("y", slice(reshape(y, {-1}), 0, 0, 16)); }

Graph of_state(const Shape& dims, Value (*make)(Value)) {
  Graph g;
  output_start(g, make(g.state("x", DType::f32, dims)));
  return g;
}

std::span<const Case> bench_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    for (const auto group :
         {product_cases(), conv_cases(), memory_cases(), algorithm_cases(), transformer_cases()})
      out.insert(out.end(), group.begin(), group.end());
    return out;
  }();
  return all;
}

const Case* find_case(std::string_view name) {
  const auto it = std::ranges::find(bench_cases(), name, &Case::name);
  return it == bench_cases().end() ? nullptr : &*it;
}

std::span<const std::string_view> onnx_cases() {
  static constexpr std::string_view kOnnx[] = {
      "add16",        "matmul256",       "matmul512",       "matmul1024",     "matmul_odd",
      "matmul_deep",  "matmul_flat",     "matvec",          "small_m",        "linear512",
      "bert_qkv",     "bert_up",         "bert_down",       "conv3x3",        "conv1x1",
      "depthwise3x3", "depthwise3x3_s2", "depthwise31",     "conv_stft",      "layer_norm",
      "softmax",      "softmax_axis1",   "sum_rows",        "sum_columns",    "sum_all",
      "transpose",    "transpose_batch", "transpose_heads", "transpose_nhwc", "concat_last",
      "concat_first", "concat_channels", "gather128",       "gather4096",     "elementwise",
      "attention128", "attention1024",   "bert-4",          "bert-base"};
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

}  // namespace

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

namespace {

// With the values that params of the same names would have.
void fill_states(Executable& exe) {
  Graph like;
  for (const TensorInfo& s : exe.states()) like.param(s.name, s.type.dtype, s.type.shape);
  for (const auto& [name, value] : models::random_weights(like, 1)) exe.write_state(name, value);
}

}  // namespace

CaseRun run_case_graph(const Graph& graph, const Growing& growing, const Device& device, double seconds,
                       bool with_dispatches) {
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
  if (with_dispatches) r.dispatches = fastest_dispatches(exe, leaves.inputs, symbols);
  return r;
}

double baseline_cpu_ms(const Baseline& beside, int64_t n, const Device& device, double seconds) {
  return beside.host_cpu_ms ? beside.host_cpu_ms(n)
                            : run_case_graph(beside.make(n), {}, device, seconds).time.cpu_ms;
}

}  // namespace rlx::measure
