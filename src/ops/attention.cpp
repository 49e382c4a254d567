#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_blocked.wgsl.h"
#include "kernels/attention_online.wgsl.h"
#include "kernels/attention_plain.wgsl.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "ops/copy.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/op_table.h"
#include "ops/softmax.h"

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
}

double Attention::scale_for(int64_t head) const {
  return scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(head, 1)));
}

namespace {

struct Sizes {
  Dim batch, heads, length, head;
};

// What the shape of q, k or v says in the op's layout.
Sizes read_dims(const Attention& op, const InferArgs& in, int64_t input, int64_t heads) {
  const Shape& s = in.shape(input);
  const int64_t rank = op.layout == AttentionLayout::bsd ? 3 : 4;
  if (s.rank() != rank) fail("attention: input {} has rank {}; this layout needs {}", input, s.rank(), rank);
  if (op.layout == AttentionLayout::bhsd) return {s[0], s[1], s[2], s[3]};
  if (op.layout == AttentionLayout::bshd) return {s[0], s[2], s[1], s[3]};
  if (heads == 0)
    fail("attention: the layout bsd does not determine the number of heads; set the attribute heads");
  const std::optional<Dim> head = Dim::exact_div(s[2], Dim(heads));
  if (!head) {
    fail("attention: input {} has {} elements at each position, which is not a multiple of its {} heads",
         input, s[2].text(), heads);
  }
  return {s[0], Dim(heads), s[1], *head};
}

void expect_equal(const Dim& a, const Dim& b, std::string_view what) {
  if (!(a == b)) fail("attention: {} differ: {} against {}", what, a.text(), b.text());
}

struct Checked {
  Sizes q, k, v;
  int64_t heads = 0, kv_heads = 0;
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
  for (const Sizes* d : {&c.k, &c.v}) {
    expect_equal(d->heads, Dim(c.kv_heads), "the heads of keys or values and the attribute kv_heads");
    expect_equal(d->batch, c.q.batch, "the batches of keys or values and of queries");
  }
  expect_equal(c.k.length, c.v.length, "the numbers of keys and values");
  expect_equal(c.q.head, c.k.head, "the head sizes of queries and keys");
  return c;
}

}  // namespace

std::vector<TensorType> Attention::infer(const InferArgs& in) const {
  in.expect_count(3, 4);
  std::vector<TensorType> out = {in[0]};  // the output is q with another head size
  infer_again(in, out);
  return out;
}

void Attention::infer_again(const InferArgs& in, std::vector<TensorType>& types) const {
  in.expect_float(0);
  in.expect_same_dtype(0, 1);
  in.expect_same_dtype(0, 2);
  if (window < 0) fail("attention: the window is {}; it cannot be negative", window);
  if (scale && !std::isfinite(*scale)) fail("attention: the scale is {}; it must be finite", *scale);
  if (soft_cap && !(*soft_cap > 0)) fail("attention: the soft cap is {}; it must be positive", *soft_cap);
  if (round_scores &&
      (layout == AttentionLayout::bsd || mask != MaskKind::none || soft_cap || empty_row != EmptyRow::nan)) {
    fail(
        "attention: round_scores needs the layout bhsd or bshd, the mask none, no soft cap and empty_row "
        "nan");
  }
  if (std::isnan(masked_score)) fail("attention: the score of masked keys is NaN; it must be a number");
  const Checked c = check_inputs(*this, in);
  if (in.has(3)) {
    in.expect_dtype(3, in.dtype(3) == DType::bool_ || is_float(in.dtype(3)), "bool or a float type");
    const Shape scores{c.q.batch, Dim(c.heads), c.q.length, c.k.length};
    if (in.shape(3).rank() > 4 || !(broadcast(scores, in.shape(3), "attention") == scores)) {
      fail("attention: the mask {} does not broadcast to [batch, heads, queries, keys] = {}",
           in.shape(3).text(), scores.text());
    }
  }
  types[0] = in[0];
  Shape& y = types[0].shape;
  y[y.rank() - 1] = layout == AttentionLayout::bsd ? c.v.head * Dim(c.heads) : c.v.head;
}

