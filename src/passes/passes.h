// Graph to graph, one pass per file. Each takes a graph and returns a new one, and can be tested as text in,
// text out. In which order they run: pass_order.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

// Always runs, even without optimisation: replaces ops that are written in terms of others (Op::expand),
// calls included.
Graph expand_ops(const Graph& graph);
// Expands calls only; other ops remain as they were written.
Graph inline_calls(const Graph& graph);

// Batch norms behind products with weights become part of the weights. Calls must be expanded already.
Graph fold_batch_norm(const Graph& graph);
// Products of dequantised bytes become products of bytes. Calls must be expanded already.
Graph fuse_quantized(const Graph& graph);

// Without the minima in sizes that the capacities of symbols decide.
Graph settle_minima(const Graph& graph);

Graph remove_dead_code(Graph graph);
Graph merge_common_subexpressions(const Graph& graph);
Graph fold_constants(const Graph& graph, int64_t max_elements);
Graph canonicalize(const Graph& graph);
// Branches whose condition is a constant become the nodes of one body, loops that make no iteration become
// their initial values. Nothing if there are none of these.
std::optional<Graph> simplify_control_flow(const Graph& graph);
Graph fold_pads(const Graph& graph);
Graph reduce_flags(const Graph& graph);
Graph narrow_ops(const Graph& graph);
Graph transpose_parts(const Graph& graph);
Graph fuse_attention(const Graph& graph);
Graph attention_layout(const Graph& graph);
Graph unpack_attention(const Graph& graph);
Graph image_layout(const Graph& graph);
Graph byte_images(const Graph& graph);
Graph join_products(const Graph& graph);
Graph join_ropes(const Graph& graph);
Graph fuse_diamonds(const Graph& graph);
Graph fuse_epilogue(const Graph& graph, int64_t max_inputs);
Graph fuse_split(const Graph& graph);
// Weights of matrix products with at least so many elements lie in panels of so many columns; 0 columns: none
// do.
struct Panels {
  int64_t columns = 0;
  int64_t least_elements = 0;
};
Graph pack_weights(const Graph& graph, const Panels& panels = {});
// Moves what bodies compute from params and constants alone into the graph around them.
Graph hoist_weights(const Graph& graph);
Graph fuse_norms(const Graph& graph);
Graph fuse_clamped_norm(const Graph& graph);
Graph fuse_residual_norm(const Graph& graph);
Graph fuse_elementwise(const Graph& graph, int64_t max_inputs);
Graph fuse_reduce(const Graph& graph, int64_t max_inputs);
Graph join_elementwise(const Graph& graph, int64_t max_inputs);
Graph join_writes(const Graph& graph);
Graph fuse_rope(const Graph& graph);
Graph fuse_rope_write(const Graph& graph);

// Puts `contiguous` where a view needs its own memory, for these values of the symbols. The graph keeps its
// symbols: it also serves other values for which the same views can be read. Tensors whose sizes only the run
// knows lie in memory as they do for `capacities`.
Graph materialize_views(const Graph& graph, const SymbolValues& sizes = {},
                        const SymbolValues& capacities = {});
// The same for views of params and constants only, in a graph that may have symbols.
Graph materialize_weights(const Graph& graph);

// A graph in two: what depends on params and constants alone, and the rest, which has the results of the
// former as params.
struct LoadSplit {
  Graph load;  // its outputs have the names of those params
  Graph main;
  // Params of main that are other params one after the other: these need no work if they lie so in memory.
  struct Joined {
    struct Part {
      std::string name;
      TensorType type;
    };
    std::string name;
    std::vector<Part> parts;
  };
  std::vector<Joined> joined;
};
LoadSplit split_load_phase(const Graph& graph);

}  // namespace rlx
