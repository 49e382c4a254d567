// lstm, gru and rnn, as in ONNX: one product of all inputs with their weights, and the steps
// (ops/recurrent/recurrence.h).
#include "base/format.h"
#include "ir/reference.h"
#include "ops/control_flow/body.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/rearrange/contiguous.h"
#include "ops/recurrent/recurrence.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

// In ONNX's order, except that gru and rnn have none after kInitialH, and that only this lstm has a
// projection.
enum Input : int64_t { kX, kW, kR, kBias, kLengths, kInitialH, kInitialC, kPeepholes, kProjection };

struct Recurrent : TableOp {
  RecurrentAttributes a;

  virtual RecurrentCell cell() const = 0;
  void visit_attributes(AttributeVisitor& v) override { a.visit(v); }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  bool expands() const override { return true; }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    return input == kLengths ? values_between(1, inputs[kX].shape[a.batch_first ? 1 : 0]) : std::nullopt;
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
};

void expect_shape(const InferArgs& in, int64_t input, std::string_view what, const Shape& wanted) {
  if (!(in.shape(input) == wanted))
    fail("{}: {} is {}; it must be {}", in.op(), what, in.shape(input).text(), wanted.text());
}

std::vector<TensorType> Recurrent::infer(const InferArgs& in) const {
  const bool lstm = cell() == RecurrentCell::lstm;
  in.expect_count(3, lstm ? 9 : 6);
  in.expect_float(kX);
  check_recurrent(in.op(), cell(), a);
  const int64_t gates = gates_of(cell());
  const int64_t directions = a.directions();
  const Shape& x = in.shape(kX);
  const Shape& r = in.shape(kR);
  if (x.rank() != 3)
    fail("{}: x {} must be {}", in.op(), x.text(), a.batch_first ? "[batch, steps, k]" : "[steps, batch, k]");
  if (r.rank() != 3 || !r[0].is(directions) || !r[1].is_static() || !r[2].is_static() ||
      r[1].value() % gates != 0) {
    fail("{}: r {} must be [{}, {} * units, size of h]: {} direction{}, {} gate{}", in.op(), r.text(),
         directions, gates, directions, directions == 1 ? "" : "s", gates, gates == 1 ? "" : "s");
  }
  const int64_t units = r[1].value() / gates;
  const int64_t size = r[2].value();
  if (size != units && !in.has(kProjection))
    fail("{}: r {} has {} units and a state of {}; these must be equal without a projection", in.op(),
         r.text(), units, size);
  expect_shape(in, kW, "w", {directions, gates * units, x[2]});
  const Dim& rows = x[a.batch_first ? 0 : 1];
  const Dim& steps = x[a.batch_first ? 1 : 0];
  if (in.has(kBias)) expect_shape(in, kBias, "the bias", {directions, 2 * gates * units});
  if (in.has(kLengths)) {
    in.expect_dtype(kLengths, is_integer(in.dtype(kLengths)), "an integer type");
    expect_shape(in, kLengths, "the lengths", {rows});
  }
  if (in.has(kInitialH)) expect_shape(in, kInitialH, "the initial h", recurrent_state(a, rows, size));
  if (in.has(kInitialC)) expect_shape(in, kInitialC, "the initial c", recurrent_state(a, rows, units));
  if (in.has(kPeepholes)) expect_shape(in, kPeepholes, "the peepholes", {directions, 3 * units});
  if (in.has(kProjection)) expect_shape(in, kProjection, "the projection", {directions, size, units});
  for (int64_t i = kW; i < in.count(); ++i) {
    if (i != kLengths && in.has(i)) in.expect_same_dtype(kX, i);
  }
  std::vector<TensorType> out = {{in.dtype(kX), recurrent_y(a, steps, rows, size)},
                                 {in.dtype(kX), recurrent_state(a, rows, size)}};
  if (lstm) out.push_back({in.dtype(kX), recurrent_state(a, rows, units)});
  return out;
}

// --- Reference ---

