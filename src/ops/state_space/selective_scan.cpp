// Mamba's selective scan. The op packs what belongs to channels (a, d and the bias of delta) into one tensor,
// when the weights are loaded if they are params, and `selective_steps` makes the steps: a shader has few
// bindings.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/format.h"
#include "base/parallel.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/rates.h"
#include "kernels/selective_scan.wgsl.h"
#include "kernels/selective_scan_quads.wgsl.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/state_space/chunked_scan.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/state_space.h"

namespace rlx {
namespace {

// --- The reference, of both ops ---

struct Reference {
  const RefTensor& x;
  const RefTensor& delta;
  const RefTensor& b;
  const RefTensor& c;
  const RefTensor* z;
  const RefTensor* initial;
  std::function<double(int64_t channel, int64_t state)> a;
  std::function<double(int64_t channel)> d, bias;  // may be empty
  bool softplus;
};

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double silu_of(double x) { return x / (1 + std::exp(-x)); }

void run_channel(const Reference& in, RefContext& r, int64_t row, int64_t channel) {
  const int64_t steps = in.x.dims[1], channels = in.x.dims[2], states = in.b.dims[2];
  const auto first = static_cast<size_t>((row * channels + channel) * states);
  std::vector<double> h(static_cast<size_t>(states), 0);
  for (size_t j = 0; in.initial && j < h.size(); ++j) h[j] = in.initial->real[first + j];
  for (int64_t t = 0; t < steps; ++t) {
    const auto at = static_cast<size_t>((row * steps + t) * channels + channel);
    const auto line = static_cast<size_t>((row * steps + t) * states);
    double delta = in.delta.real[at] + (in.bias ? in.bias(channel) : 0);
    if (in.softplus && !std::isnan(delta)) delta = softplus_of(delta);
    double y = in.d ? in.d(channel) * in.x.real[at] : 0;
    for (size_t j = 0; j < h.size(); ++j) {
      h[j] = std::exp(delta * in.a(channel, static_cast<int64_t>(j))) * h[j] +
             delta * in.x.real[at] * in.b.real[line + j];
      y += in.c.real[line + j] * h[j];
    }
    r.out().real[at] = in.z ? y * silu_of(in.z->real[at]) : y;
  }
  for (size_t j = 0; j < h.size(); ++j) r.out(1).real[first + j] = h[j];
}

void run_reference_scan(const Reference& in, RefContext& r) {
  const int64_t channels = in.x.dims[2];
  parallel_for(in.x.dims[0] * channels, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_channel(in, r, i / channels, i % channels);
  });
}

// States are sums of up to `steps` products of numbers up to about 2, each with the errors of its decays, and
// y is a sum of those; where few decays are near 1, most of it is forgotten after some steps.
Tolerance scan_tolerance(const Shape& x, const Shape& b) {
  const auto steps = static_cast<double>(x[1].value());
  const auto states = static_cast<double>(b[2].value());
  const double remembered = std::min(steps, 64.0);
  return {.ulps = 16, .terms = states + remembered, .scale = 4 * std::sqrt(states * remembered)};
}

struct Shapes {
  Shape x, a, b, state;
};

// Checks x, delta, b, c and z, which are inputs of both ops.
Shapes infer_shapes(const InferArgs& in, int64_t b_input, int64_t c_input, int64_t z_input,
                    const Dim& states) {
  const Shape& x = in.shape(0);
  if (x.rank() != 3) fail("{}: x is {}; it must be [batch, steps, channels]", in.op(), x.text());
  if (states.is_static() && states.value() < 1) fail("{}: there must be at least one state", in.op());
  for (int64_t i = 0; i < in.count(); ++i) {
    if (in.has(i)) in.expect_float(i);
  }
  const Shapes out{.x = x, .a = {x[2], states}, .b = {x[0], x[1], states}, .state = {x[0], x[2], states}};
  expect_input_shape(in, 1, "delta", x);
  expect_input_shape(in, b_input, "b", out.b);
  expect_input_shape(in, c_input, "c", out.b);
  if (in.has(z_input)) expect_input_shape(in, z_input, "z", x);
  return out;
}

// --- The steps ---

// selective_steps(x, delta, rates, b, c, z, initial state) -> y, state. The columns of `rates` are a of each
// state, then d if `skip`, then the bias of delta if `bias`.
struct SelectiveSteps final : OpOf<SelectiveSteps> {
  static constexpr auto kName = "selective_steps";
  enum Input : int64_t { kX, kDelta, kRates, kB, kC, kZ, kInitial };
  bool skip = false, bias = false, softplus = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("skip", skip, false);
    v("bias", bias, false);
    v("delta_softplus", softplus, false);
  }
  int64_t extras() const { return (skip ? 1 : 0) + (bias ? 1 : 0); }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(5, 7);
    const Shape& b = in.shape(kB);
    if (b.rank() != 3) fail("selective_steps: b is {}; it must be [batch, steps, states]", b.text());
    const Shapes shapes = infer_shapes(in, kB, kC, kZ, b[2]);
    expect_input_shape(in, kRates, "rates", {shapes.x[2], b[2] + extras()});
    expect_state(in, kInitial, shapes.state);
    return {{in.dtype(kX), shapes.x}, {DType::f32, shapes.state}};
  }
  void reference(RefContext& r) const override {
    const RefTensor& rates = r.in(kRates);
    const int64_t columns = rates.dims[1], states = columns - extras();
    const auto rate = [&](int64_t channel, int64_t column) {
      return rates.real[static_cast<size_t>(channel * columns + column)];
    };
    Reference in{.x = r.in(kX),
                 .delta = r.in(kDelta),
                 .b = r.in(kB),
                 .c = r.in(kC),
                 .z = r.optional_in(kZ),
                 .initial = r.optional_in(kInitial),
                 .a = rate,
                 .d = {},
                 .bias = {},
                 .softplus = softplus};
    if (skip) in.d = [=](int64_t channel) { return rate(channel, states); };
    if (bias) in.bias = [=](int64_t channel) { return rate(channel, columns - 1); };
    run_reference_scan(in, r);
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return scan_tolerance(inputs[kX].shape, inputs[kB].shape);
  }
  void lower(Lowering& l) const override;
};

