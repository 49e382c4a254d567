#include "passes/pass_order.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// The graph with its nodes in an order in which they can run: readers of the old contents of a state
// come before the node that overwrites them, so that the order tells passes what a read must not be moved
// past. Nothing if there is no such order.
std::optional<Graph> in_running_order(Graph graph) {
  if (!StateVersions(graph).any_overwritten()) return graph;
  const std::optional<std::vector<int32_t>> order = find_schedule(graph);
  if (!order) return std::nullopt;
  Rewriter rewriter(graph);
  for (int32_t id : *order) rewriter.copy(id);
  return rewriter.finish();
}

// What a pass that moves nodes makes of the graph; the graph as it was if a read then comes after the write
// that overwrites what it should read.
template <class Pass, class... Args>
Graph keeping_states(const Graph& graph, Pass pass, Args... args) {
  std::optional<Graph> changed = in_running_order(pass(graph, args...));
  return changed ? *std::move(changed) : graph;
}

// The graph with `change` applied to the bodies of its nodes.
Graph with_bodies(const Graph& graph, const std::function<Graph(const Graph&)>& change) {
  const auto has_bodies = [](const Node& n) { return !n.op->subgraphs().empty(); };
  if (std::ranges::none_of(graph.nodes(), has_bodies)) return graph;
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter.mapped(v));
    rewriter.replace(id, map_subgraphs(n.op, change), std::move(inputs));
  }
  return rewriter.finish();
}

Graph simplify(const Graph& graph, const PassOptions& options) {
  Graph g = remove_dead_code(graph);
  // A graph without an order stays as it is: lowering says what is wrong with it.
  if (std::optional<Graph> ordered = in_running_order(g)) g = *std::move(ordered);
  g = with_bodies(g, [&](const Graph& body) { return simplify(body, options); });
  for (;;) {
    g = canonicalize(g);  // before folding and merging: equal things then look equal
    g = fold_constants(g, options.fold_max_elements);
    // The nodes of a branch can be folded with those around it.
    std::optional<Graph> flat = simplify_control_flow(g);
    if (!flat) return merge_common_subexpressions(g);
    g = *std::move(flat);
  }
}

Graph fuse(Graph g, const PassOptions& options) {
  g = with_bodies(g, [&](const Graph& body) { return fuse(body, options); });
  g = hoist_weights(g);                 // after the bodies' own passes, which rearrange weights
  g = keeping_states(g, fold_pads);     // before the epilogues, which would hide a relu
  g = keeping_states(g, image_layout);  // after the pads, which may be in between; before the epilogues
  if (options.byte_images) g = keeping_states(g, byte_images);  // before the epilogues, for the same reason
  g = keeping_states(g, transpose_parts);     // after the layouts, which move transposes away
  g = keeping_states(g, reduce_flags);        // before the reductions take what they reduce
  g = keeping_states(g, narrow_ops);          // before attention, whose softmax may be one of them
  g = keeping_states(g, fuse_rope);           // before element-wise nodes join
  g = keeping_states(g, fuse_attention);      // while scale, mask and softmax are still separate nodes
  g = keeping_states(g, attention_layout);    // before the products, which may be joined for it
  g = keeping_states(g, fuse_norms);          // before those of sums, and before element-wise nodes join
  g = keeping_states(g, fuse_clamped_norm);   // before the clamps become element-wise regions
  g = keeping_states(g, fuse_residual_norm);  // before the epilogues, which would take the residual add
  g = fuse_diamonds(g);                       // so that what they read has one reader, its epilogue
  g = keeping_states(g, fuse_epilogue, options.max_region_inputs);
  g = keeping_states(g, fuse_split);     // after the epilogues, which are in front of the split
  g = keeping_states(g, join_products);  // after the epilogues: biases are joined with their weights
  // After the products, whose slices they read. What attention is to have in its own memory stays apart.
  if (options.packed_attention) g = keeping_states(g, join_ropes);
  g = pack_weights(g, options.panels);  // what was joined is already in order
  g = fuse_elementwise(g, options.max_region_inputs);
  g = keeping_states(g, fuse_reduce, options.max_region_inputs);       // of whole regions
  g = keeping_states(g, join_elementwise, options.max_region_inputs);  // of whole regions
  g = keeping_states(g, join_writes);      // last: the other passes do not move or remove writes any more
  g = keeping_states(g, fuse_rope_write);  // of ropes and writes that were joined
  if (!options.packed_attention) g = unpack_attention(g);
  return remove_dead_code(g);
}

Graph with_numbers(const Graph& source, const SymbolValues& symbols) {
  return symbols.empty() ? source : bind_symbols(source, symbols);
}

}  // namespace

Graph optimize(const Graph& graph, const PassOptions& options) {
  return fuse(simplify(graph, options), options);
}

// --- The stages ---

Graph run_expanding_passes(const Graph& source, const SymbolValues& symbols) {
  Graph g = inline_calls(with_numbers(source, symbols));
  return expand_ops(g);
}

Graph run_optimizing_passes(const Graph& source, const SymbolValues& symbols, const PassOptions& options) {
  Graph g = inline_calls(with_numbers(source, symbols));
  g = settle_minima(g);    // before all others, which then see equal sizes as equal
  g = fold_batch_norm(g);  // before the expansion, which makes other nodes of them
  g = keeping_states(g, fuse_quantized);
  g = expand_ops(g);
  g = optimize(g, options);
  verify(g);
  return g;
}

LoadSplit run_load_phase_passes(const Graph& graph) {
  // What copies of weights it makes are load phase too.
  return split_load_phase(materialize_weights(graph));
}

Graph run_size_passes(const Graph& main, std::span<const SymbolValues> sizes,
                      const SymbolValues& capacities) {
  Graph g = main;
  for (const SymbolValues& values : sizes) g = materialize_views(g, values, capacities);
  return g;
}

}  // namespace rlx
