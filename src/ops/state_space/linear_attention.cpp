// Layers whose heads have a state S [keys, values]: gated linear attention, the gated delta rule and RWKV-6.
// They differ in what a step adds and in whether a query sees the state before or after it.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "base/parallel.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/linear_attention.wgsl.h"
#include "kernels/rates.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/state_space/chunked_scan.h"
#include "ops/state_space/linear_attention.h"
#include "rlx/graph.h"
#include "rlx/ops/state_space.h"

namespace rlx {
namespace {

using Rule = LinearAttentionRule;
using Problem = LinearAttentionProblem;
using Tile = LinearAttentionTile;

constexpr std::string_view kNames[] = {"gated_linear_attention", "gated_delta_net", "rwkv6"};

}  // namespace

std::string_view LinearAttention::name() const { return kNames[static_cast<size_t>(rule)]; }

std::vector<TensorType> LinearAttention::infer(const InferArgs& in) const {
  in.expect_count(rule == Rule::add ? 3 : 5, state_input() + 1);
  for (int64_t i = 0; i < in.count(); ++i) {
    if (in.has(i)) in.expect_float(i);
  }
  const Shape& k = in.shape(kK);
  const Shape& v = in.shape(kV);
  if (k.rank() != 4) fail("{}: k is {}; it must be [batch, steps, key heads, keys]", name(), k.text());
  if (v.rank() != 4) fail("{}: v is {}; it must be [batch, steps, heads, values]", name(), v.text());
  expect_input_shape(in, kQ, rule == Rule::previous ? "r" : "q", k);
  if (!(k[0] == v[0]) || !(k[1] == v[1]))
    fail("{}: k {} and v {} must have the same batch and steps", name(), k.text(), v.text());
  const bool shared =
      k[2].is_static() && v[2].is_static() && k[2].value() > 0 && v[2].value() % k[2].value() == 0;
  if (!shared && !(k[2] == v[2]))
    fail("{}: v {} has {} heads; their number must be a multiple of the {} key heads of k {}", name(),
         v.text(), v[2].text(), k[2].text(), k.text());
  if (k[3].is_static() && k[3].value() < 1) fail("{}: k {} must have at least one key", name(), k.text());
  const Shape by_head{v[0], v[1], v[2]};
  const Shape by_key{v[0], v[1], v[2], k[3]};
  if (in.has(kG) && !(in.shape(kG) == by_head) && !(in.shape(kG) == by_key)) {
    fail("{}: {} is {}; it must be {}, or {} with a decay for each key", name(),
         rule == Rule::previous ? "w" : "g", in.shape(kG).text(), by_head.text(), by_key.text());
  }
  if (rule == Rule::delta) expect_input_shape(in, extra_input(), "beta", by_head);
  if (rule == Rule::previous) expect_input_shape(in, extra_input(), "u", {v[2], k[3]});
  const Shape state{v[0], v[2], k[3], v[3]};
  expect_state(in, state_input(), state);
  return {{in.dtype(kV), v}, {DType::f32, state}};
}

// --- Reference ---

namespace {

// One head of one row of the batch.
void run_head(const LinearAttention& op, RefContext& r, int64_t row, int64_t head) {
  const RefTensor& k = r.in(LinearAttention::kK);
  const RefTensor& v = r.in(LinearAttention::kV);
  const RefTensor* const g = r.optional_in(LinearAttention::kG);
  const RefTensor* const extra = r.optional_in(op.extra_input());
  const int64_t steps = v.dims[1], heads = v.dims[2], keys = k.dims[3], values = v.dims[3];
  const int64_t key_head = head / (heads / k.dims[2]);
  const auto real = [](const RefTensor& t, int64_t i) { return t.real[static_cast<size_t>(i)]; };
  const int64_t first = (row * heads + head) * keys * values;
  std::vector<double> state(static_cast<size_t>(keys * values), 0);
  if (const RefTensor* initial = r.optional_in(op.state_input())) {
    for (size_t i = 0; i < state.size(); ++i) state[i] = real(*initial, first + static_cast<int64_t>(i));
  }
  const auto s = [&](int64_t i, int64_t j) -> double& { return state[static_cast<size_t>(i * values + j)]; };
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t at = (row * steps + t) * heads + head;
    const int64_t key_at = ((row * steps + t) * k.dims[2] + key_head) * keys;
    const auto key = [&](int64_t i) { return real(k, key_at + i); };
    const auto query = [&](int64_t i) { return real(r.in(LinearAttention::kQ), key_at + i); };
    const auto keep = [&](int64_t i) {
      return !g ? 1.0 : std::exp(real(*g, std::ssize(g->dims) == 4 ? at * keys + i : at));
    };
    for (int64_t j = 0; j < values; ++j) {
      double added = real(v, at * values + j);
      double y = 0;
      if (op.rule == Rule::previous) {
        for (int64_t i = 0; i < keys; ++i)
          y += (s(i, j) + real(*extra, head * keys + i) * key(i) * added) * query(i);
      }
      for (int64_t i = 0; g && i < keys; ++i) s(i, j) *= keep(i);
      if (op.rule == Rule::delta) {
        for (int64_t i = 0; i < keys; ++i) added -= s(i, j) * key(i);
        added *= real(*extra, at);
      }
      for (int64_t i = 0; i < keys; ++i) s(i, j) += key(i) * added;
      for (int64_t i = 0; op.rule != Rule::previous && i < keys; ++i) y += s(i, j) * query(i);
      r.out().real[static_cast<size_t>(at * values + j)] = op.scale_of(keys) * y;
    }
  }
  std::ranges::copy(state, r.out(1).real.begin() + first);
}

}  // namespace

