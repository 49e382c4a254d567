// Boxes by their scores, without those that overlap a better one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/reference.h"
#include "kernels/suppress.wgsl.h"
#include "kernels/suppress_list.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/machinery/rows.h"
#include "ops/order/row_order.h"
#include "ops/rearrange/scatter.h"
#include "ops/reductions/cumulative.h"
#include "rlx/graph.h"
#include "rlx/ops/run_sizes.h"

namespace rlx {
namespace {

// `count` is a symbol for the number of chosen boxes, the room that there is for them, or not given: room for
// all, as for nonzero.
struct NonMaxSuppression final : OpOf<NonMaxSuppression> {
  static constexpr auto kName = "non_max_suppression";
  int64_t most = 0;
  double overlap = 0;
  std::optional<double> score;
  bool centers = false;
  std::optional<Dim> count;

  void visit_attributes(AttributeVisitor& v) override {
    v("most", most);
    v("overlap", overlap, 0.0);
    v("score", score);
    v("centers", centers, false);
    v("count", count);
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(2);
    in.expect_float(0);
    in.expect_float(1);
    const Shape& boxes = in.shape(0);
    const Shape& scores = in.shape(1);
    if (boxes.rank() != 3 || !boxes[2].is(4) || scores.rank() != 3 || boxes[0] != scores[0] ||
        boxes[1] != scores[2]) {
      fail("non_max_suppression: boxes {} and scores {} must be [batch, n, 4] and [batch, classes, n]",
           boxes.text(), scores.text());
    }
    if (most < 0) fail("non_max_suppression: the number of boxes to choose is {}", most);
    if (count && !count->as_symbol() && !(count->is_static() && count->value() >= 0))
      fail("non_max_suppression: the attribute count is {}; it must be a symbol, or the room for boxes",
           count->text());
    return {{DType::i64, {count ? *count : largest(scores), 3}}, {DType::i32, {}}};
  }

  std::optional<RunSize> run_size(std::span<const TensorType> inputs) const override {
    if (!count) return std::nullopt;
    return RunSize{*count, largest(inputs[1].shape)};
  }

  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;

 private:
  Dim largest(const Shape& scores) const {
    const bool all = scores[2].is_static() && scores[2].value() < most;
    return scores[0] * scores[1] * (all ? scores[2] : Dim(most));
  }
};

// --- Reference ---

struct Box {
  double low[2], high[2];
  double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

Box box_of(const double* v, bool centers) {
  Box b;
  for (size_t i = 0; i < 2; ++i) {
    b.low[i] = centers ? v[i] - v[i + 2] / 2 : std::min(v[i], v[i + 2]);
    b.high[i] = centers ? v[i] + v[i + 2] / 2 : std::max(v[i], v[i + 2]);
  }
  return b;
}

double overlap_of(const Box& a, const Box& b) {
  double both = 1;
  for (size_t i = 0; i < 2; ++i)
    both *= std::max(0.0, std::min(a.high[i], b.high[i]) - std::max(a.low[i], b.low[i]));
  return both <= 0 ? 0 : both / (a.area() + b.area() - both);
}

void NonMaxSuppression::reference(RefContext& r) const {
  const std::vector<double>& boxes = r.in(0).real;
  const std::vector<double>& scores = r.in(1).real;
  const std::vector<int64_t>& dims = r.in(1).dims;
  const auto n = static_cast<size_t>(dims[2]);
  std::vector<int64_t> list;
  for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
    const int64_t batch = row / dims[1];
    const double* score_of = scores.data() + static_cast<size_t>(row) * n;
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return score_of[i]; });
    std::vector<Box> chosen;
    for (const size_t i : order) {
      if (std::ssize(chosen) == most) break;
      if (score && !(score_of[i] > *score)) continue;
      const Box b = box_of(boxes.data() + (static_cast<size_t>(batch) * n + i) * 4, centers);
      if (std::ranges::any_of(chosen, [&](const Box& c) { return overlap_of(c, b) > overlap; })) continue;
      chosen.push_back(b);
      list.insert(list.end(), {batch, row % dims[1], static_cast<int64_t>(i)});
    }
  }
  const int64_t found = std::ssize(list) / 3;
  const int64_t room = !count ? r.out(0).dims[0] : count->is_static() ? count->value() : found;
  list.resize(static_cast<size_t>(3 * room));
  r.out(0) = RefTensor::zeros(DType::i64, {room, 3});
  r.out(0).ints = list;
  r.out(1).ints[0] = found;
}

// --- Lowering ---

