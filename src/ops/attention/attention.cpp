#include "ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/attention_problem.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "rlx/graph.h"

namespace rlx {

void Attention::visit_attributes(AttributeVisitor& v) {
  v("heads", heads, 0);
  v("kv_heads", kv_heads, 0);
  v.choice("layout", layout, {"bhsd", "bshd", "bsd"}, std::optional(AttentionLayout::bhsd));
  v.choice("mask", mask, {"none", "causal", "sliding_window"}, std::optional(MaskKind::none));
  v("window", window, 0);
  v("scale", scale);
  v("soft_cap", soft_cap);
  v("masked_score", masked_score, -std::numeric_limits<double>::infinity());
  v.choice("empty_row", empty_row, {"zeros", "nan"}, std::optional(EmptyRow::zeros));
  v("round_scores", round_scores, false);
  v("log_sum_exp", log_sum_exp, false);
}

double Attention::scale_for(int64_t head) const {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(head, 1)));
}

namespace {

// Those of a batch, whether or not `lengths` counts them.
Dim keys_of(const Attention& op, std::span<const TensorType> inputs) {
  const Dim rows = inputs[1].shape[op.layout == AttentionLayout::bhsd ? 2 : 1];
  const bool paged = inputs.size() > Attention::kPages && inputs[Attention::kPages].shape.rank() == 2;
  return paged ? rows * inputs[Attention::kPages].shape[1] : rows;
}

struct Sizes {
  Dim batch, heads, length, head;
};

// What the shape of q, k or v says in the op's layout.
Sizes read_dims(const Attention& op, const InferArgs& in, int64_t input, int64_t heads) {
  const Shape& s = in.shape(input);
  const int64_t rank = op.layout == AttentionLayout::bsd ? 3 : 4;
  if (s.rank() != rank) {
    fail("attention: {} has rank {}; this layout needs {}", in.operand_name(input), s.rank(), rank);
  }
  if (op.layout == AttentionLayout::bhsd) return {s[0], s[1], s[2], s[3]};
  if (op.layout == AttentionLayout::bshd) return {s[0], s[2], s[1], s[3]};
  if (heads == 0)
    fail("attention: the layout bsd does not determine the number of heads; set the attribute heads");
  const std::optional<Dim> head = Dim::exact_div(s[2], Dim(heads));
  if (!head) {
    fail("attention: {} has {} elements at each position, which is not a multiple of its {} heads",
         in.operand_name(input), s[2].text(), heads);
  }
  return {s[0], Dim(heads), s[1], *head};
}

void expect_equal(const Dim& a, const Dim& b, std::string_view what) {
  if (!(a == b)) fail("attention: {} differ: {} against {}", what, a.text(), b.text());
}

struct Checked {
  Sizes q, k, v;
  int64_t heads = 0, kv_heads = 0;
  Dim keys;
};

Checked check_inputs(const Attention& op, const InferArgs& in) {
  Checked c;
  c.q = read_dims(op, in, 0, op.heads);
  if (!c.q.heads.is_static()) fail("attention: the number of heads, {}, must be a number", c.q.heads.text());
  c.heads = c.q.heads.value();
  c.kv_heads = op.kv_heads != 0 ? op.kv_heads : c.heads;
  if (op.heads != 0 && op.heads != c.heads)
    fail("attention: q has {} heads, but the attribute says {}", c.heads, op.heads);
  if (c.heads < 1 || c.kv_heads < 1 || c.heads % c.kv_heads != 0) {
    fail("attention: {} heads cannot be divided evenly among {} heads of keys", c.heads, c.kv_heads);
  }
  c.k = read_dims(op, in, 1, c.kv_heads);
  c.v = read_dims(op, in, 2, c.kv_heads);
  // Op::tolerance gives scalars for inputs that are absent.
  const bool paged = in.has(Attention::kPages) && in.shape(Attention::kPages).rank() == 2;
  const Dim& batch = paged ? c.k.batch : c.q.batch;
  for (const Sizes* d : {&c.k, &c.v}) {
    expect_equal(d->heads, Dim(c.kv_heads), "the heads of keys or values and the attribute kv_heads");
    expect_equal(d->batch, batch,
                 paged ? "the pages of keys and values" : "the batches of keys or values and of queries");
  }
  expect_equal(c.k.length, c.v.length, "the numbers of keys and values");
  expect_equal(c.q.head, c.k.head, "the head sizes of queries and keys");
  c.keys = paged ? c.k.length * in.shape(Attention::kPages)[1] : c.k.length;
  return c;
}

// Before all else: what keys and values must be depends on it.
void check_pages_rank(const InferArgs& in) {
  if (!in.has(Attention::kPages) || in.shape(Attention::kPages).rank() == 2) return;
  fail("attention: the pages are {}; they must be [batch, pages of a batch]",
       in.shape(Attention::kPages).text());
}

void check_mask(const InferArgs& in, const Checked& c) {
  in.expect_dtype(3, in.dtype(3) == DType::bool_ || is_float(in.dtype(3)), "bool or a float type");
  const Shape scores{c.q.batch, Dim(c.heads), c.q.length, c.keys};
  if (in.shape(3).rank() > 4 || !(broadcast(scores, in.shape(3), "attention") == scores)) {
    fail("attention: the mask {} does not broadcast to [batch, heads, queries, keys] = {}",
         in.shape(3).text(), scores.text());
  }
}

void expect_shape(const InferArgs& in, int64_t input, std::string_view what, const Shape& wanted) {
  if (!(in.shape(input) == wanted))
    fail("attention: the {} are {}; they must be {}", what, in.shape(input).text(), wanted.text());
}

void check_forms(const InferArgs& in, const Checked& c, AttentionLayout layout) {
  using enum Attention::Input;
  for (const int64_t i : {kLengths, kPages, kStart}) {
    if (!in.has(i)) continue;
    const DType t = in.dtype(i);
    in.expect_dtype(i, t == DType::i32 || t == DType::i64 || t == DType::u32, "i32, i64 or u32");
    if (i != kPages && in.shape(i).rank() != 0)
      expect_shape(in, i, i == kLengths ? "lengths" : "starts", {c.q.batch});
  }
  if (in.has(kPages)) {
    const Shape& pages = in.shape(kPages);
    if (!(pages[0] == c.q.batch))
      fail("attention: the pages are {}; they must be [batch, pages of a batch], with a batch of {}",
           pages.text(), c.q.batch.text());
    if (c.k.batch.is(0)) fail("attention: the cache has no pages");
  }
  for (const int64_t i : {kSinks, kSlopes}) {
    if (!in.has(i)) continue;
    in.expect_float(i);
    expect_shape(in, i, i == kSinks ? "sinks" : "slopes", {Dim(c.heads)});
  }
  for (const int64_t i : {kKScale, kVScale}) {
    if (!in.has(i)) continue;
    in.expect_float(i);
    const Sizes& s = i == kKScale ? c.k : c.v;
    expect_shape(in, i, i == kKScale ? "scales of keys" : "scales of values",
                 layout == AttentionLayout::bhsd ? Shape{s.batch, s.heads, s.length}
                                                 : Shape{s.batch, s.length, s.heads});
  }
}

// Keys and values with scales are i8, others are of the type of q.
void check_types(const InferArgs& in) {
  in.expect_float(0);
  for (const int64_t i : {Attention::kK, Attention::kV}) {
    const int64_t scale = i == Attention::kK ? Attention::kKScale : Attention::kVScale;
    if (in.has(scale)) {
      in.expect_dtype(i, in.dtype(i) == DType::i8, "i8, since it has scales");
    } else {
      in.expect_same_dtype(0, i);
    }
  }
}

}  // namespace