void LinearAttention::reference(RefContext& r) const {
  const int64_t heads = r.in(kV).dims[2];
  parallel_for(r.in(kV).dims[0] * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_head(*this, r, i / heads, i % heads);
  });
}

// An element of the state is a sum of up to `steps` products of numbers up to 2, with the errors of their
// decays, and y a sum of as many as there are keys.
Tolerance LinearAttention::tolerance(std::span<const TensorType> inputs) const {
  const auto keys = static_cast<double>(inputs[kK].shape[3].value());
  const double remembered = std::min(static_cast<double>(inputs[kV].shape[1].value()), 64.0);
  const double of_y = scale_of(inputs[kK].shape[3].value()) * std::sqrt(keys);
  return {.ulps = 16, .terms = keys + remembered, .scale = 4 * std::sqrt(remembered) * std::max(1.0, of_y)};
}

// --- Lowering ---

std::string LinearAttentionProblem::key() const {
  return formatted("{} heads{} steps{} keys{} values{} gate{}", to_string(v.dtype),
                   size_class(rows() * heads()), size_class(steps()), keys(), values(),
                   !g.present()    ? 0
                   : gate_by_key() ? 2
                                   : 1);
}

Tile tile_of(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const int64_t fours = ceil_div(p.keys(), 4);
  // A lane's loops over these are unrolled up to 32. On a CPU lanes that share a column would load one after
  // the other; on a GPU lanes with fewer registers hide more latency.
  const int64_t most = r.cpu ? 32 : 8;
  Tile t{.parts = 1, .fours = fours, .columns = 0, .steps = 4};
  while (t.fours > most && t.parts < 64) {
    t.parts *= 2;
    t.fours = ceil_div(fours, t.parts);
  }
  t.columns = std::max<int64_t>(64 / t.parts, 4);
  while (t.steps > 0 && t.bytes(p) > target.caps.max_workgroup_bytes) t.steps /= 2;
  return t;
}

