// Recurrent networks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class RecurrentDirection { forward, reverse, bidirectional };
struct RecurrentOptions {
  // Inputs that may be left out. D is the number of directions, g that of gates.
  Value bias = {};       // [D, 2 * g * units]: one for x, then one for the state
  Value lengths = {};    // [batch], integers: how many steps each row has; the others are zero in y
  Value initial_h = {};  // [D, batch, size of h]; zeros otherwise
  Value initial_c = {};  // lstm: [D, batch, units]; likewise
  Value peepholes = {};  // lstm: [D, 3 * units] for the input, output and forget gates
  Value projection =
      {};  // lstm: [D, size, units]: h is the projection of the cell's output (PyTorch's proj_size)

  RecurrentDirection direction = RecurrentDirection::forward;
  bool batch_first = false;  // batch comes before steps and directions, in inputs and results
  // Names of element-wise functions, or expressions of $0 ("leaky_relu($0,0.1)"), for each direction: of the
  // gates, the candidate and the output of lstm, of the gates and the candidate of gru, of rnn. sigmoid and
  // tanh if empty.
  std::vector<std::string> activations = {};
  std::optional<double> clip = {};  // bounds what goes into the activations of gates and candidates
  bool input_forget = false;        // lstm: the forget gate is 1 - the input gate
  bool linear_before_reset =
      false;  // gru: the reset gate multiplies the product of the state (as in PyTorch), not the state
};
// Results: those of a row without steps are zero.
struct RecurrentOutputs {
  Value y;  // [steps, D, batch, size of h]
  Value h;  // the last one, [D, batch, size of h]
};
struct LstmOutputs {
  Value y;
  Value h;
  Value c;  // the last one, [D, batch, units]
};
// x [steps, batch, k], w [D, g * units, k], r [D, g * units, size of h], as in ONNX. Sums are f32 and so is
// c; the product of x and w, and h, are rounded to the type of x in each step. Gates are input, output,
// forget, candidate.
LstmOutputs lstm(Value x, Value w, Value r, const RecurrentOptions& options = {});
// Gates are update, reset, candidate.
RecurrentOutputs gru(Value x, Value w, Value r, const RecurrentOptions& options = {});
RecurrentOutputs rnn(Value x, Value w, Value r, const RecurrentOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