using Kernel = kernels::selective_scan;

// A part of the scan: some rows of the batch, steps and channels.
struct Problem {
  const SelectiveSteps* op;
  Operand x, delta, z, y;  // [batch, steps, channels]
  Operand rates;           // [channels, states and more]
  Operand b, c;            // [batch, steps, states]
  Operand initial, state;  // [batch, channels, states]
  bool resumes = false;    // `state` holds what came before

  int64_t rows() const { return x.view.dims[0]; }
  int64_t steps() const { return x.view.dims[1]; }
  int64_t channels() const { return x.view.dims[2]; }
  int64_t states() const { return b.view.dims[2]; }
  std::string key() const {
    return formatted("{} rows{} steps{} channels{} states{}", to_string(x.dtype), size_class(rows()),
                     size_class(steps()), size_class(channels()), states());
  }
};

// The lanes that share a channel, the fours of states that each of them keeps, and the channels of a
// workgroup. Arrays stay in registers where loops over them are short enough to be unrolled.
struct Tile {
  int64_t parts, fours, channels;
};

Tile tile_of(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const int64_t fours = ceil_div(p.states(), 4);
  const int64_t most = r.cpu ? 8 : 4;  // on a GPU, lanes with fewer registers hide more latency
  Tile t{.parts = 1, .fours = fours, .channels = 64};
  while (t.fours > most && t.parts < 32) {
    t.parts *= 2;
    t.fours = ceil_div(fours, t.parts);
  }
  t.channels = std::max<int64_t>(64 / t.parts, 2);
  return t;
}