std::vector<TensorType> Attention::infer(const InferArgs& in) const {
  in.expect_count(kMask, kInputCount);
  std::vector<TensorType> out = {in[0]};  // the output is q with another head size
  if (log_sum_exp) out.push_back({DType::f32, Shape{0, 0, 0}});
  infer_again(in, out);
  return out;
}

void Attention::infer_again(const InferArgs& in, std::vector<TensorType>& types) const {
  check_types(in);
  if (window < 0) fail("attention: the window is {}; it cannot be negative", window);
  if (window > 0 && mask != MaskKind::sliding_window)
    fail("attention: the window is {}, but the mask is not sliding_window", window);
  if (scale && !std::isfinite(*scale)) fail("attention: the scale is {}; it must be finite", *scale);
  if (soft_cap && !(*soft_cap > 0)) fail("attention: the soft cap is {}; it must be positive", *soft_cap);
  if (round_scores && (layout == AttentionLayout::bsd || mask != MaskKind::none || soft_cap || log_sum_exp ||
                       empty_row != EmptyRow::nan || in.count() > kLengths)) {
    fail(
        "attention: round_scores needs the layout bhsd or bshd, the mask none, no soft cap, empty_row nan, "
        "and "
        "no inputs or outputs beyond a mask");
  }
  if (std::isnan(masked_score)) fail("attention: the score of masked keys is NaN; it must be a number");
  check_pages_rank(in);
  const Checked c = check_inputs(*this, in);
  if (in.has(kMask)) check_mask(in, c);
  if (in.count() > kLengths) check_forms(in, c, layout);
  types[0] = in[0];
  Shape& y = types[0].shape;
  y[y.rank() - 1] = layout == AttentionLayout::bsd ? c.v.head * Dim(c.heads) : c.v.head;
  if (!log_sum_exp) return;
  Shape& sums = types[1].shape;
  sums[0] = c.q.batch;
  sums[1] = Dim(c.heads);
  sums[2] = c.q.length;
}

