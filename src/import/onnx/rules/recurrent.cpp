// LSTM, GRU and RNN.
#include "import/onnx/recurrent.h"

#include <algorithm>
#include <cctype>

#include "import/onnx/rules.h"
#include "rlx/ops/recurrent.h"

namespace rlx::onnx {
namespace {

// An activation as an expression of $0; those that have an alpha or a beta take the next of these.
struct Activation {
  std::string_view onnx;
  std::string_view text;  // {0} is alpha, {1} beta
  std::optional<double> alpha = {}, beta = {};
};
constexpr Activation kActivations[] = {
    {"relu", "relu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"},
    {"softsign", "softsign"},
    {"softplus", "softplus"},
    {"affine", "t0=mul($0,{0}); add(t0,{1})", 1.0, 0.0},
    {"leakyrelu", "leaky_relu($0,{0})", 0.01},
    {"thresholdedrelu", "thresholded_relu($0,{0})", 1.0},
    {"scaledtanh", "t0=mul($0,{1}); t1=tanh(t0); mul(t1,{0})", 1.0, 1.0},
    {"hardsigmoid", "hard_sigmoid($0,{0},{1})", 0.2, 0.5},
    {"elu", "elu($0,{0})", 1.0},
};

void replace(std::string& text, std::string_view from, double number) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), formatted("{}", number));
}

}  // namespace

std::vector<std::string> recurrent_activations(const Call& c) {
  const std::vector<double> alphas = c.reals("activation_alpha");
  const std::vector<double> betas = c.reals("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<std::string> out;
  for (const std::string& name : c.texts("activations")) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char ch) { return std::tolower(ch); });
    const auto* const found = std::ranges::find(kActivations, lower, &Activation::onnx);
    if (found == std::end(kActivations))
      fail("its activation '{}' is none of {}", name, joined(kActivations, &Activation::onnx));
    std::string text(found->text);
    if (found->alpha) replace(text, "{0}", next_alpha < alphas.size() ? alphas[next_alpha++] : *found->alpha);
    if (found->beta) replace(text, "{1}", next_beta < betas.size() ? betas[next_beta++] : *found->beta);
    out.push_back(std::move(text));
  }
  return out;
}

RecurrentDirection recurrent_direction(const Call& c) {
  const std::string direction = c.text("direction", "forward");
  if (direction == "reverse") return RecurrentDirection::reverse;
  if (direction == "bidirectional") return RecurrentDirection::bidirectional;
  if (direction != "forward")
    fail("its direction is '{}'; it must be forward, reverse or bidirectional", excerpt(direction));
  return RecurrentDirection::forward;
}

Value recurrent_lengths(Call& c, const Dim& steps) {
  if (!c.has(4)) return {};
  const Ints* const known = c.known(4);
  const bool all = known && std::ranges::all_of(known->values, [&](const Dim& d) { return d == steps; });
  return all ? Value() : c.in(4);
}

namespace {

template <auto kMake>  // lstm, gru or rnn
void recurrent_rule(Call& c, int64_t gates) {
  const bool is_lstm = c.op() == "LSTM";
  c.expect_inputs(3, is_lstm ? 8 : 6);
  if (c.opset() < 7) c.ignores("output_sequence");  // the node's outputs say it
  const Value x = c.in(0);
  const Value r = c.in(2);
  if (x.shape().rank() != 3) fail("its X is {}; it must have 3 axes", x.shape().text());
  RecurrentOptions o;
  o.direction = recurrent_direction(c);
  o.batch_first = c.opset() >= 14 && c.flag("layout", false);
  o.bias = c.optional(3);
  o.lengths = recurrent_lengths(c, x.shape()[o.batch_first ? 1 : 0]);
  o.initial_h = c.optional(5);
  if (is_lstm) {
    o.initial_c = c.optional(6);
    o.peepholes = c.optional(7);
    o.input_forget = c.flag("input_forget", false);
  }
  o.activations = recurrent_activations(c);
  if (c.has_attribute("clip")) o.clip = c.real("clip");
  o.linear_before_reset = c.op() == "GRU" && c.flag("linear_before_reset", false);
  const Dim units = r.shape().rank() == 3 ? r.shape()[2] : Dim(0);
  if (c.has_attribute("hidden_size") && !units.is(c.integer("hidden_size")))
    fail("its hidden_size is {}, but R is {} and has {} gates", c.integer("hidden_size"), r.shape().text(),
         gates);
  const auto made = kMake(x, c.in(1), r, o);
  const auto out = [&](int64_t i, const Value& value) {
    if (c.wants(i)) c.out(i, value, c.type(0));
  };
  out(0, made.y);
  out(1, made.h);
  if constexpr (requires { made.c; }) out(2, made.c);
}

}  // namespace

namespace rules {
void register_recurrent(RuleTable& table) {
  table.add("LSTM", [](Call& c) { recurrent_rule<lstm>(c, 4); });
  table.add("GRU", [](Call& c) { recurrent_rule<gru>(c, 3); });
  table.add("RNN", [](Call& c) { recurrent_rule<rnn>(c, 1); });
}
}  // namespace rules

}  // namespace rlx::onnx
