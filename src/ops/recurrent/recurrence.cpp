#include "ops/recurrent/recurrence.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/lowering.h"
#include "ops/machinery/op_table.h"

namespace rlx {

void Recurrence::visit_attributes(AttributeVisitor& v) {
  v.choice("cell", cell, {"rnn", "lstm", "gru", "gru_after"});
  a.visit(v);
  v("input_forget", a.input_forget, false);
  v("projected", projected, 0);
}

namespace {

void expect_shape(const InferArgs& in, int64_t input, std::string_view what, const Shape& wanted) {
  if (!(in.shape(input) == wanted))
    fail("recurrence: {} is {}; it must be {}", what, in.shape(input).text(), wanted.text());
}

// Sizes of the cell and of h, known from inputs that inference has accepted or is about to check.
std::pair<int64_t, int64_t> units_and_size(const Recurrence& op, const Shape& gates) {
  const int64_t units = gates[4].value();
  return {units, op.projected > 0 ? op.projected : units};
}

}  // namespace

std::vector<TensorType> Recurrence::infer(const InferArgs& in) const {
  in.expect_count(2, 7);
  in.expect_float(kGates);
  check_recurrent(kName, cell, a);
  const Shape& gates = in.shape(kGates);
  const int64_t directions = a.directions();
  if (gates.rank() != 5 || !gates[2].is(directions) || !gates[3].is(gates_of(cell)) ||
      !gates[4].is_static()) {
    fail("recurrence: the gates {} must be [steps, batch, {}, {}, units]", gates.text(), directions,
         gates_of(cell));
  }
  if (projected < 0 || (projected > 0 && cell != RecurrentCell::lstm))
    fail("recurrence: the attribute projected is {}; only lstm has a projection", projected);
  const auto [units, size] = units_and_size(*this, gates);
  const Dim& rows = gates[a.batch_first ? 0 : 1];
  const Dim& steps = gates[a.batch_first ? 1 : 0];
  expect_shape(in, kR, "r", {directions, padded_to_fours(size), first_gates(), padded_to_fours(units)});
  if (in.has(kS) != has_second()) fail("recurrence: s must be given for gru and projections, and only then");
  if (in.has(kS)) expect_shape(in, kS, "s", {directions, padded_to_fours(units), padded_to_fours(size)});
  if (in.has(kExtra)) {
    if (cell != RecurrentCell::lstm && cell != RecurrentCell::gru_after)
      fail("recurrence: this cell has no peepholes and no bias within the reset");
    expect_shape(in, kExtra, "extra", {directions, cell == RecurrentCell::lstm ? 3 : 1, units});
  }
  if (in.has(kLengths)) {
    in.expect_dtype(kLengths, is_integer(in.dtype(kLengths)), "an integer type");
    expect_shape(in, kLengths, "lengths", {rows});
  }
  if (in.has(kH0)) expect_shape(in, kH0, "h0", recurrent_state(a, rows, size));
  if (in.has(kC0)) {
    if (cell != RecurrentCell::lstm) fail("recurrence: only lstm has a state c0");
    expect_shape(in, kC0, "c0", recurrent_state(a, rows, units));
  }
  for (const int64_t i : {kR, kS, kExtra, kH0, kC0}) {
    if (in.has(i)) in.expect_same_dtype(kGates, i);
  }
  const DType type = in.dtype(kGates);
  std::vector<TensorType> out = {{type, recurrent_y(a, steps, rows, size)},
                                 {type, recurrent_state(a, rows, size)}};
  if (cell == RecurrentCell::lstm) out.push_back({type, recurrent_state(a, rows, units)});
  return out;
}

// Weights are read four at a time.
bool Recurrence::reads_view(int64_t input, const View& view) const {
  if (input == kGates || input == kLengths || input == kH0 || input == kC0) return true;
  return view.is_contiguous() && (input > kS || view.offset % 4 == 0);
}

void Recurrence::reference(RefContext& r) const {
  const RefTensor& gates = r.in(kGates);
  const RefTensor& weights = r.in(kR);
  const RefTensor* const second = r.optional_in(kS);
  const int64_t units = gates.dims[4];
  const auto real = [&](int64_t i) { return r.has(i) ? &r.in(i).real : nullptr; };
  const auto at = [](const RefTensor& t, int64_t index) { return t.real[static_cast<size_t>(index)]; };
  RecurrentReference in{
      .cell = cell,
      .attributes = &a,
      .sizes = {.directions = a.directions(),
                .steps = gates.dims[a.batch_first ? 1 : 0],
                .rows = gates.dims[a.batch_first ? 0 : 1],
                .units = units,
                .size = projected > 0 ? projected : units},
      .gates = &gates.real,
      .r =
          [&](int64_t d, int64_t gate, int64_t unit, int64_t k) {
            if (gate >= first_gates()) return at(*second, (d * second->dims[1] + k) * second->dims[2] + unit);
            return at(weights, ((d * weights.dims[1] + k) * weights.dims[2] + gate) * weights.dims[3] + unit);
          },
      .projection = {},
      .extra = real(kExtra),
      .lengths = r.has(kLengths) ? &r.in(kLengths).ints : nullptr,
      .h0 = real(kH0),
      .c0 = real(kC0)};
  if (projected > 0) {
    in.projection = [&](int64_t d, int64_t i, int64_t unit) {
      return at(*second, (d * second->dims[1] + unit) * second->dims[2] + i);
    };
  }
  run_recurrent(in, r);
}

Tolerance Recurrence::tolerance(std::span<const TensorType> inputs) const {
  const Shape& gates = inputs[0].shape;
  return recurrent_tolerance(cell, inputs[0].dtype, static_cast<double>(gates[a.batch_first ? 1 : 0].value()),
                             static_cast<double>(gates[4].value()));
}

namespace ops {
void register_recurrence(OpTable& table) {
  table.add<Recurrence>(
      {.formula = "the steps of lstm, gru or rnn from the sums that their inputs make",
       .operands =
           "gates: sums of products and biases of x, [steps, batch, D, gates, units] for D directions\n"
           "r: weights of h, [D, size of h, gates, units], with zeros up to multiples of four\n"
           "s?: [D, units, size of h], likewise: the projection of an lstm, or the last gate of a gru\n"
           "extra?: peepholes [D, 3, units] of an lstm, or the bias inside the reset [D, 1, units] of a "
           "gru_after\n"
           "lengths? (integer): [batch], how many steps each row has; all of them if left out\n"
           "h0?: [D, batch, size of h], the initial h; zeros if left out\n"
           "c0?: [D, batch, units], the initial c of an lstm; zeros if left out",
       .attributes =
           "cell: the network whose steps these are\n"
           "direction: in which order steps are taken; D is 2 if in both orders, else 1\n"
           "batch_first: batch comes before steps and directions, in operands and outputs\n"
           "activations: element-wise functions, or expressions of $0, for each direction: of its gates and "
           "states; sigmoid and tanh if empty\n"
           "clip: the bound of what goes into the activations of gates and candidate; none if not given\n"
           "input_forget: the forget gate of an lstm is 1 minus its input gate\n"
           "projected: the size of h if there is a projection, else 0",
       .outputs = "y: [steps, D, batch, size of h], h after each step; zero after the last step of a row\n"
                  "h: [D, batch, size of h], the last h\n"
                  "c?: [D, batch, units], the last c of an lstm",
       .types = "f32 f16 bf16",
       .variants = recurrence_variants(),
       .samples =
           {
               "recurrence(T[5,3,1,1,17], T[1,20,1,20] in -0.3..0.3) {cell=\"rnn\"}",
               "recurrence(T[4,2,2,4,12], T[2,12,4,12] in -0.3..0.3, none, T[2,3,12], i32[2] in 0..5, "
               "T[2,2,12], T[2,2,12]) {cell=\"lstm\", direction=\"bidirectional\"}",
               "recurrence(T[2,4,1,4,5], T[1,4,4,8] in -0.3..0.3, T[1,8,4] in -0.3..0.3, none, i64[2] in "
               "0..5, T[2,1,3], T[2,1,5]) {cell=\"lstm\", direction=\"reverse\", batch_first=true, "
               "projected=3}",
               "recurrence(T[3,2,2,3,9], T[2,12,2,12] in -0.3..0.3, T[2,12,12] in -0.3..0.3, none, i32[2] in "
               "0..4, T[2,2,9]) {cell=\"gru\", direction=\"bidirectional\"}",
               "recurrence(T[3,5,1,3,9], T[1,12,3,12] in -0.3..0.3, none, T[1,1,9]) {cell=\"gru_after\"}",
           },
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
