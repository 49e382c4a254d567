// A concat whose result is put into another order in memory, as shuffles of channels are written, puts its
// parts there in that order: one copy of everything instead of two.
#include <algorithm>

#include "ir/view.h"
#include "ops/rearrange/concat.h"
#include "ops/rearrange/reshape.h"
#include "ops/rearrange/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

// reshape(transpose(concat)), or reshape(transpose(reshape(concat))) where the first reshape gives the parts
// an axis of their own.
struct Shuffle {
  const Node* concat;
  const Transpose* transpose;
  Shape part;    // of each part before it is transposed
  int64_t axis;  // along which they lie then
};

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), uses_(uses(graph)) {}

  std::optional<Shuffle> find(const Node& n) const {
    if (!op_cast<Reshape>(*n.op) || !n.outputs[0].shape.is_static()) return std::nullopt;
    const Node* const turned = alone(n.inputs[0]);
    const auto* transpose = turned ? op_cast<Transpose>(*turned->op) : nullptr;
    if (!transpose || is_view(*turned, n.outputs[0].shape)) return std::nullopt;
    const Node* made = alone(turned->inputs[0]);
    if (!made) return std::nullopt;
    if (op_cast<Concat>(*made->op)) return whole(*made, *transpose);
    const Node* const concat = op_cast<Reshape>(*made->op) ? alone(made->inputs[0]) : nullptr;
    return concat && op_cast<Concat>(*concat->op) ? split(*concat, made->outputs[0].shape, *transpose)
                                                  : std::nullopt;
  }

 private:
  // The node that makes it, if nothing else reads it.
  const Node* alone(ValueId v) const { return uses_.at(v).size() == 1 ? &graph_.producer(v) : nullptr; }

  // Whether the transposed value can be seen in this shape where it lies.
  bool is_view(const Node& turned, const Shape& shape) const {
    const Shape& from = graph_.type(turned.inputs[0]).shape;
    if (!from.is_static()) return true;
    const auto* op = op_cast<Transpose>(*turned.op);
    const std::vector<int64_t> order = op->order(from.rank());
    const View view = View::contiguous(dims_of(from)).permute(Dims(order.begin(), order.end()));
    return view.reshape(dims_of(shape)).has_value();
  }

  std::optional<Shuffle> whole(const Node& concat, const Transpose& transpose) const {
    const Shape& shape = concat.outputs[0].shape;
    const int64_t axis = op_cast<Concat>(*concat.op)->axis;
    return Shuffle{&concat, &transpose, {}, axis < 0 ? axis + shape.rank() : axis};
  }

  // Equal parts, whose number and size the reshape makes axes of.
  std::optional<Shuffle> split(const Node& concat, const Shape& shape, const Transpose& transpose) const {
    std::optional<Shuffle> out = whole(concat, transpose);
    Shape part = graph_.type(concat.inputs[0]).shape;
    for (const ValueId v : concat.inputs) {
      if (!(graph_.type(v).shape == part)) return std::nullopt;
    }
    part.insert(out->axis, 1);
    Shape all = part;
    all[out->axis] = std::ssize(concat.inputs);
    if (!(all == shape)) return std::nullopt;
    out->part = part;
    return out;
  }

  const Graph& graph_;
  const std::map<ValueId, std::vector<int32_t>> uses_;
};

}  // namespace

Graph transpose_parts(const Graph& graph) {
  const Finder finder(graph);
  Rewriter rewriter(graph);
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const std::optional<Shuffle> s = finder.find(n);
    if (!s) {
      rewriter.copy(id);
      continue;
    }
    Graph& target = rewriter.target();
    std::vector<ValueId> parts;
    for (size_t i = 0; i < s->concat->inputs.size(); ++i) {
      ValueId v = rewriter.mapped(s->concat->inputs[i]);
      const std::string name = n.name + ".part" + std::to_string(i);
      if (s->part.rank() > 0) {
        auto reshape = std::make_shared<Reshape>();
        reshape->shape = s->part;
        v = target.add(reshape, {v}, name);
      }
      parts.push_back(target.add(s->transpose->clone(), {v}, name + ".turned"));
    }
    const std::vector<int64_t> order = s->transpose->order(target.type(parts[0]).shape.rank());
    auto concat = std::make_shared<Concat>();
    concat->axis = std::ranges::find(order, s->axis) - order.begin();
    const ValueId joined = target.add(concat, parts, n.name + ".parts");
    rewriter.replace(id, n.op, {joined});
  }
  return remove_dead_code(rewriter.finish());
}

}  // namespace rlx