// How the scan is cut along the steps, and which part of the work a dispatch does.
struct Pass {
  int64_t chunk = 0, chunks = 1;
  bool ends = true;
  bool native = false;  // the device's own exponential
  Operand total = {};
};

// What a kernel is told, if so many workgroups lie along the channels.
template <class K>
typename K::Params params_of(const Problem& p, const Pass& pass, int64_t tiles) {
  const bool chunked = p.state.view.rank() == 4;
  const auto rates = strides_of(p.rates, {0, 1, -1, -1});
  return {.steps = to_u32(p.steps()),
          .chunk = to_u32(pass.chunk),
          .chunks = to_u32(pass.chunks),
          .tiles = to_u32(tiles),
          .channels = to_u32(p.channels()),
          .states = to_u32(p.states()),
          .bias = to_u32(p.rates.view.dims[1] - 1),
          .x_strides = strides_of(p.x, {0, 1, 2, -1}),
          .delta_strides = strides_of(p.delta, {0, 1, 2, -1}),
          .z_strides = strides_of(p.z, {0, 1, 2, -1}),
          .y_strides = strides_of(p.y, {0, 1, 2, -1}),
          .b_strides = strides_of(p.b, {0, 1, 2, -1}),
          .c_strides = strides_of(p.c, {0, 1, 2, -1}),
          .state_strides = chunked ? strides_of(p.state, {0, 1, 2, 3}) : strides_of(p.state, {0, -1, 1, 2}),
          .initial_strides = strides_of(p.initial, {0, -1, 1, 2}),
          .rates_strides = {rates[0], rates[1]}};
}

Dispatch make_pass(const Lowering& l, const Problem& p, const Pass& pass) {
  const Tile t = tile_of(l.target(), p);
  Operand b = p.b, c = p.c;
  const bool whole =
      p.states() == 4 * t.fours * t.parts && reads_fours(b) && (!c.present() || reads_fours(c));
  b.x4 = c.x4 = whole;
  const int64_t tiles = ceil_div(p.channels(), t.channels);
  return l.make<Kernel>({.x = p.x,
                         .delta = p.delta,
                         .z = p.z,
                         .rates = p.rates,
                         .b = b,
                         .c = c,
                         .initial = p.initial,
                         .state = p.state,
                         .total = pass.total,
                         .y = p.y},
                        params_of<Kernel>(p, pass, tiles), p.rows() * pass.chunks * tiles,
                        {.SKIP = p.op->skip && p.y.present(),
                         .BIAS = p.op->bias,
                         .SOFTPLUS = p.op->softplus,
                         .FOURS = to_u32(t.fours),
                         .PARTS = to_u32(t.parts),
                         .CHANNELS = to_u32(t.channels),
                         .WHOLE = whole,
                         .RESUMES = p.resumes,
                         .ENDS = pass.ends,
                         .NATIVE = pass.native});
}

// --- One workgroup makes all steps of its channels ---

// The part of a problem along an axis of x.
Problem slice(Problem p, int64_t axis, int64_t begin, int64_t length) {
  const auto cut = [&](Operand& o, int64_t of) {
    if (o.present()) o.view = o.view.slice(of, begin, length);
  };
  for (Operand* o : {&p.x, &p.delta, &p.z, &p.y}) cut(*o, axis);
  if (axis < 2) cut(p.b, axis), cut(p.c, axis);
  if (axis == 2) cut(p.rates, 0);
  for (Operand* o : {&p.initial, &p.state}) {
    if (axis != 1) cut(*o, axis == 0 ? 0 : 1);
  }
  return p;
}