void Recurrent::reference(RefContext& r) const {
  const RefTensor& x = r.in(kX);
  const RefTensor& w = r.in(kW);
  const RefTensor& state = r.in(kR);
  const int64_t gates = gates_of(cell());
  const int64_t directions = a.directions();
  const int64_t units = state.dims[1] / gates;
  const int64_t size = state.dims[2];
  const int64_t k = x.dims[2];
  const int64_t width = directions * gates * units;
  const int64_t lines = x.dims[0] * x.dims[1];
  // w as [k, width].
  std::vector<double> columns(static_cast<size_t>(k * width));
  for (int64_t i = 0; i < k * width; ++i)
    columns[static_cast<size_t>(i)] = w.real[static_cast<size_t>(i % width * k + i / width)];
  std::vector<double> sums(static_cast<size_t>(lines * width), 0);
  multiply_reference(x.real.data(), columns.data(), sums.data(), lines, width, k);
  // The last gate of the cell gru_after has the bias of the state within its reset.
  std::vector<double> extra;
  if (r.has(kBias)) {
    const std::vector<double>& bias = r.in(kBias).real;
    const auto bias_at = [&](int64_t d, int64_t which, int64_t i) {
      return bias[static_cast<size_t>((2 * d + which) * gates * units + i)];
    };
    for (int64_t i = 0; i < lines * width; ++i) {
      const int64_t d = i % width / (gates * units);
      const int64_t gate = i % (gates * units) / units;
      const bool within = cell() == RecurrentCell::gru_after && gate == 2;
      sums[static_cast<size_t>(i)] +=
          bias_at(d, 0, i % (gates * units)) + (within ? 0 : bias_at(d, 1, i % (gates * units)));
    }
    for (int64_t i = 0; cell() == RecurrentCell::gru_after && i < directions * units; ++i)
      extra.push_back(bias_at(i / units, 1, 2 * units + i % units));
  }
  const auto real = [&](int64_t i) { return r.has(i) ? &r.in(i).real : nullptr; };
  RecurrentReference in{
      .cell = cell(),
      .attributes = &a,
      .sizes = {directions, x.dims[a.batch_first ? 1 : 0], x.dims[a.batch_first ? 0 : 1], units, size},
      .gates = &sums,
      .r =
          [&](int64_t d, int64_t gate, int64_t unit, int64_t i) {
            return state.real[static_cast<size_t>(((d * gates + gate) * units + unit) * size + i)];
          },
      .projection = {},
      .extra = extra.empty() ? real(kPeepholes) : &extra,
      .lengths = r.has(kLengths) ? &r.in(kLengths).ints : nullptr,
      .h0 = real(kInitialH),
      .c0 = real(kInitialC)};
  if (r.has(kProjection)) {
    in.projection = [&](int64_t d, int64_t i, int64_t unit) {
      return r.in(kProjection).real[static_cast<size_t>((d * size + i) * units + unit)];
    };
  }
  run_recurrent(in, r);
}

Tolerance Recurrent::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[kX].shape;
  const Shape& r = inputs[kR].shape;
  return recurrent_tolerance(cell(), inputs[kX].dtype, static_cast<double>(x[a.batch_first ? 1 : 0].value()),
                             static_cast<double>(x[2].value() + r[2].value()));
}

// --- Expansion ---

// With zeros up to multiples of four along the axes, and in its own memory.
Value packed(Value v, const std::vector<int64_t>& axes, std::vector<int64_t> order) {
  std::vector<int64_t> before(static_cast<size_t>(v.shape().rank()), 0), after = before;
  for (const int64_t axis : axes) {
    const int64_t size = v.shape()[axis].value();
    after[static_cast<size_t>(axis)] = round_up(size, 4) - size;
  }
  if (after != before) v = pad(v, before, after);
  return add_node(std::make_shared<Contiguous>(), {transpose(v, std::move(order))});
}

