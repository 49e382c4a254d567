// The scale and the zero point with which a tensor becomes u8 (ONNX's DynamicQuantizeLinear).
#include <algorithm>
#include <cmath>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/dynamic_scale.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/machinery/rows.h"
#include "ops/quantization/quantize.h"
#include "ops/reductions/reduce.h"
#include "rlx/ops/quantization.h"

namespace rlx {
namespace {

using Kernel = kernels::dynamic_scale;

struct DynamicScale final : OpOf<DynamicScale> {
  static constexpr auto kName = "dynamic_scale";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_float(0);
    return {TensorType{DType::f32, {}}, TensorType{DType::u8, {}}};
  }
  void reference(RefContext& r) const override {
    const ByteScaling to = byte_scaling(r.in(0));
    r.out(0).real[0] = static_cast<double>(to.scale);
    r.out(1).ints[0] = static_cast<int64_t>(to.zero);
  }
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4}; }
};

class ScaleLowering {
 public:
  explicit ScaleLowering(Lowering& l) : l_(l), x_(all_in_one_row(l.in(0))), p_(row_problem(x_, 1)) {}

  void run() {
    p_.run = [&](const Team& team) { return emit(team, Kernel::WHOLE, 1, p_.length, {}); };
    p_.split = [&] { return in_parts(); };
    if (!emit_rows(l_, DynamicScale::kName, p_)) from_reductions();
  }

 private:
  static Operand all_in_one_row(const Operand& x) { return as_rows(x, axes_from(0, x.view.rank())); }

  bool emit(const Team& team, uint32_t phase, int64_t parts, int64_t chunk, const Operand& ranges) {
    const bool joins = phase == Kernel::JOIN;
    Kernel::Operands operands{.x = joins ? Operand{} : x_, .ranges = ranges};
    if (phase != Kernel::PARTS) {
      operands.scale = l_.out(0);
      operands.zero = l_.out(1);
    }
    Dispatch d = row_dispatch<Kernel>(
        l_, team, joins ? 1 : parts, operands,
        {.length = to_u32(p_.length), .chunk = to_u32(chunk), .parts = to_u32(parts)}, {.PHASE = phase});
    if (phase == Kernel::PARTS) d.variant = {.row = kSplitRows.name};  // whichever team it has
    if (!fits(d, l_.caps())) return false;
    l_.emit(std::move(d));
    return true;
  }

  void join(int64_t parts, const Operand& ranges) {
    RowProblem p{.rows = 1, .length = parts};
    p.run = [&](const Team& team) { return emit(team, Kernel::JOIN, parts, 0, ranges); };
    if (!emit_rows(l_, DynamicScale::kName, p)) fail_to_bind(l_.caps());
  }

  // False, and nothing emitted, if the device cannot bind all of x at once.
  bool in_parts() {
    const int64_t chunk = split_chunk(l_.caps(), p_);
    RowProblem parts = p_;
    parts.rows = ceil_div(p_.length, chunk);
    parts.length = chunk;
    parts.split = nullptr;
    const Operand ranges = l_.scratch(DType::f32, {parts.rows, 2});
    parts.run = [&](const Team& team) { return emit(team, Kernel::PARTS, parts.rows, chunk, ranges); };
    if (!l_.choose(DynamicScale::kName, kRowVariants, parts).make(l_, parts)) return false;
    join(parts.rows, ranges);
    return true;
  }

  // Reductions cut what cannot be bound.
  void from_reductions() {
    const Operand ranges = l_.scratch(DType::f32, {2});
    const std::vector<int64_t> axes = axes_from(0, l_.in(0).view.rank());
    for (const int64_t i : {0, 1}) {
      View one = ranges.view.slice(0, i, 1);
      lower_reduce(l_, i == 0 ? ReduceKind::min : ReduceKind::max, l_.in(0), axes, ranges.with_view(one, 1));
    }
    join(1, ranges);
  }

  Lowering& l_;
  Operand x_;
  RowProblem p_;
};

void DynamicScale::lower(Lowering& l) const { ScaleLowering(l).run(); }

}  // namespace

ByteScaling byte_scaling(const RefTensor& x) {
  double low = 0, high = 0;
  for (const double v : x.real) {
    low = std::isnan(v) ? v : std::fmin(low, v);
    high = std::isnan(v) ? v : std::fmax(high, v);
    if (std::isnan(v)) break;
  }
  const float width = (static_cast<float>(high) - static_cast<float>(low)) / 255;
  ByteScaling out{.scale = width == 0 ? 1.0F : width};
  out.zero = out.byte(-low);
  return out;
}

double ByteScaling::byte(double v) const {
  const double q = std::nearbyint(static_cast<double>(static_cast<float>(v) / scale));
  return std::isnan(q) ? 0 : std::clamp(q + zero, 0.0, 255.0);
}

DynamicScaling dynamic_scale(Value x) {
  return named_outputs<DynamicScaling>(add_node(std::make_shared<DynamicScale>(), {x}));
}

namespace ops {
void register_dynamic_scale(OpTable& table) {
  table.add<DynamicScale>(
      {.formula =
           "scale = (max(x, 0) - min(x, 0)) / 255, 1 if that is 0; zero_point = round(-min(x, 0) / scale)",
       .operands = "x: what is to be quantised",
       .outputs = "scale (f32): [], how much of x one step is\n"
                  "zero_point (u8): [], the step that stands for 0",
       .types = "f32 f16 bf16",
       .variants = names_of(kSplittableRows),
       .samples = {"dynamic_scale(T[3,17])", "dynamic_scale(T[257] in 1..3)", "dynamic_scale(T[5] in 0..0)",
                   "dynamic_scale(T[2,3,4] in -3..-1)", "dynamic_scale(T[0,3])", "dynamic_scale(T[])",
                   "dynamic_scale(T[65537])"}});
}
}  // namespace ops

}  // namespace rlx
