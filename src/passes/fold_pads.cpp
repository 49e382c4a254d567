// A pad in front of a convolution or a pool becomes padding of its own, which costs nothing: where what is
// padded with counts as the padding of the op does.
#include <algorithm>

#include "ir/states.h"
#include "ops/convolution/conv.h"
#include "ops/convolution/window.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pooling/pool.h"
#include "ops/rearrange/pad.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The pads of an op with the layout, and those of `pad` added; nothing if that pads more than spatial axes.
std::optional<std::vector<int64_t>> joined_pads(const Pad& pad, const std::vector<int64_t>& pads,
                                                ConvLayout layout) {
  const size_t spatial = pad.before.size() - 2;
  std::vector<int64_t> out = pads.empty() ? std::vector<int64_t>(2 * spatial, 0) : pads;
  const auto negative = [](int64_t n) { return n < 0; };
  if (pad.mode != PadMode::constant || std::ranges::any_of(pad.before, negative) ||
      std::ranges::any_of(pad.after, negative))
    return std::nullopt;
  const auto channels = static_cast<size_t>(channel_axis(layout, std::ssize(pad.before)));
  for (const size_t axis : {size_t{0}, channels}) {
    if (pad.before[axis] != 0 || pad.after[axis] != 0) return std::nullopt;
  }
  for (size_t i = 0; i < spatial; ++i) {
    const auto axis = static_cast<size_t>(spatial_axis(layout, static_cast<int64_t>(i)));
    out[i] += pad.before[axis];
    out[i + spatial] += pad.after[axis];
  }
  return out;
}

// Whether zeros around x do not change the largest elements: there are no negative ones, and each window has
// one of x.
bool zeros_lose(const Graph& graph, const Pool& pool, ValueId x, const std::vector<int64_t>& pads) {
  const auto* op = op_cast<Elementwise>(*graph.producer(x).op);
  if (!op || op->fn->name != "relu") return false;
  const size_t spatial = pool.kernel.size();
  for (size_t i = 0; i < spatial; ++i) {
    const Window s = WindowLists{pool.strides, pool.dilations, pads}.window(i, spatial);
    const int64_t reach = (pool.kernel[i] - 1) * s.dilation + 1;
    const Dim& length = graph.type(x).shape[spatial_axis(pool.layout, static_cast<int64_t>(i))];
    if (s.before >= reach || s.after >= reach || !length.is_static() || length.value() < s.dilation)
      return false;
  }
  return true;
}

// The op with the pad in it; null if that is not the same.
OpPtr with_pad(const Graph& graph, const Op& op, const Pad& pad, ValueId x) {
  if (const auto* conv = op_cast<Conv>(op)) {
    auto pads = joined_pads(pad, conv->pads, conv->layout);
    if (!pads || pad.value != 0) return nullptr;
    auto out = std::make_shared<Conv>(*conv);
    out->pads = *std::move(pads);
    return out;
  }
  const auto* pool = op_cast<Pool>(op);
  // Indices count in the padded tensor, and a window may begin in a pad, but not in a pool's own padding.
  if (!pool || pool->ceil_mode || pool->indices != PoolIndices::none) return nullptr;
  auto pads = joined_pads(pad, pool->pads, pool->layout);
  if (!pads) return nullptr;
  auto out = std::make_shared<Pool>(*pool);
  out->pads = *std::move(pads);
  if (pool->kind == PoolKind::mean) {
    const bool bare = std::ranges::all_of(pool->pads, [](int64_t n) { return n == 0; });
    if (pad.value != 0 || !(bare || pool->count_include_pad)) return nullptr;
    out->count_include_pad = true;
    return out;
  }
  const bool counts_for_nothing = pad.value == pool_identity(pool->kind, graph.type(x).dtype);
  const bool loses = pool->kind == PoolKind::max && pad.value == 0 && zeros_lose(graph, *pool, x, out->pads);
  return counts_for_nothing || loses ? out : nullptr;
}

}  // namespace

Graph fold_pads(const Graph& graph) {
  const StateVersions states(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const bool has_input = !n.inputs.empty() && !n.inputs[0].is_absent();
    const auto* pad = has_input ? op_cast<Pad>(*graph.producer(n.inputs[0]).op) : nullptr;
    // x is now read later, perhaps after a write.
    const ValueId x = pad ? graph.producer(n.inputs[0]).inputs[0] : ValueId{};
    const OpPtr op = pad && states.readable_at(x, id) ? with_pad(graph, *n.op, *pad, x) : nullptr;
    if (!op) {
      rewriter.copy(id);
      continue;
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    inputs[0] = rewriter.mapped(x);
    rewriter.replace(id, op, std::move(inputs));
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
