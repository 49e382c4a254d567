// Integers go into products, and come out of them, where a graph dequantises what it multiplies and quantises
// the result: a product of dequantised bytes becomes the product of the bytes in i32, which is exact, times
// both scales. dequantize moves behind, and quantize in front of, what only moves or chooses elements, and
// one behind the other with the same numbers is nothing.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "ir/load_phase.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "ops/convolution/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/pooling/pool.h"
#include "ops/quantization/byte_product.h"
#include "ops/quantization/quantize.h"
#include "ops/rearrange/concat.h"
#include "ops/rearrange/transpose.h"
#include "ops/reductions/reduce.h"
#include "passes/passes.h"
#include "passes/region.h"
#include "passes/rewrite.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }

// Sums of that many products of bytes less zero points fit in i32.
constexpr int64_t kMostTerms = INT32_MAX / (255 * 255);

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : rewriter_(graph), uses_(uses(graph)), weights_(in_load_phase(graph)) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      if (is_mapped(n)) continue;
      if (!quantize_rows(id, n) && !move_dequantize(id, n) && !move_quantize(id, n) && !multiply(id, n)) {
        rewriter_.replace(id, map_subgraphs(n.op, fuse_quantized), mapped(n));
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // Whether what computes it has become part of another node.
  bool is_mapped(const Node& n) const {
    const auto id = static_cast<int32_t>(&n - rewriter_.source().nodes().data());
    return std::ranges::all_of(std::views::iota(int32_t{0}, static_cast<int32_t>(n.outputs.size())),
                               [&](int32_t o) { return rewriter_.is_mapped({id, o}); });
  }

  // --- What is quantised for its own range ---

  // The readers of v that are wanted.
  template <class F>
  std::vector<int32_t> readers(ValueId v, F&& wanted) const {
    std::vector<int32_t> out;
    const auto found = uses_.find(v);
    if (found == uses_.end()) return out;
    for (const int32_t id : found->second) {
      if (id >= 0 && wanted(rewriter_.source().node(id))) out.push_back(id);
    }
    return out;
  }

  // dynamic_quantize makes bytes with a sign, and sums of rows, where products read them so.
  bool quantize_rows(int32_t id, const Node& n) {
    if (!op_cast<DynamicQuantize>(*n.op) || !DynamicQuantizeRows::has_kernel(n.outputs[0].shape))
      return false;
    const std::vector<int32_t> flips = readers({id, 0}, [&](const Node& r) { return flips_first_bit(r); });
    std::vector<int32_t> bytes;  // that have a sign
    for (const int32_t flip : flips) {
      for (const int32_t cast : readers({flip, 0}, reads_as_i8)) bytes.push_back(cast);
      if (readers({flip, 0}, reads_as_i8).size() != uses_.at({flip, 0}).size()) return false;
    }
    const bool less_128 = !flips.empty() && flips.size() == uses_.at({id, 0}).size();
    if (!less_128 && !flips.empty()) return false;
    std::vector<int32_t> sums;
    for (const int32_t read : less_128 ? bytes : std::vector{id}) add_sums({read, 0}, sums);
    if (!less_128 && sums.empty()) return false;
    auto changed = std::make_shared<DynamicQuantizeRows>();
    changed->less_128 = less_128;
    changed->sums = !sums.empty();
    const int32_t made = rewriter_.target().add(changed, mapped(n), n.name).node;
    for (const int32_t o : {1, 2}) rewriter_.map({id, o}, {made, o});
    for (const int32_t read : bytes) rewriter_.map({read, 0}, {made, 0});
    for (const int32_t flip : flips) rewriter_.map({flip, 0}, {made, 0});  // nothing else reads it
    rewriter_.map({id, 0}, {made, 0});
    for (const int32_t sum : sums) rewriter_.map({sum, 0}, {made, 3});
    return true;
  }

  bool flips_first_bit(const Node& n) const {
    const auto* op = op_cast<Elementwise>(*n.op);
    return op && op->fn->name == "bitwise_xor" && n.inputs.size() == 2 &&
           scalar_constant(rewriter_.source(), n.inputs[1]) == 128.0 &&
           rewriter_.source().type(n.inputs[1]).shape.rank() == 0;
  }
  static bool reads_as_i8(const Node& n) {
    return n.op->name() == "bitcast" && n.outputs[0].dtype == DType::i8;
  }

  // Sums of bytes along the last axis, as i32, which stays.
  void add_sums(ValueId bytes, std::vector<int32_t>& sums) const {
    const auto widens = [](const Node& n) {
      return op_cast<Cast>(*n.op) && n.outputs[0].dtype == DType::i32;
    };
    const auto adds = [&](const Node& n) {
      const auto* reduce = op_cast<Reduce>(*n.op);
      const int64_t rank = rewriter_.source().type(bytes).shape.rank();
      return reduce && reduce->kind == ReduceKind::sum && reduce->keepdims &&
             reduce->reduced(rank) == std::vector{rank - 1};
    };
    for (const int32_t wide : readers(bytes, widens)) {
      for (const int32_t sum : readers({wide, 0}, adds)) sums.push_back(sum);
    }
  }

  // --- What is dequantised ---

  // A value of the new graph that is dequantize(bytes, scale, zero); values that are not given are empty.
  struct Dequantized {
    const Dequantize* op = nullptr;
    Value bytes, scale, zero;
    explicit operator bool() const { return op != nullptr; }
    bool has_one_scale() const { return scale.shape().elements().is(1) && scale.shape().rank() <= 1; }
    bool has_one_zero() const { return !zero || (zero.shape().elements().is(1) && zero.shape().rank() <= 1); }
  };

  Value value(ValueId id) { return id.is_absent() ? Value() : rewriter_.target().value(id); }
  Value source_value(ValueId id) { return value(rewriter_.mapped(id)); }

  Dequantized dequantized(ValueId source) {
    if (source.is_absent()) return {};
    const Node& n = rewriter_.target().producer(rewriter_.mapped(source));
    const auto* op = op_cast<Dequantize>(*n.op);
    if (!op || n.outputs[0].dtype != DType::f32) return {};
    const Value zero = n.inputs.size() > 2 ? value(n.inputs[2]) : Value();
    Dequantized d{op, value(n.inputs[0]), value(n.inputs[1]), zero};
    return is_byte(d.bytes.dtype()) ? d : Dequantized{};
  }

  // A constant scale that neither makes products of scales, nor quotients by them, zero or infinite.
  std::optional<double> plain_scale(const Value& scale) const {
    const std::optional<double> s = scalar_constant(rewriter_.target(), scale.id());
    return s && *s > 1e-15 && *s < 1e15 ? s : std::nullopt;
  }

  bool same_number(const Value& a, const Value& b) const {
    if (!a && !b) return true;
    const auto number = [&](const Value& v) {
      return v ? scalar_constant(rewriter_.target(), v.id()) : std::optional(0.0);
    };
    const std::optional<double> x = number(a);
    return x && x == number(b);
  }

  std::vector<ValueId> mapped(const Node& n) const {
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    return inputs;
  }

  // --- dequantize behind what moves elements ---

  bool move_dequantize(int32_t id, const Node& n) {
    if (n.inputs.empty() || n.outputs.size() != 1) return false;
    const Dequantized d = dequantized(n.inputs[0]);
    if (!d) return false;
    if (n.op->has(Trait::view)) return move_over_view(id, n, d);
    return chooses(*n.op, d) && put_behind(id, n, d, d.op->scales.axis);
  }

  // A maximum of integers is where that of the numbers is, if those grow with them. Windows in which there is
  // nothing have another result.
  bool chooses(const Op& op, const Dequantized& d) const {
    const auto* pool = dynamic_cast<const Pool*>(&op);
    if (!pool || pool->kind != PoolKind::max || pool->indices != PoolIndices::none) return false;
    const bool padded = std::ranges::any_of(pool->pads, [](int64_t pad) { return pad != 0; });
    const bool spread = std::ranges::any_of(pool->dilations, [](int64_t step) { return step != 1; });
    for (size_t i = 0; i < pool->pads.size(); ++i) {
      if (pool->pads[i] >= pool->kernel[i % pool->kernel.size()]) return false;
    }
    return !(padded && spread) && d.has_one_scale() && d.has_one_zero() && plain_scale(d.scale);
  }

  bool move_over_view(int32_t id, const Node& n, const Dequantized& d) {
    if (d.has_one_scale() && d.has_one_zero()) return put_behind(id, n, d, d.op->scales.axis);
    const auto* transpose = op_cast<Transpose>(*n.op);
    const int64_t rank = d.bytes.shape().rank();
    if (!transpose || d.op->scales.block != 0) return false;
    const std::vector<int64_t> order = transpose->order(rank);
    const int64_t axis = normal_axis(d.op->scales.axis, rank);
    return put_behind(id, n, d, std::ranges::find(order, axis) - order.begin());
  }

  bool put_behind(int32_t id, const Node& n, const Dequantized& d, int64_t axis) {
    std::vector<ValueId> inputs = mapped(n);
    inputs[0] = d.bytes.id();
    Graph& g = rewriter_.target();
    const Value moved = g.value(g.add(n.op, std::move(inputs), n.name + ".bytes"));
    rewriter_.map({id, 0}, dequantize(moved, d.scale, d.zero, axis).named(n.name).id());
    return true;
  }

  // --- quantize ---

  bool move_quantize(int32_t id, const Node& n) {
    const auto* op = op_cast<Quantize>(*n.op);
    if (!op || !is_byte(op->to) || op->ties != Ties::even) return false;
    const Value scale = source_value(n.inputs[1]);
    const Value zero = n.inputs.size() > 2 ? source_value(n.inputs[2]) : Value();
    if (!plain_scale(scale)) return false;
    const Dequantized d = dequantized(n.inputs[0]);
    if (d && undoes(*op, scale, zero, d)) {
      rewriter_.map({id, 0}, d.bytes.id());
      return true;
    }
    return quantize_parts(id, n, *op, scale, zero);
  }

  // What was an integer of that range becomes the same one: the roundings between amount to far less than a
  // half.
  bool undoes(const Quantize& op, const Value& scale, const Value& zero, const Dequantized& d) const {
    const IntegerRange all = integer_range(op.to);
    const bool whole = op.range().low == all.low && op.range().high == all.high;
    return whole && d.bytes.dtype() == op.to && d.has_one_scale() && d.has_one_zero() &&
           same_number(scale, d.scale) && same_number(zero, d.zero);
  }

  // What is concatenated and then quantised is quantised and then concatenated, if it was all bytes before.
  bool quantize_parts(int32_t id, const Node& n, const Quantize& op, const Value& scale, const Value& zero) {
    const Graph& source = rewriter_.source();
    const Node& joined = source.producer(n.inputs[0]);
    if (!op_cast<Concat>(*joined.op) || uses_.at(n.inputs[0]).size() != 1) return false;
    std::vector<ValueId> parts;
    for (const ValueId v : joined.inputs) {
      const Dequantized d = dequantized(v);
      if (!d) return false;
      const QuantizeOptions options{.to = op.to, .low = op.low, .high = op.high};
      const bool same = undoes(op, scale, zero, d);
      parts.push_back((same ? d.bytes : quantize(source_value(v), scale, zero, options)).id());
    }
    rewriter_.replace(id, joined.op, std::move(parts));
    return true;
  }

  // --- Products ---

  bool multiply(int32_t id, const Node& n) {
    if (const auto* conv = op_cast<Conv>(*n.op)) return conv->epilogue.empty() && convolve(id, n, *conv);
    const auto* matmul = op_cast<MatMul>(*n.op);
    return matmul && matmul->epilogue.empty() && matmul->splits.empty() && matmul->panels == 0 &&
           multiply_matrices(id, n);
  }

  // Scales of a weight: one, or one for each entry of that axis.
  static bool has_scales_along(const Dequantized& w, int64_t axis) {
    if (w.op->scales.block != 0) return false;
    return w.has_one_scale() || normal_axis(w.op->scales.axis, w.bytes.shape().rank()) == axis;
  }

  static Value as_number(const Value& v) { return v && v.shape().rank() > 0 ? reshape(v, {}) : v; }

  // The scale of each result: that of x times those of w, which belong to entries of axis `from_end` from the
  // end of the result. An infinite one becomes NaN, as the sums of its products nearly always are.
  Value scales(const Dequantized& x, const Dequantized& w, int64_t from_end) const {
    const Value one = as_number(x.scale);
    if (w.has_one_scale() && plain_scale(w.scale)) return one * as_number(w.scale);
    std::vector<int64_t> shape(static_cast<size_t>(w.has_one_scale() ? 0 : from_end), 1);
    if (!shape.empty()) shape[0] = w.scale.shape()[0].value();
    return one * reshape(w.scale + w.scale * 0, Shape(shape));
  }

  bool convolve(int32_t id, const Node& n, const Conv& op) {
    const Dequantized x = dequantized(n.inputs[0]);
    const Dequantized w = dequantized(n.inputs[1]);
    if (!x || !w || !x.has_one_scale() || !x.has_one_zero() || !w.has_one_zero()) return false;
    if (!has_scales_along(w, 0) || !plain_scale(x.scale)) return false;
    if (op.terms(std::vector{TensorType{}, TensorType{w.bytes.dtype(), w.bytes.shape()}}) > kMostTerms)
      return false;
    const ConvOptions options{.strides = op.strides,
                              .dilations = op.dilations,
                              .pads = op.pads,
                              .groups = op.groups,
                              .layout = op.layout};
    const bool all_inside = std::ranges::all_of(op.pads, [](int64_t pad) { return pad == 0; });
    const bool once = all_inside && x.zero && !same_number(x.zero, {}) && is_weight(n.inputs[1]);
    const Value sums = byte_conv(x.bytes, once ? Value() : as_number(x.zero), w.bytes, as_number(w.zero),
                                 once ? less_zero_of_x(x, w) : Value(), options);
    const int64_t from_end = op.layout == ConvLayout::channels_first ? sums.shape().rank() - 1 : 1;
    Value y = cast(sums, DType::f32) * scales(x, w, from_end);
    if (n.inputs.size() > 2 && !n.inputs[2].is_absent()) {
      std::vector<Dim> shape(static_cast<size_t>(from_end), Dim(1));
      const Value bias = source_value(n.inputs[2]);
      shape[0] = bias.shape()[0];
      y = y + reshape(bias, Shape(shape));
    }
    rewriter_.map({id, 0}, y.named(n.name).id());
    return true;
  }

  bool is_weight(ValueId source) const { return weights_[static_cast<size_t>(source.node)]; }

  // What the zero point of x takes from the sums of each filter, where windows lie inside of x: computed
  // once.
  static Value less_zero_of_x(const Dequantized& x, const Dequantized& w) {
    Value filters = cast(w.bytes, DType::i32);
    if (w.zero) filters = filters - cast(as_number(w.zero), DType::i32);
    std::vector<int64_t> axes(static_cast<size_t>(w.bytes.shape().rank() - 1));
    std::iota(axes.begin(), axes.end(), 1);
    return -(cast(as_number(x.zero), DType::i32) * sum(filters, axes, false));
  }

  bool multiply_matrices(int32_t id, const Node& n) {
    const Dequantized a = dequantized(n.inputs[0]);
    const Dequantized b = dequantized(n.inputs[1]);
    if (!a || !b || !a.has_one_scale() || !a.has_one_zero() || !b.has_one_zero()) return false;
    const Shape& left = a.bytes.shape();
    const Shape& right = b.bytes.shape();
    if (left.rank() < 2 || right.rank() < 2 || !has_scales_along(b, right.rank() - 1)) return false;
    const Dim& k = left[left.rank() - 1];
    if (!plain_scale(a.scale) || !k.is_static() || k.value() > kMostTerms) return false;
    if (!b.has_one_scale() && right.rank() != 2) return false;
    // What a zero point is multiplied with: sums over a weight are computed once.
    const bool zero_of_a = a.zero && !same_number(a.zero, {});
    const bool zero_of_b = b.zero && !same_number(b.zero, {});
    if (zero_of_b || (zero_of_a && !is_weight(n.inputs[1]))) return false;
    Value sums = matmul(a.bytes, b.bytes);
    if (zero_of_a)
      sums = sums - cast(as_number(a.zero), DType::i32) * sum(cast(b.bytes, DType::i32), {-2}, true);
    const Value y = cast(sums, DType::f32) * scales(a, b, 1);
    rewriter_.map({id, 0}, y.named(n.name).id());
    return true;
  }

  Rewriter rewriter_;
  std::map<ValueId, std::vector<int32_t>> uses_;
  std::vector<bool> weights_;  // by nodes of the source
};

}  // namespace

Graph fuse_quantized(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace rlx
