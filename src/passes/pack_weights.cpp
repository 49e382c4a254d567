// A weight that does not lie in memory as the kernels of its product read it fastest is written out once, in
// the load phase, and read through a transpose of the copy.
#include <algorithm>
#include <numeric>

#include "ir/load_phase.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/transpose.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

using Order = ProductOp::Order;

Order inverse(const Order& order) {
  Order out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

class Packer {
 public:
  explicit Packer(const Graph& graph) : rewriter_(graph), weights_(in_load_phase(graph)) {}

  Graph run() {
    for (int32_t id = 0; id < rewriter_.source().size(); ++id) node(id);
    return rewriter_.finish();
  }

 private:
  void node(int32_t id) {
    const Graph& g = rewriter_.source();
    const Node& n = g.node(id);
    const ProductOp* const product = as_product(*n.op);
    const bool weighted =
        product && weights_[static_cast<size_t>(n.inputs[1].node)] && !has_encoded_root(g, n.inputs[1]);
    const auto wanted =
        weighted ? product->weight_order(input_types(g, n), order_of(n.inputs[1])) : std::nullopt;
    if (!wanted || *wanted == order_of(n.inputs[1])) {
      rewriter_.copy(id);
      return;
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(v.is_absent() ? v : rewriter_.mapped(v));
    inputs[1] = packed(n.inputs[1], *wanted);
    rewriter_.replace(id, n.op, std::move(inputs));
  }

  // The axes of a value from the outermost in memory to the innermost.
  Order order_of(ValueId v) const {
    const Graph& g = rewriter_.source();
    const Node& producer = g.producer(v);
    Order order(static_cast<size_t>(g.type(v).shape.rank()));
    std::iota(order.begin(), order.end(), 0);
    if (const auto* t = op_cast<Transpose>(*producer.op)) return inverse(t->order(std::ssize(order)));
    return order;
  }

  ValueId packed(ValueId v, const Order& order) {
    const auto [it, fresh] = packed_.emplace(std::pair(v, order), ValueId{});
    if (fresh) {
      const std::string name = rewriter_.source().producer(v).name + ".packed";
      const ValueId copy = rewriter_.target().add(std::make_shared<Contiguous>(),
                                                  {transposed(rewriter_.mapped(v), order, name)}, name);
      it->second = transposed(copy, inverse(order), name);
    }
    return it->second;
  }

  ValueId transposed(ValueId v, const Order& order, const std::string& name) {
    if (std::ranges::is_sorted(order)) return v;
    auto op = std::make_shared<Transpose>();
    op->perm = order;
    return rewriter_.target().add(op, {v}, name + "_order");
  }

  Rewriter rewriter_;
  std::vector<bool> weights_;
  std::map<std::pair<ValueId, Order>, ValueId> packed_;
};

}  // namespace

Graph pack_weights(const Graph& graph) { return Packer(graph).run(); }

}  // namespace rlx
