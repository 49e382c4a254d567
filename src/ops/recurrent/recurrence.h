// What recurrent networks (lstm, gru, rnn) become: a product of all inputs at once, which ordinary nodes
// make, and the steps, which this op makes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "ops/elementwise/expr.h"
#include "ops/machinery/op_of.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

enum class RecurrentCell {
  rnn,
  lstm,
  gru,        // the reset gate multiplies the state before its product
  gru_after,  // and after it
};

// What all of these ops have.
struct RecurrentAttributes {
  RecurrentDirection direction = RecurrentDirection::forward;
  bool batch_first = false;
  std::vector<std::string> activations;  // of each direction
  std::optional<double> clip;
  bool input_forget = false;  // lstm only

  void visit(AttributeVisitor& v);
  int64_t directions() const { return direction == RecurrentDirection::bidirectional ? 2 : 1; }
};

int64_t gates_of(RecurrentCell cell);
// How many activations a direction has, and those of one: the given ones, or sigmoid and tanh.
int64_t activations_of(RecurrentCell cell);
std::vector<Expr> activations_of(std::string_view op, RecurrentCell cell, const RecurrentAttributes& a,
                                 int64_t direction);
// An error if the attributes make no sense.
void check_recurrent(std::string_view op, RecurrentCell cell, const RecurrentAttributes& a);

struct RecurrentSizes {
  int64_t directions = 1;
  int64_t steps = 0;
  int64_t rows = 0;   // of the batch
  int64_t units = 0;  // of the cell
  int64_t size = 0;   // of the state h: that of its projection, or units
};

// The shapes of y and of the states in the layout.
Shape recurrent_y(const RecurrentAttributes& a, const Dim& steps, const Dim& rows, const Dim& size);
Shape recurrent_state(const RecurrentAttributes& a, const Dim& rows, const Dim& size);

// The inputs of the steps in double; those that are absent are null, and weights are functions of their
// indices.
struct RecurrentReference {
  RecurrentCell cell;
  const RecurrentAttributes* attributes;
  RecurrentSizes sizes;
  const std::vector<double>* gates;  // [steps, rows, D, gates, units]
  std::function<double(int64_t d, int64_t gate, int64_t unit, int64_t k)> r;  // with all gates of the cell
  std::function<double(int64_t d, int64_t i, int64_t unit)> projection;
  const std::vector<double>* extra;  // peepholes [D, 3, units]; the bias within the reset [D, units]
  const std::vector<int64_t>* lengths;
  const std::vector<double>* h0;
  const std::vector<double>* c0;
};
// Into y, y_h and (of lstm) y_c.
void run_recurrent(const RecurrentReference& in, RefContext& r);

// How far device and reference may be apart: `sum` products make a gate.
Tolerance recurrent_tolerance(RecurrentCell cell, DType type, double steps, double sum);

// recurrence(gates, r, s, extra, lengths, h0, c0) -> y, y_h, y_c. `gates` are the sums that inputs and biases
// make, [steps, batch, D, gates, units] or [batch, steps, ...]. Weights are by what they multiply, with zeros
// up to multiples of four: r [D, h, gates, units], s [D, units, h] is a projection of the output, or for the
// cell gru the last gate.
struct Recurrence final : OpOf<Recurrence> {
  static constexpr auto kName = "recurrence";
  enum Input : int64_t { kGates, kR, kS, kExtra, kLengths, kH0, kC0 };
  RecurrentCell cell = RecurrentCell::lstm;
  RecurrentAttributes a;
  int64_t projected = 0;  // the size of h if there is a projection

  void visit_attributes(AttributeVisitor& v) override;
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  bool reads_view(int64_t input, const View& view) const override;

  // Gates in r: the rest is in s.
  int64_t first_gates() const { return cell == RecurrentCell::gru ? 2 : gates_of(cell); }
  bool has_second() const { return cell == RecurrentCell::gru || projected > 0; }
};

inline int64_t padded_to_fours(int64_t n) { return round_up(n, 4); }
std::vector<std::string> recurrence_variants();

}  // namespace rlx