// Each element of q and of the result is multiplied once for each key.
double Attention::flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const {
  const auto elements = [](const TensorType& type) {
    return static_cast<double>(type.shape.elements().value());
  };
  return 2 * (elements(inputs[0]) + elements(outputs[0])) *
         static_cast<double>(keys_of(*this, inputs).value());
}

std::optional<ValueRange> Attention::sensible_values(int64_t input,
                                                     std::span<const TensorType> inputs) const {
  if (input == kLengths) return values_between(1, keys_of(*this, inputs));
  if (input == kPages) return values_between(0, inputs[kK].shape[0] - 1);
  if (input == kStart) return values_between(0, keys_of(*this, inputs) - 1);
  return std::nullopt;
}

Tolerance Attention::tolerance(std::span<const TensorType> inputs) const {
  const Checked c = check_inputs(*this, InferArgs(*this, inputs));
  const auto head = static_cast<double>(c.q.head.value());
  // A score is a sum of `head` products of numbers up to 2, 4/3 on average: its error moves the weight of a
  // value by as much, relative to it, and the exponential adds its own. tanh is 2 units off, of a number as
  // large as the cap.
  const double score_ulps = std::fabs(scale_for(c.q.head.value())) * head * 4 / 3;
  // Three more roundings of a score, and one of a weight, if they are those of a 16-bit type.
  const DType type = inputs[0].dtype;
  const double rounded =
      round_scores && type != DType::f32 ? (3 * score_ulps + 1) * epsilon(type) / epsilon(DType::f32) : 0;
  const auto keys = static_cast<double>(c.keys.value());
  // Slopes up to 2 take up to twice the distance off a score, which is rounded.
  const bool falls = inputs.size() > kSlopes && inputs[kSlopes].shape.rank() == 1;
  return {.ulps = 8 + score_ulps + 4 * soft_cap.value_or(0) + rounded + (falls ? 2 * keys : 0),
          .terms = keys,
          .scale = 2};
}

namespace {

std::shared_ptr<Attention> make_op(const AttentionOptions& options) {
  auto op = std::make_shared<Attention>();
  op->heads = options.heads;
  op->kv_heads = options.kv_heads;
  op->layout = options.layout;
  op->mask = options.mask;
  op->window = options.window;
  op->scale = options.scale;
  op->soft_cap = options.soft_cap;
  op->masked_score = options.masked_score;
  op->empty_row = options.empty_row;
  return op;
}

std::vector<Value> make_inputs(Value q, Value k, Value v, const AttentionOptions& o, Value mask) {
  return {std::move(q), std::move(k), std::move(v), std::move(mask), o.lengths, o.sinks,
          o.slopes,     o.pages,      o.start,      o.k_scale,       o.v_scale};
}

}  // namespace

Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask) {
  Graph& graph = q.graph();
  return graph.add_value(make_op(options), make_inputs(q, k, v, options, mask));
}

AttentionPart attention_with_log_sum(Value q, Value k, Value v, const AttentionOptions& options, Value mask) {
  auto op = make_op(options);
  op->log_sum_exp = true;
  Graph& graph = q.graph();
  return named_outputs<AttentionPart>(graph.add_value(std::move(op), make_inputs(q, k, v, options, mask)));
}