namespace {

using Kernel = kernels::linear_attention;

// How the scan is cut along the steps, and which part of the work a dispatch does.
struct Pass {
  int64_t chunk = 0, chunks = 1;
  bool ends = true;
  Operand kept = {};  // [batch * heads, chunks, keys]
};

Dispatch make_pass(const Lowering& l, const Problem& p, const Pass& pass) {
  const Tile t = tile_of(l.target(), p);
  Operand q = p.q, k = p.k;
  const bool whole = p.keys() == 4 * t.fours * t.parts && reads_fours(k) && (!q.present() || reads_fours(q));
  q.x4 = k.x4 = whole;
  const int64_t tiles = ceil_div(p.values(), t.columns);
  const bool chunked = pass.chunks > 1;
  return l.make<Kernel>(
      {.q = q,
       .k = k,
       .v = p.v,
       .g = p.g,
       .beta = p.beta,
       .bonus = p.bonus,
       .initial = p.initial,
       .state = p.state,
       .kept = pass.kept,
       .y = p.y},
      {.steps = to_u32(p.steps()),
       .chunk = to_u32(pass.chunk),
       .chunks = to_u32(pass.chunks),
       .tiles = to_u32(tiles),
       .heads = to_u32(p.heads()),
       .shared_by = to_u32(p.heads() / p.key_heads()),
       .keys = to_u32(p.keys()),
       .values = to_u32(p.values()),
       .scale = static_cast<float>(p.op->scale_of(p.keys())),
       .q_strides = strides_of(q, {0, 1, 2, 3}),
       .k_strides = strides_of(k, {0, 1, 2, 3}),
       .v_strides = strides_of(p.v, {0, 1, 2, 3}),
       .g_strides = strides_of(p.g, {0, 1, 2, p.gate_by_key() ? 3 : -1}),
       .beta_strides = strides_of(p.beta, {0, 1, 2, -1}),
       .y_strides = strides_of(p.y, {0, 1, 2, 3}),
       .bonus_strides = strides_of(p.bonus, {-1, -1, 0, 1}),
       .state_strides = chunked ? strides_of(p.state, {0, 1, 2, 3}) : strides_of(p.state, {1, -1, 2, 3}),
       .initial_strides = strides_of(p.initial, {0, 1, 2, 3})},
      p.rows() * p.heads() * pass.chunks * tiles,
      {.RULE = static_cast<uint32_t>(p.op->rule),
       .GATE = static_cast<uint32_t>(!p.g.present()    ? Kernel::GATE_NONE
                                     : p.gate_by_key() ? Kernel::GATE_KEY
                                                       : Kernel::GATE_HEAD),
       .FOURS = to_u32(t.fours),
       .PARTS = to_u32(t.parts),
       .COLUMNS = to_u32(t.columns),
       .STEPS = to_u32(t.steps),
       .WHOLE = whole,
       .RESUMES = p.resumes,
       .ENDS = pass.ends});
}

// --- One workgroup makes all steps of its columns ---

// The part of a problem along an axis of v: rows, steps or heads. Heads are cut between those that share
// keys, unless all do.
Problem slice(Problem p, int64_t axis, int64_t begin, int64_t length) {
  const auto cut = [&](Operand& o, int64_t of, int64_t divisor = 1) {
    if (o.present()) o.view = o.view.slice(of, begin / divisor, length / divisor);
  };
  const bool same_keys = axis == 2 && p.key_heads() == 1;
  const int64_t shared_by = axis == 2 ? p.heads() / p.key_heads() : 1;
  if (!same_keys) cut(p.q, axis, shared_by), cut(p.k, axis, shared_by);
  for (Operand* o : {&p.v, &p.y, &p.g, &p.beta}) cut(*o, axis);
  if (axis == 2) cut(p.bonus, 0);
  for (Operand* o : {&p.initial, &p.state}) {
    if (axis != 1) cut(*o, axis == 0 ? 0 : 1);
  }
  return p;
}

// Halves the problem until it can be bound. Halves of the steps are made one after the other.
void emit_serial(Lowering& l, const Problem& p) {
  const Dispatch d = make_pass(l, p, {.chunk = p.steps()});
  const Dims& dims = p.v.view.dims;
  const size_t axis = dims[0] > 1 ? 0 : dims[1] > 1 ? 1 : 2;
  if (fits(d, l.caps()) || dims[axis] < 2) return l.emit(d);
  if (p.initial.present()) {  // one binding less
    begin_state(l, p.initial, p.state);
    Problem begun = p;
    begun.initial = {};
    begun.resumes = true;
    return emit_serial(l, begun);
  }
  const int64_t grain = axis == 2 && p.key_heads() > 1 ? p.heads() / p.key_heads() : 1;
  const int64_t half = dims[axis] / grain / 2 * grain;
  emit_serial(l, slice(p, static_cast<int64_t>(axis), 0, half));
  Problem rest = slice(p, static_cast<int64_t>(axis), half, dims[axis] - half);
  if (axis == 1) rest.resumes = true;
  emit_serial(l, rest);
}

double flops(const Problem& p) {
  const double each = p.op->rule == Rule::delta ? 8 : 5;
  return each * static_cast<double>(p.rows() * p.steps() * p.heads()) *
         static_cast<double>(p.keys() * p.values());
}
double lanes_of(const Target& target, const Problem& p) {
  return static_cast<double>(p.rows() * p.heads() * p.values() * tile_of(target, p).parts);
}
// Where `lanes` invocations work at once, each of them on step after step.
double steps_ns(const Target& target, const Problem& p, double lanes) {
  const Rates r = rates_of(target.caps);
  return compute_ns(r, flops(p), {.cpu = 0.9, .gpu = 0.25}) * std::max(1.0, r.lanes / lanes);
}

std::vector<Candidate> serial_candidates(const Target& target, const Problem& p) {
  return one_candidate(rates_of(target.caps).dispatch_ns + steps_ns(target, p, lanes_of(target, p)));
}
bool make_serial(Lowering& l, const Problem& p, const Candidate&) {
  emit_serial(l, p);
  return true;
}

// --- Chunks of the steps at once: their ends, what comes before each, then their results ---

// Enough chunks to keep the device busy, and each long enough to be worth its state.
int64_t chunk_of(const Target& target, const Problem& p) {
  const auto wanted = static_cast<int64_t>(2 * rates_of(target.caps).lanes / lanes_of(target, p));
  const int64_t chunk = round_up(ceil_div(p.steps(), std::max<int64_t>(wanted, 4)), 16);
  return std::min<int64_t>(std::max<int64_t>({chunk, 16, p.keys()}), 512);
}

bool chunked_applies(const Target& target, const Problem& p) { return p.steps() > chunk_of(target, p); }

std::vector<Candidate> chunked_candidates(const Target& target, const Problem& p) {
  const int64_t chunks = ceil_div(p.steps(), chunk_of(target, p));
  const double lanes = lanes_of(target, p) * static_cast<double>(chunks);
  const double carries = static_cast<double>(chunks) * rates_of(target.caps).step_ns;
  return one_candidate(3 * rates_of(target.caps).dispatch_ns + 1.6 * steps_ns(target, p, lanes) + carries);
}

bool make_chunked(Lowering& l, const Problem& p, const Candidate&) {
  const int64_t chunk = chunk_of(l.target(), p);
  const int64_t chunks = ceil_div(p.steps(), chunk);
  const int64_t lines = p.rows() * p.heads();
  const auto passes = [&](const Operand& ends, const Operand& kept) {
    Problem first = p;
    first.y = first.q = first.bonus = first.initial = {};
    first.resumes = false;
    first.state = ends;
    Problem last = p;
    last.initial = {};
    last.resumes = true;
    last.state = ends;
    const View decays{.dims = ends.view.dims, .strides = {chunks * p.keys(), p.keys(), 1, 0}, .offset = 0};
    View state = View::contiguous({lines, p.keys(), p.values()});
    state.offset = p.state.view.offset;
    return std::array{
        make_pass(l, first, {.chunk = chunk, .chunks = chunks, .kept = kept}),
        carry_dispatch(
            l,
            {.rates = {}, .kept = kept.with_view(decays), .chunks = ends, .state = p.state.with_view(state)}),
        make_pass(l, last, {.chunk = chunk, .chunks = chunks, .ends = false}),
    };
  };
  const Dims ends{lines, chunks, p.keys(), p.values()};
  const Dims kept{lines, chunks, p.keys()};
  UntakenScratch untaken;
  for (const Dispatch& d : passes(untaken(ends), untaken(kept))) {
    if (!fits(d, l.caps())) return false;
  }
  begin_state(l, p.initial, p.state);
  for (Dispatch& d : passes(l.scratch(DType::f32, ends), l.scratch(DType::f32, kept))) l.emit(std::move(d));
  return true;
}

// --- Products within chunks ---

// More arithmetic than the steps need, but none that waits for the step before it.
std::vector<Candidate> product_candidates(const Target& target, const Problem& p) {
  const double share = rates_of(target.caps).cpu ? 5 : 0.7;  // measured, and a guess
  return one_candidate(2 * rates_of(target.caps).dispatch_ns +
                       share * steps_ns(target, p, lanes_of(target, p)));
}
bool make_products(Lowering& l, const Problem& p, const Candidate&) { return lower_chunk_products(l, p); }

// A query of RWKV-6 sees the state before its step. With the delta rule a chunk does more than scale what
// came before it.
constexpr Variant<Problem, bool> kSerial{"serial", always, serial_candidates, make_serial};
constexpr Variant<Problem, bool> kChunked{"chunked", chunked_applies, chunked_candidates, make_chunked};
constexpr Variant<Problem, bool> kProducts{"products", chunk_products_apply, product_candidates,
                                           make_products};
constexpr Variant<Problem, bool> kAddVariants[] = {kSerial, kChunked, kProducts};
constexpr Variant<Problem, bool> kDeltaVariants[] = {kSerial, kProducts};
constexpr Variant<Problem, bool> kPreviousVariants[] = {kSerial, kChunked};

}  // namespace

