// A weight that does not lie in memory as the kernels of its product read it fastest is written out once, in
// the load phase, and read through a transpose of the copy, or in panels.
#include <algorithm>
#include <numeric>

#include "ir/load_phase.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/reshape.h"
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
  Packer(const Graph& graph, const Panels& panels)
      : rewriter_(graph), weights_(in_load_phase(graph)), uses_(uses(graph)), panels_(panels) {}

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
    if (std::shared_ptr<Op> op = weighted ? in_panels(n, *product) : nullptr) {
      std::vector<ValueId> inputs = mapped(n);
      inputs[1] = paneled(n.inputs[1]);
      rewriter_.replace(id, std::move(op), std::move(inputs));
      return;
    }
    const auto wanted =
        weighted ? product->weight_order(input_types(g, n), order_of(n.inputs[1])) : std::nullopt;
    if (!wanted || *wanted == order_of(n.inputs[1])) {
      rewriter_.copy(id);
      return;
    }
    std::vector<ValueId> inputs = mapped(n);
    inputs[1] = packed(n.inputs[1], *wanted);
    rewriter_.replace(id, n.op, std::move(inputs));
  }

  std::vector<ValueId> mapped(const Node& n) const {
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    return inputs;
  }

  // The product with its weight in panels; null if it keeps its weight as it is.
  std::shared_ptr<Op> in_panels(const Node& n, const ProductOp& product) const {
    const Graph& g = rewriter_.source();
    const Shape& shape = g.type(n.inputs[1]).shape;
    if (panels_.columns == 0 || !shape.is_static() || shape.elements().value() < panels_.least_elements)
      return nullptr;
    // Where something else reads the weight too, it would be in memory twice.
    ValueId root = n.inputs[1];
    while (g.producer(root).op->has(Trait::view)) root = g.producer(root).inputs[0];
    return feeds_products_alone(root) ? product.with_panels(input_types(g, n), panels_.columns) : nullptr;
  }

  bool feeds_products_alone(ValueId v) const {
    const auto found = uses_.find(v);
    return found != uses_.end() && std::ranges::all_of(found->second, [&](int32_t id) {
             if (id < 0) return false;
             const Node& n = rewriter_.source().node(id);
             if (n.op->has(Trait::view)) return feeds_products_alone({id, 0});
             return as_product(*n.op) && n.inputs[1] == v && std::ranges::count(n.inputs, v) == 1;
           });
  }

  // [n / columns, k, columns] of a weight [k, n], which may be the transpose of what lies as [n, k].
  ValueId paneled(ValueId v) {
    const auto [it, fresh] = paneled_.emplace(v, ValueId{});
    if (fresh) {
      const Graph& g = rewriter_.source();
      const Node& producer = g.producer(v);
      const bool turned = op_cast<Transpose>(*producer.op) && order_of(v) == Order{1, 0};
      const int64_t k = g.type(v).shape[0].value();
      const int64_t count = g.type(v).shape[1].value() / panels_.columns;
      auto cut = std::make_shared<Reshape>();
      cut->shape = turned ? Shape{count, panels_.columns, k} : Shape{k, count, panels_.columns};
      const std::string name = producer.name + ".panels";
      const ValueId whole = rewriter_.mapped(turned ? producer.inputs[0] : v);
      const ValueId columns = rewriter_.target().add(cut, {whole}, name + "_cut");
      const ValueId ordered = transposed(columns, turned ? Order{0, 2, 1} : Order{1, 0, 2}, name);
      it->second = rewriter_.target().add(std::make_shared<Contiguous>(), {ordered}, name);
    }
    return it->second;
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
  std::map<ValueId, std::vector<int32_t>> uses_;
  Panels panels_;
  std::map<std::pair<ValueId, Order>, ValueId> packed_;
  std::map<ValueId, ValueId> paneled_;
};

}  // namespace

Graph pack_weights(const Graph& graph, const Panels& panels) { return Packer(graph, panels).run(); }

}  // namespace rlx