void NonMaxSuppression::lower(Lowering& l) const {
  const Operand& scores = l.in(1);
  const Dims& dims = scores.view.dims;
  const int64_t rows = dims[0] * dims[1];
  const int64_t n = dims[2];
  const int64_t wanted = std::min(most, n);
  const Operand& list = l.out(0);
  if (list.view.elements() > 0) lower_fill(l, list, 0);
  if (rows * wanted == 0) {
    lower_fill(l, l.out(1), 0);
    return;
  }
  const Operand order = l.scratch(DType::u32, {rows, n});
  lower_order(l, {.op = "sort",
                  .ranks = lower_ranks(l, as_rows(scores, {2}), true, n),
                  .rows = rows,
                  .length = n,
                  .count = n,
                  .bits = rank_bits(scores.dtype),
                  .y = order.with_view(order.view, 1)});
  // A row is a batch and a class; all classes share the boxes of their batch.
  View boxes = l.in(0).view;
  boxes.dims.insert(boxes.dims.begin() + 1, dims[1]);
  boxes.strides.insert(boxes.strides.begin() + 1, 0);
  const auto by_class = [&](const Operand& o, std::vector<int64_t> inner) {
    inner.insert(inner.begin(), {dims[0], dims[1]});
    return o.with_view(View::contiguous(inner), 2);
  };
  const Operand state = l.scratch(DType::u32, {rows, n});
  const Operand chosen = l.scratch(DType::u32, {rows, wanted});
  const Operand counts = l.scratch(DType::u32, {rows});
  RowProblem p{.rows = rows, .length = n * wanted, .side_by_side = true};
  p.run = [&](const Team& team) {
    const Dispatch d = row_dispatch<kernels::suppress>(l, team, rows,
                                                       {.boxes = l.in(0).with_view(boxes, 2),
                                                        .scores = scores.with_view(scores.view, 2),
                                                        .order = by_class(order, {n}),
                                                        .state = by_class(state, {n}),
                                                        .chosen = by_class(chosen, {wanted}),
                                                        .count = by_class(counts, {})},
                                                       {.boxes = to_u32(n),
                                                        .most = to_u32(wanted),
                                                        .overlap = static_cast<float>(overlap),
                                                        .least = static_cast<float>(score.value_or(0))},
                                                       {.CENTERS = centers, .HAS_LEAST = score.has_value()});
    return l.rows(d, rows, team.rows_per_group);
  };
  if (!emit_rows(l, kName, p)) fail_to_bind(l.caps());
  const Operand upto = l.scratch(DType::u32, {rows});
  const auto as_row = [&](const Operand& o) { return o.with_view(View::contiguous({1, rows}), 1); };
  lower_scan(l, {.x = as_row(counts), .y = as_row(upto)});
  lower_expr(l, Expr::parse("cast_i32($0)", {DType::u32}), {upto.with_view({{}, {}, rows - 1})}, l.out(1));
  if (list.view.elements() == 0) return;
  split_for_windows(l, rows, list, [&](int64_t begin, int64_t length, const Operand& to) {
    const auto part = [&](const Operand& o) { return o.with_view(o.view.slice(0, begin, length)); };
    return l.make<kernels::suppress_list>(
        {.chosen = part(chosen), .count = part(counts), .upto = part(upto), .y = to},
        {.rows = to_u32(length),
         .row = to_u32(begin),
         .most = to_u32(wanted),
         .classes = to_u32(dims[1]),
         .room = to_u32(list.view.dims[0])},
        ceil_div(length * wanted, int64_t{kernels::suppress_list::GROUP}));
  });
}

}  // namespace

ChosenBoxes non_max_suppression(Value boxes, Value scores, const SuppressionOptions& options) {
  auto op = std::make_shared<NonMaxSuppression>();
  op->most = options.most;
  op->overlap = options.overlap;
  op->score = options.score;
  op->centers = options.centers;
  if (!options.symbol.empty()) {
    op->count = Dim::symbol(options.symbol);
    if (options.capacity > 0) boxes.graph().set_capacity(options.symbol, options.capacity);
  } else if (options.capacity > 0) {
    op->count = Dim(options.capacity);
  }
  return named_outputs<ChosenBoxes>(add_node(op, {boxes, scores}));
}

namespace ops {
void register_non_max_suppression(OpTable& table) {
  table.add<NonMaxSuppression>(
      {.formula = "batch, class and number of the boxes that are chosen by their scores, at most `most` of "
                  "each class, "
                  "without those that overlap a better one by more than `overlap`; and how many there are",
       .operands =
           "boxes (float): [batch, n, 4], opposite corners y1, x1, y2, x2 of each, or as centers says\n"
           "scores (float): [batch, classes, n]",
       .attributes =
           "most: how many boxes of each batch and class are selected at most\n"
           "overlap: a box is dropped if its intersection over union with a better one exceeds this\n"
           "score: only boxes with a greater score are selected; any score will do if not given\n"
           "centers: boxes are given as x and y of the centre, width and height\n"
           "count: how many rows selected has, or a symbol for as many as the run selects; if not given, as "
           "many as there can be",
       .outputs = "selected (i64): [rows, 3], batch, class and box of each, with zeros after the last\n"
                  "count (i32): [], how many boxes are selected, even if there are fewer rows",
       .types = "f32",
       .variants = names_of(kRowVariants),
       .samples = {"non_max_suppression(T[2,17,4] in 0..1, T[2,3,17]) {most=4, overlap=0.3}",
                   "non_max_suppression(T[1,70,4] in 0..1, T[1,2,70]) {most=100, overlap=0.5, score=0.1, "
                   "centers=true}",
                   "non_max_suppression(T[1,1,4], T[1,1,1]) {most=1}",
                   "non_max_suppression(T[1,0,4], T[1,1,0]) {most=3}",
                   "non_max_suppression(T[1,5,4], T[1,2,5]) {most=0}",
                   "non_max_suppression(T[3,40,4] in 0..1, T[3,5,40]) {most=7, overlap=0.2, count=11}",
                   "non_max_suppression(T[1,3001,4] in 0..1, T[1,2,3001]) {most=50, overlap=0.1}"}});
}
}  // namespace ops

}  // namespace rlx