// Halves the problem until it can be bound. Halves of the steps are made one after the other.
void emit_serial(Lowering& l, const Problem& p, bool native) {
  const Dispatch d = make_pass(l, p, {.chunk = std::max<int64_t>(p.steps(), 1), .native = native});
  const Dims& dims = p.x.view.dims;
  const size_t axis = dims[0] > 1 ? 0 : dims[1] > 1 ? 1 : 2;
  if (fits(d, l.caps()) || dims[axis] < 2) return l.emit(d);
  if (p.initial.present()) {  // one binding less
    begin_state(l, p.initial, p.state);
    Problem begun = p;
    begun.initial = {};
    begun.resumes = true;
    return emit_serial(l, begun, native);
  }
  const int64_t half = dims[axis] / 2;
  emit_serial(l, slice(p, static_cast<int64_t>(axis), 0, half), native);
  Problem rest = slice(p, static_cast<int64_t>(axis), half, dims[axis] - half);
  if (axis == 1) rest.resumes = true;
  emit_serial(l, rest, native);
}

// Updates of a state, of which each takes an exponential.
double updates(const Problem& p) {
  return static_cast<double>(p.rows() * p.steps()) * static_cast<double>(p.channels() * p.states());
}
// The time of `count` updates that a lane makes one after the other, where `lanes` of them run.
double updates_ns(const Target& target, const Problem& p, double lanes, bool native) {
  const Rates r = rates_of(target.caps);
  if (r.cpu) return (native ? 0.46 : 0.45) * updates(p) / r.speed;  // measured
  return updates(p) / std::min(lanes, r.lanes) * (native ? 0.1 : 0.25) * r.step_ns;
}
double lanes_of(const Target& target, const Problem& p) {
  return static_cast<double>(p.rows() * p.channels() * tile_of(target, p).parts);
}

template <bool native>
std::vector<Candidate> serial_candidates(const Target& target, const Problem& p) {
  return one_candidate(rates_of(target.caps).dispatch_ns +
                       updates_ns(target, p, lanes_of(target, p), native));
}
template <bool native>
bool make_serial(Lowering& l, const Problem& p, const Candidate&) {
  emit_serial(l, p, native);
  return true;
}

// --- Chunks of the steps at once: their ends, what comes before each, then their results ---

// Enough chunks to keep the device busy, and each long enough to be worth its state.
int64_t chunk_of(const Target& target, const Problem& p) {
  const auto wanted = static_cast<int64_t>(2 * rates_of(target.caps).lanes / lanes_of(target, p));
  const int64_t chunk = round_up(ceil_div(p.steps(), std::max<int64_t>(wanted, 4)), 16);
  return std::clamp<int64_t>(chunk, 16, 256);
}

bool chunked_applies(const Target& target, const Problem& p) { return p.steps() > chunk_of(target, p); }

template <bool native>
std::vector<Candidate> chunked_candidates(const Target& target, const Problem& p) {
  const int64_t chunks = ceil_div(p.steps(), chunk_of(target, p));
  const double lanes = lanes_of(target, p) * static_cast<double>(chunks);
  const double carries = static_cast<double>(chunks) * rates_of(target.caps).step_ns;
  return one_candidate(3 * rates_of(target.caps).dispatch_ns + 2 * updates_ns(target, p, lanes, native) +
                       carries);
}

// [batch, chunks, channels, states] in memory with neighbouring channels side by side.
Operand by_channel(const Operand& o) { return o.with_view(o.view.permute({0, 1, 3, 2})); }