Tolerance Attention::tolerance(std::span<const TensorType> inputs) const {
  const Checked c = check_inputs(*this, InferArgs(name(), inputs));
  const auto head = static_cast<double>(c.q.head.value());
  // A score is a sum of `head` products of numbers up to 2, 4/3 on average: its error moves the weight of a
  // value by as much, relative to it, and the exponential adds its own. tanh is 2 units off, of a number as
  // large as the cap.
  const double score_ulps = std::fabs(scale_for(c.q.head.value())) * head * 4 / 3;
  // Three more roundings of a score, and one of a weight, if they are those of a 16-bit type.
  const DType type = inputs[0].dtype;
  const double rounded =
      round_scores && type != DType::f32 ? (3 * score_ulps + 1) * epsilon(type) / epsilon(DType::f32) : 0;
  return {.ulps = 8 + score_ulps + 4 * soft_cap.value_or(0) + rounded,
          .terms = static_cast<double>(c.k.length.value()),
          .scale = 2};
}

namespace {

// One problem for the kernels: the heads of q are split into [kv_heads, group], so that each index over the
// two outer axes of q has its own k and v.
struct Problem {
  const Attention* op;
  Operand q, y;   // [batch, kv_heads, group, queries, head]
  Operand k, v;   // [batch, kv_heads, keys, head]
  Operand mask;   // [batch, kv_heads, group, queries, keys]
  int64_t shift;  // query i is at key i + shift
  bool nan_when_empty = false;
  // For the plain kernel, when the keys are processed in several dispatches.
  Operand carry{};
  bool continues = false;
  bool carries = false;

  int64_t batch() const { return q.view.dims[0]; }
  int64_t kv_heads() const { return q.view.dims[1]; }
  int64_t group() const { return q.view.dims[2]; }
  int64_t queries() const { return q.view.dims[3]; }
  int64_t head() const { return q.view.dims[4]; }
  int64_t keys() const { return k.view.dims[2]; }
  int64_t value() const { return v.view.dims[3]; }
  int64_t rows() const { return group() * queries(); }

