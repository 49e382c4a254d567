// Overlapping windows along an axis, as a view.
#include "base/fail.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/view_op.h"
#include "rlx/ops/spectra.h"

namespace rlx {
namespace {

struct Unfold final : ViewOf<Unfold> {
  static constexpr auto kName = "unfold";
  int64_t axis = -1, size = 1, step = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", axis, -1);
    v("size", size);
    v("step", step);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    Shape shape = in.shape(0);
    const int64_t at = in.axis(axis, shape.rank());
    if (!shape[at].is_static())
      fail("unfold: axis {} of {} must have a known length", at, in.shape(0).text());
    const int64_t length = shape[at].value();
    if (size < 1 || step < 1 || size > length)
      fail(
          "unfold: windows of {} elements, {} apart, along axis {} of {}; both must be at least 1, and the "
          "windows no longer than the axis",
          size, step, at, in.shape(0).text());
    shape[at] = (length - size) / step + 1;
    shape.push_back(size);
    return {TensorType{in.dtype(0), shape}};
  }
  std::optional<View> view(const View& input, const Dims& out_dims) const override {
    const auto at = static_cast<size_t>(normal_axis(axis, input.rank()));
    View out = input;
    out.dims = out_dims;
    out.strides.push_back(input.strides[at]);
    out.strides[at] *= step;
    return out;
  }
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

}  // namespace

Value unfold(Value x, int64_t axis, int64_t size, int64_t step) {
  auto op = std::make_shared<Unfold>();
  op->axis = axis;
  op->size = size;
  op->step = step;
  return add_node(op, {x});
}

namespace ops {
void register_unfold(OpTable& table) {
  table.add<Unfold>(
      {.formula = "windows of `size` elements, `step` apart; their elements are a new last axis",
       .operands = "x: of any shape",
       .attributes = "axis: along which the windows lie\n"
                     "size: how many elements a window has\n"
                     "step: from the beginning of one window to that of the next",
       .outputs = "y: the axis counts windows, and a new last axis their elements",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = {"view"},
       .samples = {"unfold(T[17]) {size=5, step=3}", "unfold(T[3,17]) {size=1, step=4}",
                   "unfold(T[9,4]) {axis=0, size=4, step=1}", "unfold(T[0,8]) {size=8, step=2}",
                   "unfold(T[2,9,3]) {axis=-2, size=2, step=5}", "unfold(T[65537]) {size=257, step=128}"}});
}
}  // namespace ops

}  // namespace rlx