template <bool native>
bool make_chunked(Lowering& l, const Problem& p, const Candidate&) {
  const int64_t chunk = chunk_of(l.target(), p);
  const int64_t chunks = ceil_div(p.steps(), chunk);
  const auto passes = [&](const Operand& ends, const Operand& total) {
    Problem first = p;
    first.y = first.z = first.c = first.initial = {};
    first.resumes = false;
    first.state = by_channel(ends);
    Problem last = p;
    last.initial = {};
    last.resumes = true;
    last.state = by_channel(ends);
    const View kept{
        .dims = ends.view.dims, .strides = {total.view.strides[0], total.view.strides[1], 0, 1}, .offset = 0};
    const View rates = p.rates.view.slice(1, 0, p.states()).permute({1, 0});
    return std::array{
        make_pass(l, first, {.chunk = chunk, .chunks = chunks, .native = native, .total = total}),
        carry_dispatch(l, {.rates = p.rates.with_view(rates),
                           .kept = total.with_view(kept),
                           .chunks = ends,
                           .state = p.state.with_view(p.state.view.permute({0, 2, 1}))}),
        make_pass(l, last, {.chunk = chunk, .chunks = chunks, .ends = false, .native = native}),
    };
  };
  const Dims ends{p.rows(), chunks, p.states(), p.channels()};
  const Dims totals{p.rows(), chunks, p.channels()};
  UntakenScratch untaken;
  for (const Dispatch& d : passes(untaken(ends), untaken(totals))) {
    if (!fits(d, l.caps())) return false;
  }
  begin_state(l, p.initial, p.state);
  for (Dispatch& d : passes(l.scratch(DType::f32, ends), l.scratch(DType::f32, totals))) l.emit(std::move(d));
  return true;
}

// --- All steps with four channels in each lane ---

bool quads_applies(const Target&, const Problem& p) {
  const auto fours = [](const Operand& o) { return !o.present() || reads_fours(o); };
  return p.states() % 4 == 0 && p.states() <= 32 && fours(p.x) && fours(p.delta) && fours(p.z) &&
         fours(p.b) && fours(p.c) && fours(p.y);
}

std::vector<Candidate> quads_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  // Measured on a CPU; on a GPU four channels in a lane leave three lanes without work.
  const double share = r.cpu ? 0.6 : 4;
  return one_candidate(r.dispatch_ns + share * updates_ns(target, p, lanes_of(target, p), false));
}

bool make_quads(Lowering& l, const Problem& p, const Candidate&) {
  using Quads = kernels::selective_scan_quads;
  const int64_t tiles = ceil_div(p.channels(), 4 * int64_t{Quads::LANES});
  Dispatch d = l.make<Quads>(
      {.x = p.x,
       .delta = p.delta,
       .z = p.z,
       .rates = p.rates,
       .b = p.b,
       .c = p.c,
       .initial = p.initial,
       .state = p.state,
       .y = p.y},
      params_of<Quads>(p, {.chunk = p.steps()}, tiles), p.rows() * tiles,
      {.SKIP = p.op->skip, .BIAS = p.op->bias, .SOFTPLUS = p.op->softplus, .FOURS = to_u32(p.states() / 4)});
  if (!fits(d, l.caps())) return false;
  l.emit(std::move(d));
  return true;
}

constexpr Variant<Problem, bool> kVariants[] = {
    {"serial", always, serial_candidates<false>, make_serial<false>},
    {"quads", quads_applies, quads_candidates, make_quads},
    {"chunked", chunked_applies, chunked_candidates<false>, make_chunked<false>},
    {"serial_exp2", always, serial_candidates<true>, make_serial<true>},
    {"chunked_exp2", chunked_applies, chunked_candidates<true>, make_chunked<true>},
};

void SelectiveSteps::lower(Lowering& l) const {
  const Problem p{.op = this,
                  .x = l.in(kX),
                  .delta = l.in(kDelta),
                  .z = l.optional_in(kZ),
                  .y = l.out(0),
                  .rates = l.in(kRates),
                  .b = l.in(kB),
                  .c = l.in(kC),
                  .initial = l.optional_in(kInitial),
                  .state = l.out(1)};
  if (p.state.view.elements() == 0) return;
  if (p.steps() == 0) return begin_state(l, p.initial, p.state);
  if (!l.choose(kName, kVariants, p).make(l, p)) emit_serial(l, p, false);
}

// --- The op ---

struct SelectiveScan final : OpOf<SelectiveScan> {
  static constexpr auto kName = "selective_scan";
  enum Input : int64_t { kX, kDelta, kA, kB, kC, kD, kZ, kBias, kInitial };
  bool softplus = false;