  std::string key() const {
    return formatted("{} heads{} rows{} keys{} head {} value {}{}{}", to_string(q.dtype),
                     size_class(batch() * kv_heads()), size_class(rows()), size_class(keys()), head(),
                     value(), op->mask == MaskKind::none ? "" : " causal", mask.present() ? " mask" : "");
  }
};

// [batch, heads, length, head] of an operand in the op's layout.
View by_heads(const View& v, AttentionLayout layout, int64_t heads) {
  if (layout == AttentionLayout::bhsd) return v;
  return (layout == AttentionLayout::bsd ? v.split_axis(2, heads) : v).permute({0, 2, 1, 3});
}

Problem make_problem(const Attention& op, const Lowering& l) {
  const View& q_view = l.in(0).view;
  const int64_t heads = op.layout == AttentionLayout::bhsd   ? q_view.dims[1]
                        : op.layout == AttentionLayout::bshd ? q_view.dims[2]
                                                             : op.heads;
  const int64_t kv_heads = op.kv_heads != 0 ? op.kv_heads : heads;
  const auto grouped = [&](const Operand& o) {
    return o.with_view(by_heads(o.view, op.layout, heads).split_axis(1, kv_heads), 2);
  };
  const auto shared = [&](const Operand& o) { return o.with_view(by_heads(o.view, op.layout, kv_heads), 2); };
  Problem p{&op, grouped(l.in(0)), grouped(l.out()), shared(l.in(1)), shared(l.in(2)), l.optional_in(3), 0};
  p.shift = p.keys() - p.queries();
  p.nan_when_empty = op.empty_row == EmptyRow::nan && p.keys() > 0;
  if (p.mask.present()) {
    const View full = p.mask.view.broadcast_to({p.batch(), heads, p.queries(), p.keys()});
    p.mask = p.mask.with_view(full.split_axis(1, kv_heads), 2);
  }
  return p;
}

// Whether every head is a contiguous run of four, eight, ... elements that starts at a multiple of four.
bool quads(const View& v) {
  if (v.strides.back() != 1 || v.dims.back() % 4 != 0 || v.dims.back() == 0 || v.offset % 4 != 0)
    return false;
  return std::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
}

uint32_t stride(const Operand& o, int64_t axis) {
  return o.present() ? static_cast<uint32_t>(to_i32(o.view.strides[static_cast<size_t>(axis)])) : 0;
}

// The parameters that all kernels get.
template <class Params>
Params common_params(const Problem& p) {
  Params params;
  params.quads = to_u32(ceil_div(p.head(), 4));
  params.queries = to_u32(p.queries());
  params.rows = to_u32(p.rows());
  params.keys = to_u32(p.keys());
  params.shift = to_i32(p.shift);
  // Far enough to see every key when there is no window.
  params.window = to_i32(p.op->mask == MaskKind::sliding_window ? std::min(p.op->window, int64_t{1} << 30)
                                                                : int64_t{1} << 30);
  params.q_member = stride(p.q, 2);
  params.q_row = stride(p.q, 3);
  params.q_dim = stride(p.q, 4);
  params.k_row = stride(p.k, 2);
  params.k_dim = stride(p.k, 3);
  params.v_row = stride(p.v, 2);
  params.v_dim = stride(p.v, 3);
  params.y_member = stride(p.y, 2);
  params.y_row = stride(p.y, 3);
  params.mask_member = stride(p.mask, 2);
  params.mask_row = stride(p.mask, 3);
  params.mask_key = stride(p.mask, 4);
  params.scale = static_cast<float>(p.op->scale_for(p.head()));
  params.soft_cap = static_cast<float>(p.op->soft_cap.value_or(1));
  params.masked_score = static_cast<float>(p.op->masked_score);
  params.empty_share = p.nan_when_empty ? std::numeric_limits<float>::quiet_NaN() : 0;
  return params;
}

template <class Spec>
Spec common_spec(const Problem& p) {
  Spec spec;
  spec.HEAD = to_u32(p.head());
  spec.VALUE = to_u32(p.value());
  spec.CAUSAL = p.op->mask != MaskKind::none;
  spec.CAPPED = p.op->soft_cap.has_value();
  spec.ROUNDED = p.op->round_scores ? held_kind(p.q.dtype) : 0;
  spec.KEEP = p.mask.present() && p.mask.dtype == DType::bool_;
  spec.Q4 = quads(p.q.view);
  spec.K4 = quads(p.k.view);
  spec.V4 = quads(p.v.view);
  spec.Y4 = quads(p.y.view);
  return spec;
}

double flops(const Problem& p) {
  return 2.0 * static_cast<double>(p.batch() * p.kv_heads() * p.rows()) * static_cast<double>(p.keys()) *
         static_cast<double>(p.head() + p.value());
}

// For a kernel with tiles of `tile` rows, all of which are computed whether or not they exist.
double tiles_ns(const Rates& r, const Problem& p, int64_t tile, Share share) {
  const double used = static_cast<double>(p.rows()) / static_cast<double>(round_up(p.rows(), tile));
  return r.dispatch_ns + compute_ns(r, flops(p), share) / used;
}

std::vector<Candidate> plain_candidates(const Target& target, const Problem& p) {
  return one_candidate(tiles_ns(rates_of(target.caps), p, 1, {.cpu = 0.5 / 24, .gpu = 0.2}));
}

Dispatch make_plain(Lowering& l, const Problem& p, const Candidate&) {
  auto spec = common_spec<kernels::attention_plain::Spec>(p);
  spec.CONTINUES = p.continues;
  spec.CARRIES = p.carries;
  // Each lane reads and writes its own dims of v and y, one by one.
  Operand v = p.v;
  Operand y = p.y;
  v.x4 = y.x4 = false;
  return l.make<kernels::attention_plain>(
      {.q = p.q, .k = p.k, .v = v, .mask = p.mask, .y = y, .carry = p.carry},
      common_params<kernels::attention_plain::Params>(p), p.batch() * p.kv_heads() * p.rows(), spec);
}

// Vectors of four that hold a head: HEAD4 in the kernels.
int64_t head_quads(const Problem& p) { return std::max<int64_t>(ceil_div(p.head(), 4), 1); }

bool online_applies(const Target&, const Problem& p) { return p.head() <= 256 && p.value() <= 256; }

std::vector<Candidate> online_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const bool short_heads = p.head() + p.value() <= 128;
  // On a GPU, the query and the sum of longer heads no longer stay in registers.
  const bool in_registers = p.head() + p.value() <= 256;
  const Share share{.cpu = (short_heads ? 16.0 : 13.0) / 24, .gpu = in_registers ? 1 : 0.1};
  const double ns = tiles_ns(r, p, 64, share);
  // As many keys as workgroup memory holds. A CPU has to compile a body for each of them.
  const int64_t key_bytes = 16 * (head_quads(p) + ceil_div(p.value(), 4));
  std::vector<Candidate> out;
  for (const uint32_t keys : {1u, 2u, 4u, 8u, 16u}) {
    if (keys > 1 && keys * key_bytes > target.caps.max_workgroup_bytes) break;
    out.push_back({ns * misfit(keys, r.cpu ? 4 : 16), {{"KEYS", keys}}});
  }
  return out;
}

