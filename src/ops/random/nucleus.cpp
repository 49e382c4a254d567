// A search by digits: the sums of the elements under each next digit of their keys say where the sum of all
// that come before reaches the part. Exact for rows of any length, without sorting them.
#include "ops/random/nucleus.h"

#include <algorithm>
#include <cmath>

#include "base/fail.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lib.wgsl.h"
#include "kernels/nucleus_pick.wgsl.h"
#include "kernels/nucleus_sum.wgsl.h"
#include "kernels/rates.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/graph.h"

namespace rlx {
namespace {

constexpr int64_t kDigits = kernels::nucleus_sum::DIGITS;
constexpr uint32_t kDigitBits = 4;
constexpr uint32_t kFirstShift = 28;
constexpr Team kSerial{"team_serial", 1, int64_t{kernels::lib::team_serial::ROWS_PER_GROUP}};
constexpr Team kPickers{"team_workgroup", 64, 1};

struct Nucleus final : OpOf<Nucleus> {
  static constexpr auto kName = "nucleus";
  double top_p = 1;

  void visit_attributes(AttributeVisitor& v) override { v("top_p", top_p); }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    in.expect_float(0);
    Shape y = in.shape(0);
    if (y.rank() == 0 || y[y.rank() - 1].is(0)) fail("nucleus: the rows of {} are empty", y.text());
    y[y.rank() - 1] = 1;
    return {TensorType{DType::f32, y}, TensorType{DType::i32, y}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    const auto length = static_cast<size_t>(x.dims.back());
    for (size_t row = 0; row < r.out(0).real.size(); ++row) {
      std::vector<double> sorted(x.real.begin() + static_cast<std::ptrdiff_t>(row * length),
                                 x.real.begin() + static_cast<std::ptrdiff_t>((row + 1) * length));
      std::ranges::sort(sorted, std::greater());
      double total = 0;
      for (const double v : sorted) total += std::exp(v);
      double sum = std::exp(sorted[0]);
      size_t last = 0;
      while (last + 1 < length && sum < top_p * total && std::exp(sorted[last + 1]) > 0)
        sum += std::exp(sorted[++last]);
      const auto first = std::ranges::find(sorted, sorted[last]) - sorted.begin();
      r.out(0).real[row] = sorted[last];
      r.out(1).ints[row] = static_cast<int64_t>(last) - first + 1;
    }
  }

  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

class NucleusLowering {
 public:
  explicit NucleusLowering(Lowering& l) : l_(l), x_(as_rows(l.in(0), {l.in(0).view.rank() - 1})) {
    const int64_t most = rates_of(l.caps()).cpu ? 256 : 1024;
    blocks_ = std::clamp<int64_t>(ceil_div(row_length(x_), 64), 1, most);
    rows_ = row_count(x_);
    // Rows along one axis, so that they can be cut.
    if (const std::optional<View> flat = x_.view.reshape({rows_, row_length(x_)}))
      x_ = x_.with_view(*flat, 1);
    sums_ = l.scratch(DType::f32, {rows_, blocks_, kDigits});
    state_ = l.scratch(DType::u32, {rows_, 3});
    state_ = state_.with_view(state_.view, 1);
  }

  void run(double top_p) {
    for (uint32_t shift = kFirstShift;; shift -= kDigitBits) {
      sum(0, row_length(x_), 0, blocks_, shift);
      pick(shift, top_p);
      if (shift == 0) return;
    }
  }

 private:
  // Elements [begin, end) of all rows, as these blocks.
  void sum(int64_t begin, int64_t end, int64_t block, int64_t blocks, uint32_t shift) {
    const Operand part = x_.with_view(x_.view.slice(x_.outer_rank, begin, end - begin), x_.outer_rank);
    const Operand to = sums_.with_view(sums_.view.slice(1, block, blocks), 1);
    const auto make = [&](int64_t row, int64_t rows) {
      const auto some = [&](const Operand& o) {
        return o.with_view(o.view.slice(0, row, rows), o.outer_rank);
      };
      const bool all = rows == rows_;
      return row_dispatch<kernels::nucleus_sum>(
          l_, kSerial, rows * blocks,
          {.x = all ? part : some(part), .state = all ? state_ : some(state_), .y = all ? to : some(to)},
          {.blocks = to_u32(blocks), .length = to_u32(end - begin), .shift = shift},
          {.FIRST = shift == kFirstShift});
    };
    if (blocks == 1 || end - begin < blocks || fits(make(0, 1), l_.caps())) {
      l_.split(rows_, 1, make);
      return;
    }
    const int64_t half = (end - begin) / 2;
    sum(begin, begin + half, block, blocks / 2, shift);
    sum(begin + half, end, block + blocks / 2, blocks - blocks / 2, shift);
  }

  void pick(uint32_t shift, double top_p) {
    const auto by_row = [](const Operand& o) { return o.with_view(o.view, o.view.rank()); };
    const Dispatch d =
        row_dispatch<kernels::nucleus_pick>(l_, kPickers, rows_,
                                            {.x = sums_.with_view(sums_.view, 1),
                                             .state = state_,
                                             .y = by_row(l_.out(0)),
                                             .count = by_row(l_.out(1))},
                                            {.blocks = to_u32(blocks_), .top_p = static_cast<float>(top_p)},
                                            {.FIRST = shift == kFirstShift, .LAST = shift == 0});
    if (!l_.rows(d, rows_, kPickers.rows_per_group)) fail_to_bind(l_.caps());
  }

  Lowering& l_;
  Operand x_, sums_, state_;
  int64_t rows_ = 0;
  int64_t blocks_ = 1;
};

void Nucleus::lower(Lowering& l) const {
  if (l.out().view.elements() > 0) NucleusLowering(l).run(top_p);
}

}  // namespace

std::vector<Value> nucleus(Value x, double top_p) {
  auto op = std::make_shared<Nucleus>();
  op->top_p = top_p;
  const Value y = add_node(op, {x});
  return {y, x.graph().value({y.id().node, 1})};
}

namespace ops {
void register_nucleus(OpTable& table) {
  table.add<Nucleus>(
      {.formula = "of rows of x <= 0: the least element that is needed for the probability top_p in "
                  "softmax(x), and how many of those that equal it",
       .operands = "x: rows [.., n] of logits, each less its largest one",
       .attributes = "top_p: the probability that the elements are to have together",
       .outputs = "threshold (f32): [.., 1], the least element that is needed; all above it are too\n"
                  "count (i32): [.., 1], how many of those that equal the threshold are needed",
       .types = "f32 f16 bf16",
       .variants = {"nucleus"},
       .samples = {"nucleus(T[3,17] in -9..0) {top_p=0.7}", "nucleus(T[257] in -3..0) {top_p=0.5}",
                   "nucleus(T[2,3,1] in -2..0) {top_p=0.9}", "nucleus(T[0,5]) {top_p=0.9}",
                   "nucleus(T[41,1003] in -20..0) {top_p=0.95}"},
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