  void visit_attributes(AttributeVisitor& v) override { v("delta_softplus", softplus, false); }
  // What is kept is e^(delta a), and grows from step to step if that is more than 1.
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    if (input == kDelta) return ValueRange{.low = 0, .high = 1};
    return input == kA ? std::optional(ValueRange{.low = -1, .high = 0}) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(5, 9);
    const Shape& a = in.shape(kA);
    if (a.rank() != 2) fail("selective_scan: a is {}; it must be [channels, states]", a.text());
    const Shapes shapes = infer_shapes(in, kB, kC, kZ, a[1]);
    expect_input_shape(in, kA, "a", shapes.a);
    if (in.has(kD)) expect_input_shape(in, kD, "d", {shapes.x[2]});
    if (in.has(kBias)) expect_input_shape(in, kBias, "the bias of delta", {shapes.x[2]});
    expect_state(in, kInitial, shapes.state);
    return {{in.dtype(kX), shapes.x}, {DType::f32, shapes.state}};
  }
  void reference(RefContext& r) const override {
    const RefTensor& a = r.in(kA);
    Reference in{.x = r.in(kX),
                 .delta = r.in(kDelta),
                 .b = r.in(kB),
                 .c = r.in(kC),
                 .z = r.optional_in(kZ),
                 .initial = r.optional_in(kInitial),
                 .a = [&](int64_t channel,
                          int64_t state) { return a.real[static_cast<size_t>(channel * a.dims[1] + state)]; },
                 .d = {},
                 .bias = {},
                 .softplus = softplus};
    const auto of_channel = [&](int64_t input) {
      return [&r, input](int64_t channel) { return r.in(input).real[static_cast<size_t>(channel)]; };
    };
    if (r.has(kD)) in.d = of_channel(kD);
    if (r.has(kBias)) in.bias = of_channel(kBias);
    run_reference_scan(in, r);
  }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    auto steps = std::make_shared<SelectiveSteps>();
    steps->skip = static_cast<bool>(in[kD]);
    steps->bias = static_cast<bool>(in[kBias]);
    steps->softplus = softplus;
    Value rates = in[kA];
    std::vector<Value> columns = {rates};
    for (const Value& extra : {in[kD], in[kBias]}) {
      if (extra) columns.push_back(reshape(extra, {extra.shape()[0], 1}));
    }
    for (Value& column : columns) {
      if (columns.size() > 1 && column.dtype() != DType::f32) column = cast(column, DType::f32);
    }
    if (columns.size() > 1) rates = concat(columns, 1);
    return all_outputs(
        in.graph.add_value(steps, {in[kX], in[kDelta], rates, in[kB], in[kC], in[kZ], in[kInitial]}));
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return scan_tolerance(inputs[kX].shape, inputs[kB].shape);
  }
};

}  // namespace

Scanned selective_scan(Value x, Value delta, Value a, Value b, Value c, const SelectiveScanOptions& o) {
  auto op = std::make_shared<SelectiveScan>();
  op->softplus = o.delta_softplus;
  return named_outputs<Scanned>(add_node(op, {x, delta, a, b, c, o.d, o.z, o.delta_bias, o.initial_state}));
}