Dispatch make_online(Lowering& l, const Problem& p, const Candidate& c) {
  auto spec = common_spec<kernels::attention_online::Spec>(p);
  spec.LANES = 64;
  spec.KEYS = c.at("KEYS");
  auto params = common_params<kernels::attention_online::Params>(p);
  const int64_t tiles = ceil_div(p.rows(), static_cast<int64_t>(spec.LANES));
  params.tiles = to_u32(tiles);
  return l.make<kernels::attention_online>({.q = p.q, .k = p.k, .v = p.v, .mask = p.mask, .y = p.y}, params,
                                           p.batch() * p.kv_heads() * tiles, spec);
}

// Workgroup memory of the blocked kernel: rows of q, weights of a block of keys, what lanes exchange.
int64_t blocked_bytes(const Problem& p, int64_t quads_of_rows) {
  constexpr int64_t kLanes = 8;
  return 16 * quads_of_rows * (4 * head_quads(p) + 4 * kLanes + kLanes);
}

bool blocked_applies(const Target& target, const Problem& p) {
  return !p.op->round_scores && blocked_bytes(p, 1) <= target.caps.max_workgroup_bytes;
}

std::vector<Candidate> blocked_candidates(const Target& target, const Problem& p) {
  const bool k4 = quads(p.k.view);
  const Share share{.cpu = (!k4 ? 5.0 : p.head() <= 64 ? 12.0 : 16.0) / 24, .gpu = 0.05};
  const double ns = tiles_ns(rates_of(target.caps), p, p.rows() > 8 ? 16 : 4, share);
  // More rows share a load of keys, but make longer code, which takes longer to compile than a small problem
  // to run.
  const int wanted = p.rows() <= 4 || flops(p) < 4e6 ? 1 : p.rows() <= 8 || !k4 ? 2 : 4;
  std::vector<Candidate> out;
  for (const uint32_t four_rows : {1u, 2u, 4u}) {
    if (four_rows > 1 && blocked_bytes(p, four_rows) > target.caps.max_workgroup_bytes) break;
    out.push_back({ns * misfit(four_rows, wanted), {{"QUADS", four_rows}}});
  }
  return out;
}

Dispatch make_blocked(Lowering& l, const Problem& p, const Candidate& c) {
  auto spec = common_spec<kernels::attention_blocked::Spec>(p);
  spec.QUADS = c.at("QUADS");
  auto params = common_params<kernels::attention_blocked::Params>(p);
  const int64_t tiles = ceil_div(p.rows(), 4 * int64_t{spec.QUADS});
  params.tiles = to_u32(tiles);
  return l.make<kernels::attention_blocked>({.q = p.q, .k = p.k, .v = p.v, .mask = p.mask, .y = p.y}, params,
                                            p.batch() * p.kv_heads() * tiles, spec);
}

