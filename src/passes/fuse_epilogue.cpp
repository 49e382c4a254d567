// Element-wise ops on a product move into it: bias, activation, scale, residual, and what little is computed
// for their operands where those broadcast (a zero point times the sum of each column), or are casts that
// lose nothing. The product takes the place of the last of them, where all their inputs exist.
#include <algorithm>
#include <ranges>
#include <set>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, int64_t max_inputs)
      : rewriter_(graph),
        uses_(uses(graph)),
        weights_(in_load_phase(graph)),
        states_(graph),
        max_inputs_(max_inputs) {}

  Graph run() {
    for (int32_t id = 0; id < rewriter_.source().size(); ++id) {
      if (!fuse(id)) rewriter_.copy(id);
      for (int32_t o = 0; o < static_cast<int32_t>(rewriter_.source().node(id).outputs.size()); ++o) {
        if (states_.writer({id, o}) >= 0) overwritten_.insert(rewriter_.mapped({id, o}));
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  bool fuse(int32_t id) {
    const Node& n = rewriter_.source().node(id);
    const auto* op = dynamic_cast<const ElementwiseOp*>(n.op.get());
    if (!op || !may_be_stored(n.outputs[0].dtype)) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Node& producer = rewriter_.target().producer(rewriter_.mapped(n.inputs[i]));
      const ProductOp* const product = as_product(*producer.op);
      if (!product || producer.outputs.size() != 1 || uses_.at(n.inputs[i]).size() != 1 ||
          !may_be_stored(producer.outputs[0].dtype))
        continue;
      if (!(producer.outputs[0].shape == n.outputs[0].shape)) continue;
      // What reads bytes otherwise would read four times as much.
      if (is_byte(producer.outputs[0].dtype) && !ends_in_bytes_or_result(id)) continue;
      // What the load phase computes once must not be computed in each run.
      if (in_load(n.inputs[i].node) && !in_load(id)) continue;
      // The product now reads its inputs later, perhaps after a write.
      if (std::ranges::any_of(producer.inputs, [&](ValueId v) { return overwritten_.contains(v); })) continue;
      return merge(id, *op, n, i, *product, producer, /*with_operands=*/true) ||
             merge(id, *op, n, i, *product, producer, /*with_operands=*/false);
    }
    return false;
  }

  static bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }
  static bool may_be_stored(DType t) { return is_float(t) || t == DType::i32 || is_byte(t); }

  // The element-wise node that computes a value of the source for `reader`, if that is so little for each
  // element of the result that it can be done there; else null. Several readers may each compute a number.
  const Node* cheap_operand(ValueId v, int32_t reader) const {
    const Node& n = rewriter_.source().producer(v);
    const Node& copied = rewriter_.target().producer(rewriter_.mapped(v));
    const auto* op = dynamic_cast<const ElementwiseOp*>(copied.op.get());
    const bool is_number = n.outputs[0].shape.elements().is(1);
    const bool is_widening = before_widening(rewriter_.source(), v).has_value();
    if (!op || in_load(v.node) || (uses_.at(v).size() != 1 && !is_number && !is_widening)) return nullptr;
    const bool as_large = n.outputs[0].shape == rewriter_.source().node(reader).outputs[0].shape;
    if (as_large && !is_widening && (is_byte(n.outputs[0].dtype) || !is_of_bytes(v))) return nullptr;
    if (std::ranges::any_of(copied.inputs, [&](ValueId in) { return overwritten_.contains(in); }))
      return nullptr;
    const Expr expr = op->expr(input_dtypes(input_types(rewriter_.target(), copied)));
    return expr.cost() <= kBroadcastBudget && !expr.may_overflow() ? &n : nullptr;
  }

  // Whether element-wise nodes, each the only reader of the one before, lead from here to bytes or to an
  // output of the graph.
  bool ends_in_bytes_or_result(int32_t id) const {
    for (;;) {
      const Node& n = rewriter_.source().node(id);
      if (dynamic_cast<const ElementwiseOp*>(n.op.get()) == nullptr || n.outputs.size() != 1) return false;
      if (is_byte(n.outputs[0].dtype)) return true;
      const auto users = uses_.find({id, 0});
      if (users == uses_.end() || users->second.size() != 1) return false;
      if (users->second[0] < 0) return true;
      id = users->second[0];
    }
  }

  // Whether it is computed from bytes and numbers alone: then the product reads less than it would of the
  // result.
  bool is_of_bytes(ValueId v) const {
    const Graph& g = rewriter_.source();
    if (is_byte(g.type(v).dtype)) return true;
    const Node& n = g.producer(v);
    return dynamic_cast<const ElementwiseOp*>(n.op.get()) != nullptr && uses_.at(v).size() == 1 &&
           std::ranges::all_of(
               n.inputs, [&](ValueId in) { return g.type(in).shape.elements().is(1) || is_of_bytes(in); });
  }

  // A value of the source as an argument: what computes it, or what stands for it in the new graph.
  Expr::Arg operand(Region& region, ValueId v, int32_t reader, bool with_operands) const {
    const ValueId mapped = rewriter_.mapped(v);
    const Node* const n = with_operands && !v.is_absent() ? cheap_operand(v, reader) : nullptr;
    if (!n) return region.use(mapped);
    std::vector<Expr::Arg> args;
    for (const ValueId in : n->inputs) args.push_back(operand(region, in, reader, true));
    const Node& copied = rewriter_.target().producer(mapped);
    const auto& op = dynamic_cast<const ElementwiseOp&>(*copied.op);
    return region.splice(op.expr(input_dtypes(input_types(rewriter_.target(), copied))), args);
  }

  bool merge(int32_t id, const ElementwiseOp& op, const Node& n, size_t at, const ProductOp& product,
             const Node& producer, bool with_operands) {
    const Graph& target = rewriter_.target();
    const std::vector<DType> producer_types = input_dtypes(input_types(target, producer));
    const auto own = static_cast<size_t>(product.own_inputs());
    // Input 0 of the expression is the product itself, which is not a value of the graph.
    Region region(target);
    region.inputs.push_back(ValueId{});
    const Expr before = product.typed_epilogue(producer_types);
    region.expr.inputs.push_back(before.inputs[0]);
    std::vector<Expr::Arg> inner = {Expr::input(0)};
    for (size_t i = own; i < producer.inputs.size(); ++i) inner.push_back(region.use(producer.inputs[i]));
    const Expr::Arg value = region.splice(before, inner);
    std::vector<Expr::Arg> args;
    std::vector<DType> types;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = rewriter_.mapped(n.inputs[i]);
      types.push_back(target.type(v).dtype);
      args.push_back(i == at ? value : operand(region, n.inputs[i], id, with_operands));
    }
    region.splice(op.expr(types), args);
    // Its own inputs and y are bound besides the extra inputs.
    const auto given = std::ranges::count_if(std::views::take(producer.inputs, product.own_inputs()),
                                             [](ValueId v) { return !v.is_absent(); });
    if (static_cast<int64_t>(region.inputs.size()) - 1 + given > max_inputs_) return false;
    if (region.expr.cost() > kRegionBudget || region.expr.may_overflow()) return false;
    std::vector<ValueId> inputs(
        producer.inputs.begin(),
        producer.inputs.begin() + static_cast<int64_t>(std::min(own, producer.inputs.size())));
    if (region.inputs.size() > 1) inputs.resize(own);  // absent ones before the epilogue's
    inputs.insert(inputs.end(), region.inputs.begin() + 1, region.inputs.end());
    rewriter_.replace(id, product.with_epilogue(region.expr.untyped()), std::move(inputs));
    return true;
  }

  bool in_load(int32_t id) const { return weights_[static_cast<size_t>(id)]; }

  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;
  StateVersions states_;
  std::set<ValueId> overwritten_;  // values of the new graph that show a state that a later node overwrites
  int64_t max_inputs_;
};

}  // namespace

Graph fuse_epilogue(const Graph& graph, int64_t max_inputs) { return Fuser(graph, max_inputs).run(); }

}  // namespace rlx