namespace ops {
void register_selective_scan(OpTable& table) {
  table.add<SelectiveScan>(
      {.formula = "h = exp(delta a) h + delta x b, y = (sum(c h) + d x) silu(z), for each step; delta + "
                  "delta_bias, or its softplus, in place of delta",
       .operands = "x: [batch, steps, channels]\n"
                   "delta (float): [batch, steps, channels], the size of each step\n"
                   "a (float): [channels, states], how fast each state decays\n"
                   "b (float): [batch, steps, states], what x adds to each state\n"
                   "c (float): [batch, steps, states], what each state adds to y\n"
                   "d? (float): [channels]; d x is added to y, or nothing if left out\n"
                   "z? (float): of the shape of x; at the end y is multiplied by silu(z), if it is given\n"
                   "delta_bias? (float): [channels], added to delta; 0 if left out\n"
                   "initial_state? (f32): [batch, channels, states]; zeros if left out",
       .attributes = "delta_softplus: the softplus of delta and its bias takes the place of delta",
       .outputs = "y: [batch, steps, channels]\n"
                  "state (f32): [batch, channels, states], the state after the last step",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "selective_scan(T[2,5,17], T[2,5,17], T[17,16] in -2..0, T[2,5,16], T[2,5,16], T[17], T[2,5,17], "
           "T[17], f32[2,17,16]) {delta_softplus=true}",
           "selective_scan(T[1,0,5], T[1,0,5], T[5,4], T[1,0,4], T[1,0,4])",
       }});
  // Decays of -2 and delta up to 0.5 forget slowly enough to see what is carried.
  table.add<SelectiveSteps>(
      {.formula = "the steps of selective_scan; rates has the columns a, d (`skip`) and delta_bias (`bias`)",
       .operands =
           "x: [batch, steps, channels]\n"
           "delta (float): [batch, steps, channels], the size of each step\n"
           "rates (float): [channels, columns]: a of each state, then d and delta_bias, if there are any\n"
           "b (float): [batch, steps, states], what x adds to each state\n"
           "c (float): [batch, steps, states], what each state adds to y\n"
           "z? (float): of the shape of x; at the end y is multiplied by silu(z), if it is given\n"
           "initial_state? (f32): [batch, channels, states]; zeros if left out",
       .attributes = "skip: whether rates has a column d\n"
                     "bias: whether the last column of rates is delta_bias\n"
                     "delta_softplus: the softplus of delta and its bias takes the place of delta",
       .outputs = "y: [batch, steps, channels]\n"
                  "state (f32): [batch, channels, states], the state after the last step",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples =
           {
               "selective_steps(T[2,5,17], T[2,5,17] in 0..0.5, T[17,3] in -2..0, T[2,5,3], T[2,5,3])",
               "selective_steps(T[1,257,3], T[1,257,3] in -3..0, T[3,17] in -2..0, T[1,257,16], T[1,257,16], "
               "none, f32[1,3,16]) {skip=true, delta_softplus=true}",
               "selective_steps(T[3,1,65], T[3,1,65] in 0..0.5, T[65,64] in -2..0, T[3,1,64], T[3,1,64], "
               "T[3,1,65], f32[3,65,64])",
               "selective_steps(T[1,33,5], T[1,33,5] in 0..0.5, T[5,200] in -2..0, T[1,33,200], T[1,33,200], "
               "none, f32[1,5,200])",
               "selective_steps(T[2,27,36], T[2,27,36] in 0..0.5, T[36,22] in -2..0, T[2,27,20], T[2,27,20], "
               "T[2,27,36], f32[2,36,20]) {skip=true, bias=true, delta_softplus=true}",
               "selective_steps(T[1,0,5], T[1,0,5], T[5,4], T[1,0,4], T[1,0,4], none, f32[1,5,4])",
               "selective_steps(T[0,3,5], T[0,3,5], T[5,4], T[0,3,4], T[0,3,4])",
               "selective_steps(T[2,3,0], T[2,3,0], T[0,4], T[2,3,4], T[2,3,4])",
               // More than a small device binds.
               "selective_steps(T[1,300,70], T[1,300,70] in -2..1, T[70,18] in -2..0, T[1,300,16], "
               "T[1,300,16], T[1,300,70], f32[1,70,16]) {skip=true, bias=true, delta_softplus=true}",
               "selective_steps(T[1,1,40000], T[1,1,40000] in 0..0.5, T[40000,1] in -2..0, T[1,1,1], "
               "T[1,1,1], "
               "none, f32[1,40000,1])",
           },
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
