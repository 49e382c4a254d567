// transpose(conv(transpose(x))), as exporters for another layout write it, becomes a convolution of that
// layout, and so does a pool: what it makes needs no copy before the next op reads it.
#include <algorithm>
#include <numeric>

#include "ops/convolution/conv.h"
#include "ops/pooling/pool.h"
#include "ops/rearrange/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// Whether a node makes images of that layout of those of the other.
bool changes_to(ConvLayout layout, const Node& n) {
  const auto* transpose = op_cast<Transpose>(*n.op);
  const int64_t rank = n.outputs[0].shape.rank();
  if (!transpose || rank < 3) return false;
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (layout == ConvLayout::channels_last) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  } else {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  }
  return transpose->order(rank) == order;
}

ConvLayout other(ConvLayout layout) {
  return layout == ConvLayout::channels_last ? ConvLayout::channels_first : ConvLayout::channels_last;
}

template <class T>
std::shared_ptr<Op> with_layout(const T& op, ConvLayout layout) {
  auto copy = std::make_shared<T>(op);
  copy->layout = layout;
  return copy;
}

class ImageLayout {
 public:
  explicit ImageLayout(const Graph& graph) : graph_(graph), users_(uses(graph)), rewriter_(graph) {}

  Graph run() {
    for (int32_t id = 0; id < graph_.size(); ++id) {
      if (!replace(id)) rewriter_.copy(id);
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  bool replace(int32_t id) {
    const Node& n = graph_.node(id);
    for (const ConvLayout layout : {ConvLayout::channels_last, ConvLayout::channels_first}) {
      if (!changes_to(layout, n) || graph_.producer(n.inputs[0]).op->has(Trait::view)) continue;
      if (!can_have(n.inputs[0], layout)) continue;
      rewriter_.map({id, 0}, in_layout(n.inputs[0], layout));
      return true;
    }
    return false;
  }

  // The same op for images of that layout; nothing if it has none or if another of its inputs or results has
  // one.
  std::shared_ptr<Op> for_layout(const Op& op, ConvLayout layout) const {
    const auto* conv = op_cast<Conv>(op);
    if (conv && conv->layout == other(layout) && conv->epilogue.empty()) return with_layout(*conv, layout);
    const auto* pool = dynamic_cast<const Pool*>(&op);
    if (pool && pool->layout == other(layout) && pool->indices == PoolIndices::none)
      return with_layout(*pool, layout);
    return nullptr;
  }

  // Whether the images v of the other layout can be made in this one without a transpose: they are made, for
  // this purpose only, of a transpose of such images.
  bool can_have(ValueId v, ConvLayout layout) const {
    const Node& n = graph_.producer(v);
    if (changes_to(other(layout), n)) return true;
    if (users_.at(v).size() != 1) return false;
    if (for_layout(*n.op, layout)) return can_have(n.inputs[0], layout);
    return n.op->has(Trait::elementwise) && n.outputs.size() == 1 &&
           std::ranges::all_of(n.inputs, [&](ValueId in) {
             return is_number(in) || (graph_.type(in).shape == graph_.type(v).shape && can_have(in, layout));
           });
  }

  bool is_number(ValueId v) const { return graph_.type(v).shape.rank() == 0; }

  ValueId in_layout(ValueId v, ConvLayout layout) {
    const Node& n = graph_.producer(v);
    if (changes_to(other(layout), n)) return rewriter_.mapped(n.inputs[0]);
    const std::shared_ptr<Op> op = for_layout(*n.op, layout);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const bool image = op ? i == 0 : !is_number(n.inputs[i]);
      inputs.push_back(image ? in_layout(n.inputs[i], layout) : rewriter_.mapped(n.inputs[i]));
    }
    return rewriter_.target().add(op ? op : n.op, std::move(inputs), n.name);
  }

  const Graph& graph_;
  std::map<ValueId, std::vector<int32_t>> users_;
  Rewriter rewriter_;
};

}  // namespace

Graph image_layout(const Graph& graph) { return ImageLayout(graph).run(); }

}  // namespace rlx