namespace ops {
void register_attention(OpTable& table) {
  table.add<Attention>(
      {.formula =
           "softmax(mask(cap(scale q k^T))) v for each head; heads in groups may share keys and values",
       .operands =
           "q: queries [batch, heads, sequence, head], or as the layout says\n"
           "k (T i8): keys, likewise\n"
           "v (T i8): values, likewise\n"
           "mask? (T f32 bool): broadcast to [batch, heads, queries, keys]: true keeps a score, a float is "
           "added to it\n"
           "lengths? (i32 i64 u32): [batch] or [], how many keys count\n"
           "sinks? (float): [heads], a score that takes its share in the softmax and has no value\n"
           "slopes? (float): [heads], what a score loses for each position between query and key\n"
           "pages? (i32 i64 u32): [batch, n], which pages of k and v [pages, ..] the keys are in\n"
           "start? (i32 i64 u32): [batch] or [], the row of the first key in a cache that is a ring\n"
           "k_scale? (float): what keys of the type i8 are multiplied by, one for each row and head\n"
           "v_scale? (float): likewise for values",
       .attributes =
           "heads: of q; 0: as its shape says, where the layout has an axis for them\n"
           "kv_heads: of k and v; 0: as many as heads; fewer: groups of heads share them\n"
           "layout: the order of axes: batch, heads, sequence, head size (bsd: all heads side by side)\n"
           "mask: which keys a query sees, aligned at the last query and the last key\n"
           "window: for sliding_window, how many keys before its own a query sees\n"
           "scale: of the scores; 1 / sqrt(head size) if not given\n"
           "soft_cap: scores become cap * tanh(score / cap); none if not given\n"
           "masked_score: of keys where a bool mask is false\n"
           "empty_row: the result for a query all of whose scores are minus infinity\n"
           "round_scores: scores and weights are rounded to the type of q\n"
           "log_sum_exp: whether there is the output log_sum",
       .outputs = "y: as q, with the head size of v\n"
                  "log_sum? (f32): [batch, heads, queries], the logarithm of the sum of e^score",
       .types = "f32 f16 bf16",
       .variants = attention_variants(),
       .samples = {
           "attention(T[2,3,17,64], T[2,3,17,64], T[2,3,17,64])",
           "attention(T[1,17,4,8], T[1,9,4,8], T[1,9,4,8]) {heads=4, layout=\"bshd\"}",
           "attention(T[2,5,48], T[2,129,48], T[2,129,48]) {heads=3, layout=\"bsd\"}",
           // Masks of every broadcast form.
           "attention(T[2,3,5,16], T[2,3,7,16], T[2,3,7,16], bool[5,7])",
           "attention(T[2,3,5,16], T[2,3,7,16], T[2,3,7,16], T[3,1,7])",
           "attention(T[2,5,48], T[2,7,48], T[2,7,48], bool[2,1,1,7]) {heads=3, layout=\"bsd\"}",
           "attention(T[2,4,5,16], T[2,2,7,16], T[2,2,7,16], f32[2,4,5,7]) {kv_heads=2}",
           "attention(T[2,4,5,16], T[2,2,7,16], T[2,2,7,16], bool[2,1,5,1]) {kv_heads=2}",
           // Causal, with more keys than queries and with fewer: then the first queries see nothing.
           "attention(T[1,2,17,20], T[1,2,17,20], T[1,2,17,20]) {mask=\"causal\"}",
           "attention(T[1,2,3,20], T[1,2,129,20], T[1,2,129,20]) {mask=\"causal\"}",
           "attention(T[1,2,17,20], T[1,2,3,20], T[1,2,3,20]) {mask=\"causal\"}",
           "attention(T[1,2,40,20], T[1,2,50,20], T[1,2,50,20]) {mask=\"sliding_window\", window=6}",
           "attention(T[1,2,9,20], T[1,2,9,20], T[1,2,9,20], T[9,9]) {mask=\"sliding_window\"}",
           // Groups of heads, one head of keys for all, a different size of values.
           "attention(T[1,1,8,32], T[1,33,2,32], T[1,33,2,32]) {kv_heads=2, layout=\"bshd\", "
           "mask=\"causal\"}",
           "attention(T[2,3,24], T[2,5,6], T[2,5,9]) {heads=4, kv_heads=1, layout=\"bsd\"}",
           "attention(T[1,2,7,17], T[1,2,7,17], T[1,2,7,1])",
           "attention(T[1,2,7,1], T[1,2,7,1], T[1,2,7,17])",
           "attention(T[1,2,5,12], T[1,2,20,12], T[1,2,20,80]) {scale=0.5, soft_cap=1.5}",
           "attention(T[1,2,5,12], T[1,2,20,12], T[1,2,20,12]) {scale=0}",
           "attention(T[1,1,3,80], T[1,1,17,80], T[1,1,17,80]) {soft_cap=30, mask=\"causal\"}",
           "attention(T[1,1,9,128], T[1,1,17,128], T[1,1,17,128])",
           "attention(T[1,1,9,256], T[1,1,17,256], T[1,1,17,256])",
           "attention(T[1,1,2,300], T[1,1,5,300], T[1,1,5,301])",
           // Past one binding of 64 KiB.
           "attention(T[2,130,256], T[2,129,256], T[2,129,256]) {heads=4, layout=\"bsd\", "
           "mask=\"causal\"}",
           "attention(T[3,4,65,64], T[3,4,65,64], T[3,4,65,64])",
           // A head whose keys exceed all bindings together.
           "attention(T[1,2,3,64], T[1,1,1500,64], T[1,1,1500,64], bool[3,1500]) {kv_heads=1, "
           "mask=\"causal\"}",
           "attention(T[1,1500,64], T[1,1500,64], T[1,1500,66]) {heads=1, layout=\"bsd\", "
           "mask=\"sliding_window\", window=900}",
           // Scores of masked keys, and rows that have no others.
           "attention(T[2,3,5,16], T[2,3,7,16], T[2,3,7,16], bool[5,7]) {masked_score=0.5}",
           "attention(T[2,4,5,16], T[2,2,7,16], T[2,2,7,16], bool[2,1,5,1]) {kv_heads=2, "
           "masked_score=-1000}",
           "attention(T[2,4,5,16], T[2,2,7,16], T[2,2,7,16], bool[2,1,5,1]) {kv_heads=2, "
           "empty_row=\"nan\"}",
           "attention(T[1,2,5,8], T[1,2,37,8], T[1,2,37,6], T[1,1,5,37]) {scale=0.5, empty_row=\"nan\", "
           "round_scores=true}",
           // Heads of size 0, no keys to see, and nothing to do.
           "attention(T[1,2,5,0], T[1,2,7,0], T[1,2,7,3])",
           "attention(T[1,2,5,8], T[1,2,0,8], T[1,2,0,8]) {empty_row=\"nan\"}",
           "attention(T[1,2,5,8], T[1,2,0,8], T[1,2,0,8])",
           "attention(T[0,2,5,8], T[0,2,5,8], T[0,2,5,8])",
           "attention(T[1,1,1,1], T[1,1,1,1], T[1,1,1,1])",
           // Batches with their own numbers of keys, scores without values, sums; past all bindings.
           "attention(T[2,4,3,20], T[2,2,50,20], T[2,2,50,17], none, i32[2] in 0..60, T[4]) {kv_heads=2, "
           "mask=\"causal\", log_sum_exp=true}",
           "attention(T[1,2,3,64], T[1,1,1500,64], T[1,1,1500,64], none, i64[] in 1200..1500, none, f32[2] "
           "in "
           "0..0.1) {kv_heads=1, log_sum_exp=true}",
           // Caches: of integers in pages, and a ring with a window.
           "attention(T[2,3,64], i8[9,5,32], i8[9,5,32], none, i32[2] in 3..18, none, none, i32[2,4] in "
           "-1..9, "
           "none, f32[9,5,2] in -0.04..0.04, f32[9,5,2] in -0.04..0.04) {heads=4, kv_heads=2, "
           "layout=\"bsd\", "
           "mask=\"causal\"}",
           "attention(T[2,2,5,16], T[2,2,37,16], T[2,2,37,16], T[5,37], u32[2] in 5..37, none, f32[2] in "
           "0..1, "
           "none, i32[2] in -40..99) {mask=\"sliding_window\", window=9}",
       }});
}
}  // namespace ops

}  // namespace rlx