std::optional<std::vector<Value>> Recurrent::expand(const ExpandArgs& in) const {
  const int64_t gates = gates_of(cell());
  const int64_t directions = a.directions();
  const Value x = in[kX];
  const Value state = in[kR];
  const int64_t units = state.shape()[1].value() / gates;
  const Dim size = state.shape()[2];

  Value sums = matmul(x, transpose(reshape(in[kW], {directions * gates * units, x.shape()[2]})));
  Value extra;
  if (in[kPeepholes]) extra = reshape(in[kPeepholes], {directions, 3, units});
  if (in[kBias]) {
    const Value bias = reshape(in[kBias], {directions, 2, gates, units});
    const Value of_x = slice(bias, 1, 0, 1);
    Value of_h = slice(bias, 1, 1, 1);
    if (cell() == RecurrentCell::gru_after) {
      extra = reshape(slice(of_h, 2, 2, 1), {directions, 1, units});
      of_h = pad(slice(of_h, 2, 0, 2), {0, 0, 0, 0}, {0, 0, 1, 0});
    }
    sums = sums + reshape(of_x + of_h, {directions * gates * units});
  }
  sums = reshape(sums, {x.shape()[0], x.shape()[1], directions, gates, units});

  const Value by_gate = reshape(state, {directions, gates, units, size});
  const bool apart = cell() == RecurrentCell::gru;
  auto op = std::make_shared<Recurrence>();
  op->cell = cell();
  op->a = a;
  op->projected = in[kProjection] ? size.value() : 0;
  const Value first = packed(apart ? slice(by_gate, 1, 0, 2) : by_gate, {2, 3}, {0, 3, 1, 2});
  Value second;
  if (apart) second = packed(reshape(slice(by_gate, 1, 2, 1), {directions, units, size}), {1, 2}, {0, 2, 1});
  if (in[kProjection]) second = packed(in[kProjection], {1, 2}, {0, 2, 1});
  return all_outputs(
      in.graph.add_value(op, {sums, first, second, extra, in[kLengths], in[kInitialH], in[kInitialC]}));
}

// --- The ops ---

template <class Self>
struct RecurrentOf : Recurrent {
  std::string_view name() const override { return Self::kName; }
  std::shared_ptr<Op> clone() const override {
    return std::make_shared<Self>(static_cast<const Self&>(*this));
  }
};

struct Lstm final : RecurrentOf<Lstm> {
  static constexpr auto kName = "lstm";
  RecurrentCell cell() const override { return RecurrentCell::lstm; }
  void visit_attributes(AttributeVisitor& v) override {
    a.visit(v);
    v("input_forget", a.input_forget, false);
  }
};

struct Gru final : RecurrentOf<Gru> {
  static constexpr auto kName = "gru";
  bool linear_before_reset = false;
  RecurrentCell cell() const override {
    return linear_before_reset ? RecurrentCell::gru_after : RecurrentCell::gru;
  }
  void visit_attributes(AttributeVisitor& v) override {
    a.visit(v);
    v("linear_before_reset", linear_before_reset, false);
  }
};

struct Rnn final : RecurrentOf<Rnn> {
  static constexpr auto kName = "rnn";
  RecurrentCell cell() const override { return RecurrentCell::rnn; }
};

// What the caller asked for and the op does not have is an error, not ignored.
void refuse(bool given, std::string_view op, std::string_view what) {
  if (given) fail(ErrorKind::invalid_argument, "{}: has no {}", op, what);
}

template <class Made>
Value recurrent(std::shared_ptr<Made> op, Value x, Value w, Value r, const RecurrentOptions& o) {
  const std::string_view name = op->name();
  const bool lstm = op->cell() == RecurrentCell::lstm;
  refuse(!lstm && o.initial_c, name, "initial c");
  refuse(!lstm && o.peepholes, name, "peepholes");
  refuse(!lstm && o.projection, name, "projection");
  refuse(!lstm && o.input_forget, name, "forget gate that could be coupled");
  refuse(name != Gru::kName && o.linear_before_reset, name, "reset gate");
  op->a = {o.direction, o.batch_first, o.activations, o.clip, o.input_forget};
  std::vector<Value> inputs = {x, w, r, o.bias, o.lengths, o.initial_h};
  if (lstm) inputs.insert(inputs.end(), {o.initial_c, o.peepholes, o.projection});
  return add_node(op, inputs);
}

}  // namespace

LstmOutputs lstm(Value x, Value w, Value r, const RecurrentOptions& options) {
  return named_outputs<LstmOutputs>(recurrent(std::make_shared<Lstm>(), x, w, r, options));
}
RecurrentOutputs gru(Value x, Value w, Value r, const RecurrentOptions& options) {
  auto op = std::make_shared<Gru>();
  op->linear_before_reset = options.linear_before_reset;
  return named_outputs<RecurrentOutputs>(recurrent(op, x, w, r, options));
}
RecurrentOutputs rnn(Value x, Value w, Value r, const RecurrentOptions& options) {
  return named_outputs<RecurrentOutputs>(recurrent(std::make_shared<Rnn>(), x, w, r, options));
}