using Row = Variant<Problem, Dispatch>;
constexpr Row kPlain{"plain", always, plain_candidates, make_plain};
constexpr Row kVariants[] = {
    {"online", online_applies, online_candidates, make_online},
    {"blocked", blocked_applies, blocked_candidates, make_blocked},
    kPlain,
};

// A part has its own sizes, for which other constants may be best.
Dispatch make_part(Lowering& l, const Row& row, const Problem& part) {
  return l.choose(Attention::kName, row, part).make(l, part);
}

// Part of the problem along one of the axes 0 to 3 of q.
Problem slice(const Problem& whole, int64_t axis, int64_t begin, int64_t length) {
  Problem p = whole;
  for (Operand* o : {&p.q, &p.y, &p.mask}) {
    if (o->present()) o->view = o->view.slice(axis, begin, length);
  }
  if (axis < 2) {
    for (Operand* o : {&p.k, &p.v}) o->view = o->view.slice(axis, begin, length);
  }
  if (axis == 3) p.shift += begin;
  return p;
}

Problem slice_keys(const Problem& whole, int64_t begin, int64_t length) {
  Problem p = whole;
  for (Operand* o : {&p.k, &p.v}) o->view = o->view.slice(2, begin, length);
  if (p.mask.present()) p.mask.view = p.mask.view.slice(4, begin, length);
  p.shift -= begin;
  return p;
}

Problem first_query(const Problem& p) { return slice(slice(p, 2, 0, 1), 3, 0, 1); }

// The least number of keys that a dispatch should process when it cannot process all.
int64_t few_keys(const Problem& p) { return std::min<int64_t>(p.keys(), 64); }

// Copies inputs that are spread over more than half a binding even for one query and a few keys (transposed
// ones) into contiguous memory, if the bindings would not suffice otherwise.
Problem gathered(Lowering& l, Problem p) {
  const Problem least = slice_keys(first_query(slice(slice(p, 0, 0, 1), 1, 0, 1)), 0, few_keys(p));
  // Other queries and keys may each reach into one more binding.
  if (bindings_needed(make_part(l, kPlain, least), l.caps()) + 3 <= l.caps().max_storage_buffers) return p;
  const auto gather = [&](Operand& whole, const Operand& part) {
    const auto binding = static_cast<int64_t>(l.caps().max_binding_bytes);
    if (part.present() && 2 * reach_bytes(part) > binding) whole = lower_contiguous(l, whole);
  };
  gather(p.q, least.q);
  gather(p.k, least.k);
  gather(p.v, least.v);
  gather(p.mask, least.mask);
  return p;
}

// Calls f with the two halves of the problem, along the first axis of q that can be halved.
void halve(const Problem& p, const auto& f) {
  const Dims& dims = p.q.view.dims;
  const auto axis = std::ranges::find_if(dims, [](int64_t n) { return n > 1; }) - dims.begin();
  const int64_t length = dims[static_cast<size_t>(axis)];
  f(slice(p, axis, 0, length / 2));
  f(slice(p, axis, length / 2, length - length / 2));
}

// A chain of dispatches over parts of the keys, for a head whose keys cannot be bound at once.
void emit_over_keys(Lowering& l, const Problem& whole) {
  const Operand carry =
      l.scratch(DType::f32, {whole.batch() * whole.kv_heads(), whole.rows(), whole.value() + 2});
  const auto part = [&](int64_t begin, int64_t length) {
    Problem p = slice_keys(whole, begin, length);
    p.carry = carry;
    p.continues = begin > 0;
    p.carries = begin + length < whole.keys();
    return make_part(l, kPlain, p);
  };
  if (whole.rows() > 1 && !fits(part(0, few_keys(whole)), l.caps())) {
    halve(whole, [&](const Problem& p) { emit_over_keys(l, p); });
    return;
  }
  l.split(whole.keys(), 1, part);
}

// Halves the problem until its operands can be bound: batches first, then heads, then queries. If a
// query cannot be bound with all its keys, the keys are processed in parts.
void emit_parts(Lowering& l, const Row& row, const Problem& p) {
  Dispatch d = make_part(l, row, p);
  if (fits(d, l.caps())) {
    l.emit(std::move(d));
  } else if (p.batch() * p.kv_heads() == 1 && !fits(make_part(l, row, first_query(p)), l.caps())) {
    emit_over_keys(l, p);
  } else {
    halve(p, [&](const Problem& half) { emit_parts(l, row, half); });
  }
}