void LinearAttention::lower(Lowering& l) const {
  const Operand extra = rule == Rule::add ? Operand{} : l.in(extra_input());
  const Problem p{.op = this,
                  .q = l.in(kQ),
                  .k = l.in(kK),
                  .v = l.in(kV),
                  .y = l.out(0),
                  .g = l.optional_in(kG),
                  .beta = rule == Rule::delta ? extra : Operand{},
                  .bonus = rule == Rule::previous ? extra : Operand{},
                  .initial = l.optional_in(state_input()),
                  .state = l.out(1)};
  if (p.state.view.elements() == 0) return;
  if (p.steps() == 0) return begin_state(l, p.initial, p.state);
  const auto choice = rule == Rule::add     ? l.choose(name(), kAddVariants, p)
                      : rule == Rule::delta ? l.choose(name(), kDeltaVariants, p)
                                            : l.choose(name(), kPreviousVariants, p);
  if (!choice.make(l, p)) emit_serial(l, p);
}

namespace {

Scanned linear_attention(Rule rule, std::vector<Value> inputs, const LinearAttentionOptions& o) {
  auto op = std::make_shared<LinearAttention>(rule);
  op->scale = o.scale;
  inputs.push_back(o.initial_state);
  Graph& graph = inputs[0].graph();
  return named_outputs<Scanned>(graph.add_value(op, inputs));
}

}  // namespace