namespace ops {
void register_recurrent(OpTable& table) {
  table.add<Lstm>(
      {.formula =
           "i, o, f = sigmoid(x w + h r + bias + peepholes c), g = tanh(x w + h r + bias), c = f c + i g, "
           "h = o tanh(c), for each step; x [steps, batch, k], w [D, 4 units, k], r [D, 4 units, size of h] "
           "with "
           "the gates i, o, f, g; bias [D, 8 units], lengths [batch], initial_h [D, batch, size of h], "
           "initial_c [D, batch, units], peepholes [D, 3 units], projection [D, size of h, units]; gives y "
           "[steps, D, batch, size of h], the last h and the last c",
       .operands =
           "x: [steps, batch, k]\n"
           "w: weights of x, [D, 4 units, k]: D directions, each with the gates input, output, forget, "
           "candidate\n"
           "r: weights of h, [D, 4 units, size of h]\n"
           "bias?: [D, 8 units], those of w and then those of r; 0 if left out\n"
           "lengths? (integer): [batch], how many steps each row has; all of them if left out\n"
           "initial_h?: [D, batch, size of h]; zeros if left out\n"
           "initial_c?: [D, batch, units]; zeros if left out\n"
           "peepholes?: [D, 3 units], weights of c in the input, output and forget gates; 0 if left out\n"
           "projection?: [D, size of h, units], turns the output of the cell into h; if left out, h is that "
           "output",
       .attributes =
           "direction: in which order steps are taken; D is 2 if in both orders, else 1\n"
           "batch_first: batch comes before steps and directions, in operands and outputs\n"
           "activations: element-wise functions, or expressions of $0, for each direction: of the gates, "
           "the candidate and the output; sigmoid, tanh, tanh if empty\n"
           "clip: the bound of what goes into the activations of gates and candidate; none if not given\n"
           "input_forget: the forget gate is 1 minus the input gate",
       .outputs = "y: [steps, D, batch, size of h], h after each step; zero after the last step of a row\n"
                  "h: [D, batch, size of h], the last h\n"
                  "c: [D, batch, units], the last c",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "lstm(T[5,3,7], T[1,68,7] in -0.3..0.3, T[1,68,17] in -0.3..0.3, T[1,136])",
           "lstm(T[1,1,1], T[1,4,1], T[1,4,1])",
           "lstm(T[4,17,5], T[2,12,5] in -0.5..0.5, T[2,12,3] in -0.5..0.5, T[2,24], i32[17] in -1..6, "
           "T[2,17,3], T[2,17,3], T[2,9]) {direction=\"bidirectional\"}",
           "lstm(T[2,6,5], T[1,12,5] in -0.5..0.5, T[1,12,3] in -0.5..0.5, none, i64[2] in 0..7, T[2,1,3], "
           "T[2,1,3]) {direction=\"reverse\", batch_first=true, clip=0.5, input_forget=true}",
           "lstm(T[3,2,5], T[2,40,5] in -0.5..0.5, T[2,40,3] in -0.5..0.5, T[2,80], i32[2] in 0..4, "
           "T[2,2,3], "
           "T[2,2,10], none, T[2,3,10] in -0.5..0.5) {direction=\"bidirectional\"}",
           "lstm(T[3,2,5], T[2,8,5] in -0.5..0.5, T[2,8,2] in -0.5..0.5, T[2,16]) "
           "{direction=\"bidirectional\", "
           "activations=[\"hard_sigmoid($0,0.2,0.5)\", \"softsign\", \"relu\", \"sigmoid\", "
           "\"t0=mul($0,0.5); t1=tanh(t0); mul(t1,1.5)\", \"elu($0,0.5)\"]}",
           "lstm(T[2,3,9], T[1,1028,9] in -0.1..0.1, T[1,1028,257] in -0.1..0.1, T[1,2056], i32[3] in 0..3, "
           "T[1,3,257], T[1,3,257])",
           // No steps, no rows, nothing to read.
           "lstm(T[0,3,5], T[1,12,5], T[1,12,3], T[1,24], none, T[1,3,3], T[1,3,3])",
           "lstm(T[4,0,5], T[1,12,5], T[1,12,3])",
           "lstm(T[4,2,0], T[1,12,0], T[1,12,3], T[1,24])",
       }});
  table.add<Gru>(
      {.formula =
           "z, r = sigmoid(x w + h r + bias), g = tanh(x w + (r h) r + bias), h = (1 - z) g + z h, for each "
           "step; linear_before_reset: r (h r + bias) in place of (r h) r; x [steps, batch, k], w [D, 3 "
           "units, "
           "k], r [D, 3 units, units] with the gates z, r, g; bias [D, 6 units], lengths [batch], initial_h "
           "[D, batch, units]; gives y [steps, D, batch, units] and the last h",
       .operands =
           "x: [steps, batch, k]\n"
           "w: weights of x, [D, 3 units, k]: D directions, each with the gates update, reset, candidate\n"
           "r: weights of h, [D, 3 units, units]\n"
           "bias?: [D, 6 units], those of w and then those of r; 0 if left out\n"
           "lengths? (integer): [batch], how many steps each row has; all of them if left out\n"
           "initial_h?: [D, batch, units]; zeros if left out",
       .attributes =
           "direction: in which order steps are taken; D is 2 if in both orders, else 1\n"
           "batch_first: batch comes before steps and directions, in operands and outputs\n"
           "activations: element-wise functions, or expressions of $0, for each direction: of the gates and "
           "the candidate; sigmoid, tanh if empty\n"
           "clip: the bound of what goes into the activations of gates and candidate; none if not given\n"
           "linear_before_reset: the reset gate multiplies the product of h and r, instead of h",
       .outputs = "y: [steps, D, batch, units], h after each step; zero after the last step of a row\n"
                  "h: [D, batch, units], the last h",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "gru(T[5,3,7], T[1,51,7] in -0.3..0.3, T[1,51,17] in -0.3..0.3, T[1,102])",
           "gru(T[5,3,7], T[1,51,7] in -0.3..0.3, T[1,51,17] in -0.3..0.3, T[1,102]) "
           "{linear_before_reset=true}",
           "gru(T[17,4,5], T[2,9,5] in -0.5..0.5, T[2,9,3] in -0.5..0.5, T[2,18], i32[17] in -1..6, "
           "T[17,2,3]) "
           "{direction=\"bidirectional\", batch_first=true}",
           "gru(T[4,17,5], T[1,9,5] in -0.5..0.5, T[1,9,3] in -0.5..0.5, none, i32[17] in -1..6, T[1,17,3]) "
           "{direction=\"reverse\", linear_before_reset=true, clip=0.7}",
           "gru(T[2,3,9], T[1,771,9] in -0.1..0.1, T[1,771,257] in -0.1..0.1)",
           "gru(T[0,3,5], T[1,9,5], T[1,9,3], none, none, T[1,3,3])",
       }});
  table.add<Rnn>(
      {.formula = "h = tanh(x w + h r + bias) for each step; x [steps, batch, k], w [D, units, k], r [D, "
                  "units, units]; bias [D, 2 units], lengths [batch], initial_h [D, batch, units]; gives y "
                  "[steps, D, batch, units] and the last h",
       .operands = "x: [steps, batch, k]\n"
                   "w: weights of x, [D, units, k]: D directions\n"
                   "r: weights of h, [D, units, units]\n"
                   "bias?: [D, 2 units], those of w and then those of r; 0 if left out\n"
                   "lengths? (integer): [batch], how many steps each row has; all of them if left out\n"
                   "initial_h?: [D, batch, units]; zeros if left out",
       .attributes = "direction: in which order steps are taken; D is 2 if in both orders, else 1\n"
                     "batch_first: batch comes before steps and directions, in operands and outputs\n"
                     "activations: element-wise functions, or expressions of $0, for each direction: of h; "
                     "tanh if empty\n"
                     "clip: the bound of what goes into the activations; none if not given",
       .outputs = "y: [steps, D, batch, units], h after each step; zero after the last step of a row\n"
                  "h: [D, batch, units], the last h",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {
           "rnn(T[5,3,7], T[1,17,7] in -0.3..0.3, T[1,17,17] in -0.3..0.3, T[1,34])",
           "rnn(T[4,17,5], T[2,3,5] in -0.5..0.5, T[2,3,3] in -0.5..0.5, T[2,6], i32[17] in -1..6, "
           "T[2,17,3]) {direction=\"bidirectional\", activations=[\"relu\", \"leaky_relu($0,0.1)\"]}",
           "rnn(T[1,3,5], T[1,1,5], T[1,1,1], T[1,2], none, T[1,1,1]) {direction=\"reverse\", "
           "batch_first=true, clip=1.5}",
           "rnn(T[3,2,40], T[1,257,40] in -0.1..0.1, T[1,257,257] in -0.1..0.1)",
           "rnn(T[0,3,5], T[1,3,5], T[1,3,3])",
       }});
}
}  // namespace ops

}  // namespace rlx