// Whether one query and one key can be bound, wherever they lie: a head may be longer than all bindings.
bool can_bind_one(const Lowering& l, const Problem& p) {
  const Problem one =
      slice_keys(first_query(slice(slice(p, 0, 0, 1), 1, 0, 1)), 0, std::min<int64_t>(p.keys(), 1));
  const int64_t binding = static_cast<int64_t>(l.caps().max_binding_bytes) - kBindingAlignment;
  const auto needed = [&](int64_t bytes) { return ceil_div(bytes + kBindingAlignment, binding); };
  int64_t sum = needed(4 * (p.value() + 2));  // what is carried from key to key
  for (const Operand* o : {&one.q, &one.k, &one.v, &one.mask, &one.y}) {
    if (o->present()) sum += needed(reach_bytes(*o));
  }
  return sum <= l.caps().max_storage_buffers;
}

// Whether a query can see all of its keys in one dispatch, which is what rounding its weights takes.
bool rounds_at_once(Lowering& l, const Problem& p) {
  if (!online_applies(l.target(), p)) return false;
  const Problem one = first_query(slice(slice(p, 0, 0, 1), 1, 0, 1));
  return fits(make_part(l, kVariants[0], one), l.caps());
}

// Scores, weights and values as three ops would compute them, each cut in its own way.
void lower_written_out(Lowering& l, const Problem& p) {
  const auto by_group = [&](const Operand& o) {
    View v = o.view;
    v.dims.insert(v.dims.begin() + 2, p.group());
    v.strides.insert(v.strides.begin() + 2, 0);
    return o.with_view(std::move(v));
  };
  const Dims dims = {p.batch(), p.kv_heads(), p.group(), p.queries(), p.keys()};
  const DType type = p.op->round_scores ? p.q.dtype : DType::f32;
  const Operand product = l.scratch(type, dims);
  lower_product(l, p.q, by_group(p.k.with_view(p.k.view.permute({0, 1, 3, 2}))), product);
  std::string expr = formatted("t0=mul($0,{})", p.op->scale_for(p.head()));
  std::vector<DType> types = {type};
  OperandList inputs = {product};
  if (p.mask.present()) {
    const bool keep = p.mask.dtype == DType::bool_;
    expr += keep ? formatted("; where($1,t0,{})", p.op->masked_score)
                 : formatted("; t1=cast_{}($1); add(t0,t1)", to_string(type));
    types.push_back(p.mask.dtype);
    inputs.push_back(p.mask.with_view(p.mask.view));
  }
  const Operand scores = l.scratch(type, dims);
  lower_expr(l, Expr::parse(expr, types), inputs, scores);
  const Operand weights = l.scratch(p.v.dtype, dims);
  lower_softmax(l, false, 4, scores, weights);
  lower_product(l, weights, by_group(p.v), p.y.with_view(p.y.view));
}

}  // namespace

void Attention::lower(Lowering& l) const {
  if (l.out().view.elements() == 0) return;
  const Problem p = gathered(l, make_problem(*this, l));
  const bool as_nodes = layout != AttentionLayout::bsd && mask == MaskKind::none && !soft_cap &&
                        (empty_row == EmptyRow::nan || !p.mask.present());
  if (as_nodes && (!can_bind_one(l, p) || (round_scores && !rounds_at_once(l, p)))) {
    lower_written_out(l, p);
    return;
  }
  emit_parts(l, round_scores ? kVariants[0] : *l.choose(kName, kVariants, p).row, p);
}

Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask) {
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
  return q.graph().add_value(std::move(op), {q, k, v, mask});
}

namespace ops {
void register_attention(OpTable& table) {
  table.add<Attention>(
      {.formula =
           "softmax(mask(cap(scale q k^T))) v for each head; heads in groups may share keys and values",
       .operands = "q k v mask",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
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
       }});
}
}  // namespace ops

}  // namespace rlx
