// Evenly spaced whole numbers, whose first one and number may depend on symbols: positions of a sequence, and
// sizes where a graph computes with them.
#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/lowering.h"
#include "kernels/range.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"

namespace rlx {
namespace {

struct RangeOp final : OpOf<RangeOp> {
  static constexpr auto kName = "range";
  Dim length;
  Dim start;
  int64_t step = 1;
  DType dtype = DType::i64;

  void visit_attributes(AttributeVisitor& v) override {
    v("length", length);
    v("start", start, Dim(0));
    v("step", step, 1);
    v("dtype", dtype, DType::i64);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(0);
    if (!is_float(dtype) && !is_integer(dtype))
      fail("range: cannot make numbers of the type {}", to_string(dtype));
    if (length.is_static() && length.value() < 0) fail("range: the length is {}", length.value());
    if (length.is_static() && start.is_static() && length.value() > 0) {
      to_i32(start.value());
      to_i32(checked_add(start.value(), checked_mul(length.value() - 1, step)));
    }
    return {{dtype, {length}}};
  }

  void reference(RefContext& r) const override {
    r.out().visit([&]<class T>(std::vector<T>& out) {
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t number = start.value() + static_cast<int64_t>(i) * step;
        if constexpr (std::is_same_v<T, int64_t>) {
          out[i] = number;
        } else {
          out[i] = static_cast<double>(number);
        }
      }
    });
  }

  void lower(Lowering& l) const override {
    l.flat<kernels::range>({.y = l.out()}, {.start = to_i32(start.value()), .step = to_i32(step)});
  }
};

}  // namespace

Value range(Graph& graph, Dim length, Dim start, int64_t step, DType dtype) {
  auto op = std::make_shared<RangeOp>();
  op->length = std::move(length);
  op->start = std::move(start);
  op->step = step;
  op->dtype = dtype;
  return graph.add_value(op, {});
}

namespace ops {
void register_range(OpTable& table) {
  table.add<RangeOp>({.formula = "y[i] = start + i step, for i < length",
                      .operands = "",
                      .attributes = "length: how many numbers\n"
                                    "start: the first number\n"
                                    "step: the difference between neighbours\n"
                                    "dtype: the type of y, a float or integer type",
                      .outputs = "y (float integer): [length]",
                      .types = "i64",
                      .variants = {"range"},
                      .samples = {"range() {length=17, start=-3, step=2}", "range() {length=0}",
                                  "range() {length=257, dtype=f16}", "range() {length=5, dtype=u8}",
                                  "range() {length=3, start=7, step=-7, dtype=i8}"}});
}
}  // namespace ops

}  // namespace rlx
