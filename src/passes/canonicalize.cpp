// One form for what can be written in several: no nodes that change nothing, successive transposes,
// reshapes or casts merged, split and a gather of one index as slices, numbers without axes, reshapes behind
// element-wise ops instead of before them.
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/states.h"
#include "ops/elementwise/elementwise.h"
#include "ops/products/product_op.h"
#include "ops/rearrange/expand.h"
#include "ops/rearrange/gather.h"
#include "ops/rearrange/reshape.h"
#include "ops/rearrange/slice.h"
#include "ops/rearrange/split.h"
#include "ops/rearrange/transpose.h"
#include "passes/casts.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Canonicalizer {
 public:
  explicit Canonicalizer(const Graph& graph) : rewriter_(graph), states_(graph) {}

  Graph run() {
    for (int32_t id = 0; id < rewriter_.source().size(); ++id) {
      if (!changes_nothing(id) && !merge_casts(id) && !split(id) && !gather_one(id) && !numbers(id) &&
          !merge_transposes(id) && !merge_reshapes(id) && !move_behind(id))
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  const Graph& source() const { return rewriter_.source(); }
  ValueId input(int32_t id, size_t i) const { return rewriter_.mapped(source().node(id).inputs[i]); }
  const Op& op_of(ValueId v) { return *rewriter_.target().producer(v).op; }

  void forward(int32_t id, ValueId to) { rewriter_.map({id, 0}, to); }

  // A view that is x itself, a cast to its own type, x * 1, x / 1.
  bool changes_nothing(int32_t id) {
    const Node& n = source().node(id);
    if (n.inputs.empty() || n.inputs[0].is_absent()) return false;
    if (!(source().type(n.inputs[0]) == n.outputs[0])) return false;
    const Op& op = *n.op;
    const int64_t rank = n.outputs[0].shape.rank();
    bool nothing = op_cast<Reshape>(op) || op_cast<Expand>(op) || op_cast<Cast>(op);
    if (const auto* t = op_cast<Transpose>(op)) {
      std::vector<int64_t> straight(static_cast<size_t>(rank));
      std::iota(straight.begin(), straight.end(), 0);
      nothing = t->order(rank) == straight;
    }
    if (const auto* w = op_cast<Slice>(op)) nothing = w->start.is(0) && w->step == 1;
    if (const auto* e = op_cast<Elementwise>(op); e && (e->fn->name == "mul" || e->fn->name == "div")) {
      nothing = scalar_constant(source(), n.inputs[1]) == 1.0;
    }
    // A copy of what a state holds before it is overwritten cannot be replaced by the state.
    if (!op.has(Trait::view) && states_.writer(n.inputs[0]) >= 0) nothing = false;
    if (nothing) forward(id, input(id, 0));
    return nothing;
  }

  // A cast of 16-bit floats that went to f32 first, which loses nothing.
  bool merge_casts(int32_t id) {
    const Node& n = source().node(id);
    const auto narrow = op_cast<Cast>(*n.op) ? before_widening(source(), n.inputs[0]) : std::nullopt;
    if (!narrow || states_.writer(*narrow) >= 0) return false;
    if (source().type(*narrow) == n.outputs[0]) {
      forward(id, rewriter_.mapped(*narrow));
    } else {
      rewriter_.replace(id, n.op, {rewriter_.mapped(*narrow)});
    }
    return true;
  }

  bool split(int32_t id) {
    const Node& n = source().node(id);
    const auto* op = op_cast<Split>(*n.op);
    if (!op || states_.writer(n.inputs[0]) >= 0) return false;  // the parts are copies, slices are views
    int64_t start = 0;
    for (size_t o = 0; o < n.outputs.size(); ++o) {
      auto part = std::make_shared<Slice>();
      part->axis = op->axis;
      part->start = start;
      part->length = op->sizes[o];
      start += op->sizes[o];
      const std::string name = o == 0 ? n.name : n.name + "." + std::to_string(o);
      rewriter_.map({id, static_cast<int32_t>(o)}, rewriter_.target().add(part, {input(id, 0)}, name));
    }
    return true;
  }

  // A gather of one index that is known is a view.
  bool gather_one(int32_t id) {
    const Node& n = source().node(id);
    const auto* op = op_cast<Gather>(*n.op);
    const std::optional<double> index = op ? scalar_constant(source(), n.inputs[1]) : std::nullopt;
    if (!index || states_.writer(n.inputs[0]) >= 0 || is_encoded(source().type(n.inputs[0]).dtype))
      return false;
    const Shape& table = source().type(n.inputs[0]).shape;
    const int64_t axis = normal_axis(op->axis, table.rank());
    if (!table[axis].is_static() || table[axis].is(0)) return false;
    const int64_t size = table[axis].value();
    auto part = std::make_shared<Slice>();
    part->axis = axis;
    part->start = static_cast<int64_t>(std::clamp(*index < 0 ? *index + static_cast<double>(size) : *index,
                                                  0.0, static_cast<double>(size - 1)));
    part->length = 1;
    const ValueId one = rewriter_.target().add(part, {input(id, 0)}, n.name + ".part");
    if (rewriter_.target().type(one) == n.outputs[0]) {
      forward(id, one);
    } else {
      auto reshape = std::make_shared<Reshape>();
      reshape->shape = n.outputs[0].shape;
      rewriter_.replace(id, reshape, {one});
    }
    return true;
  }

  // Element-wise ops take a number of shape [1, 1] as one without axes, which passes put into expressions;
  // unless it gives the result its axes.
  bool numbers(int32_t id) {
    const Node& n = source().node(id);
    if (!n.op->has(Trait::elementwise)) return false;
    const auto is_number = [&](ValueId v) {
      return scalar_constant(source(), v) && source().type(v).shape.rank() > 0;
    };
    int64_t rank = -1;
    for (const ValueId v : n.inputs) {
      if (!is_number(v)) rank = std::max(rank, source().type(v).shape.rank());
    }
    if (rank != n.outputs[0].shape.rank() || std::ranges::none_of(n.inputs, is_number)) return false;
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(is_number(v) ? number(v) : rewriter_.mapped(v));
    rewriter_.replace(id, n.op, std::move(inputs));
    return true;
  }

  ValueId number(ValueId v) {
    const auto [it, fresh] = numbers_.emplace(v, ValueId{});
    if (fresh) {
      const Node& n = source().producer(v);
      const Tensor& value = op_cast<Constant>(*n.op)->value;
      auto op = std::make_shared<Constant>();
      op->value = is_float(value.dtype()) ? Tensor::from_doubles(value.dtype(), {}, value.doubles())
                                          : Tensor::from_ints(value.dtype(), {}, value.integers());
      it->second = rewriter_.target().add(op, {}, n.name + ".number");
    }
    return it->second;
  }

  bool merge_transposes(int32_t id) {
    const Node& n = source().node(id);
    const auto* second = op_cast<Transpose>(*n.op);
    const auto* first = second ? op_cast<Transpose>(op_of(input(id, 0))) : nullptr;
    if (!first) return false;
    const int64_t rank = n.outputs[0].shape.rank();
    const std::vector<int64_t> outer = second->order(rank);
    const std::vector<int64_t> inner = first->order(rank);
    auto merged = std::make_shared<Transpose>();
    for (int64_t axis : outer) merged->perm.push_back(inner[static_cast<size_t>(axis)]);
    const ValueId origin = rewriter_.target().producer(input(id, 0)).inputs[0];
    if (std::ranges::is_sorted(merged->perm)) {
      forward(id, origin);
    } else {
      rewriter_.replace(id, merged, {origin});
    }
    return true;
  }

  bool merge_reshapes(int32_t id) {
    const Node& n = source().node(id);
    const auto* second = op_cast<Reshape>(*n.op);
    if (!second || !op_cast<Reshape>(op_of(input(id, 0)))) return false;
    const ValueId origin = rewriter_.target().producer(input(id, 0)).inputs[0];
    if (rewriter_.target().type(origin) == n.outputs[0]) {
      forward(id, origin);
    } else {
      rewriter_.replace(id, n.op, {origin});
    }
    return true;
  }

  // An element-wise op of reshaped values becomes the reshape of one, so that it stands beside what made
  // them: exporters write products of matrices with a reshape on either side. A reshape of anything else
  // stays where it is: there is nothing that the op could join.
  bool move_behind(int32_t id) {
    const Node& n = source().node(id);
    if (!n.op->has(Trait::elementwise)) return false;
    std::vector<ValueId> inputs;
    std::optional<Shape> shape;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId v = input(id, i);
      const Node& producer = rewriter_.target().producer(v);
      if (op_cast<Reshape>(*producer.op) && producer.outputs[0].shape == n.outputs[0].shape) {
        const ValueId origin = producer.inputs[0];
        const Op& maker = op_of(origin);
        const Shape& from = rewriter_.target().type(origin).shape;
        if (!as_product(maker) && !maker.has(Trait::elementwise)) return false;
        if (shape && !(*shape == from)) return false;
        shape = from;
        inputs.push_back(origin);
      } else if (scalar_constant(rewriter_.target(), v) && producer.outputs[0].shape.rank() == 0) {
        inputs.push_back(v);
      } else {
        return false;
      }
    }
    if (!shape) return false;
    auto reshape = std::make_shared<Reshape>();
    reshape->shape = n.outputs[0].shape;
    const ValueId made = rewriter_.target().add(n.op, inputs, n.name);
    forward(id, rewriter_.target().add(reshape, {made}, n.name + ".reshape"));
    return true;
  }

  Rewriter rewriter_;
  StateVersions states_;
  std::map<ValueId, ValueId> numbers_;  // without axes
};

}  // namespace

Graph canonicalize(const Graph& graph) { return Canonicalizer(graph).run(); }

}  // namespace rlx