Scanned gated_linear_attention(Value q, Value k, Value v, Value g, const LinearAttentionOptions& o) {
  return linear_attention(Rule::add, {q, k, v, g}, o);
}
Scanned gated_delta_net(Value q, Value k, Value v, Value g, Value beta, const LinearAttentionOptions& o) {
  return linear_attention(Rule::delta, {q, k, v, g, beta}, o);
}
Scanned rwkv6(Value r, Value k, Value v, Value w, Value u, const LinearAttentionOptions& o) {
  return linear_attention(Rule::previous, {r, k, v, w, u}, o);
}

namespace ops {
void register_linear_attention(OpTable& table) {
  const auto add = [&](Rule rule, std::string formula, std::string_view operands,
                       std::vector<std::string> samples) {
    OpInfo info;
    info.name = kNames[static_cast<size_t>(rule)];
    info.formula = std::move(formula);
    info.operands = operands;
    info.attributes =
        rule == Rule::previous ? "scale: of y; 1 if not given" : "scale: of y; 1 / sqrt(keys) if not given";
    info.outputs =
        "y: as v\n"
        "state (f32): [batch, heads, keys, values], after the last step";
    info.types = "f32 f16 bf16";
    info.variants = rule == Rule::add     ? names_of(kAddVariants)
                    : rule == Rule::delta ? names_of(kDeltaVariants)
                                          : names_of(kPreviousVariants);
    for (const std::string& sample : samples) info.samples.push_back(info.name + sample);
    info.make = [rule] { return std::make_shared<LinearAttention>(rule); };
    table.add(std::move(info));
  };
  add(Rule::add, "S = exp(g) S + k v^T, y = scale S^T q, for each step; S [keys, values] of each head",
      "q (float): queries [batch, steps, key heads, keys]\n"
      "k (float): keys, likewise\n"
      "v: values [batch, steps, heads, values]; neighbouring heads may share a "
      "key head\n"
      "g? (float): logarithms of what is kept, [batch, steps, heads] or [batch, "
      "steps, heads, keys]; everything if left out\n"
      "initial_state? (f32): [batch, heads, keys, values]; zeros if left out",
      {"(T[2,5,3,8], T[2,5,3,8], T[2,5,3,17], T[2,5,3] in -1..0, f32[2,3,8,17])",
       "(T[1,130,2,16], T[1,130,2,16], T[1,130,4,5], T[1,130,4,16] in -1..0, f32[1,4,16,5]) {scale=0.5}",
       "(T[1,33,1,3], T[1,33,1,3], T[1,33,1,65])", "(T[1,0,2,4], T[1,0,2,4], T[1,0,2,4], none, f32[1,2,4,4])",
       "(T[1,3,2,4], T[1,3,2,4], T[1,3,2,0])",
       "(T[3,400,2,16], T[3,400,2,16], T[3,400,2,32], T[3,400,2,16] in -1..0, f32[3,2,16,32])"});
  // Keys are as short as those that are normalised.
  add(Rule::delta, "S = exp(g) S, S = S + k (beta (v - S^T k))^T, y = scale S^T q, for each step",
      "q (float): queries [batch, steps, key heads, keys]\n"
      "k (float): keys, likewise\n"
      "v: values [batch, steps, heads, values]; neighbouring heads may share a "
      "key head\n"
      "g? (float): logarithms of what is kept, [batch, steps, heads] or [batch, "
      "steps, heads, keys]; everything if left out\n"
      "beta (float): [batch, steps, heads], how much of the difference from v is "
      "added\n"
      "initial_state? (f32): [batch, heads, keys, values]; zeros if left out",
      {"(T[2,5,3,8], T[2,5,3,8] in -0.5..0.5, T[2,5,3,17], T[2,5,3] in -1..0, T[2,5,3] in 0..1, "
       "f32[2,3,8,17])",
       "(T[1,33,2,128], T[1,33,2,128] in -0.15..0.15, T[1,33,2,128], T[1,33,2] in -0.5..0, T[1,33,2] in "
       "0..1, "
       "f32[1,2,128,128])",
       "(T[1,17,1,200], T[1,17,1,200] in -0.1..0.1, T[1,17,1,3], T[1,17,1,200] in -0.5..0, T[1,17,1] in "
       "0..1)",
       "(T[1,6,1,10], T[1,6,1,10] in -0.5..0.5, T[1,6,1,3], T[1,6,1,10] in -0.5..0, T[1,6,1] in 0..1)",
       "(T[1,3,1,1], T[1,3,1,1] in -1..1, T[1,3,1,1], none, T[1,3,1] in 0..1)",
       "(T[1,0,1,3], T[1,0,1,3], T[1,0,1,2], none, T[1,0,1])",
       "(T[2,200,4,8], T[2,200,4,8] in -0.5..0.5, T[2,200,8,64], T[2,200,8] in -0.5..0, T[2,200,8] in 0..1, "
       "f32[2,8,8,64])"});
  add(Rule::previous, "y = scale (S + u k v^T)^T r, S = exp(w) S + k v^T, for each step",
      "r (float): queries [batch, steps, key heads, keys]\n"
      "k (float): keys, likewise\n"
      "v: values [batch, steps, heads, values]; neighbouring heads may share a "
      "key head\n"
      "w (float): logarithms of what is kept, [batch, steps, heads] or [batch, "
      "steps, heads, keys]\n"
      "u (float): [heads, keys], weights of the key of the step itself\n"
      "initial_state? (f32): [batch, heads, keys, values]; zeros if left out",
      {"(T[2,5,3,8], T[2,5,3,8], T[2,5,3,17], T[2,5,3,8] in -1..0, T[3,8], f32[2,3,8,17])",
       "(T[1,40,2,3], T[1,40,2,3], T[1,40,2,5], T[1,40,2,3] in -1..0, T[2,3])",
       "(T[1,0,2,4], T[1,0,2,4], T[1,0,2,4], T[1,0,2,4], T[2,4], f32[1,2,4,4])"});
}
}  // namespace ops

}  // namespace rlx
