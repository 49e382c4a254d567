// The reference of recurrent networks, and what their ops share.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/parallel.h"
#include "ir/reference.h"
#include "ir/tolerance.h"
#include "ops/recurrent/recurrence.h"

namespace rlx {

void RecurrentAttributes::visit(AttributeVisitor& v) {
  v.choice("direction", direction, {"forward", "reverse", "bidirectional"},
           std::optional(RecurrentDirection::forward));
  v("batch_first", batch_first, false);
  v("activations", activations, {});
  v("clip", clip);
}

int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::lstm ? 4 : 3;
}

int64_t activations_of(RecurrentCell cell) {
  return cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::lstm ? 3 : 2;
}

namespace {

// A function's name, or an expression of $0.
Expr activation(std::string_view op, const std::string& text) {
  const ScalarFn* const fn = find_scalar(text);
  if (fn && fn->arity != 1)
    fail("{}: the activation {} takes {} operands; write it as an expression of $0 with numbers", op, text,
         fn->arity);
  Expr expr = Expr::parse(fn ? text + "($0)" : text, {DType::f32});
  if (expr.result_type() != DType::f32)
    fail("{}: the activation {} makes {}, not a float", op, text, to_string(expr.result_type()));
  return expr;
}

}  // namespace

std::vector<Expr> activations_of(std::string_view op, RecurrentCell cell, const RecurrentAttributes& a,
                                 int64_t direction) {
  std::vector<Expr> out;
  const int64_t count = activations_of(cell);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_gate = i == 0 && cell != RecurrentCell::rnn;
    out.push_back(activation(op, !a.activations.empty()
                                     ? a.activations[static_cast<size_t>(direction * count + i)]
                                 : is_gate ? "sigmoid"
                                           : "tanh"));
  }
  return out;
}

void check_recurrent(std::string_view op, RecurrentCell cell, const RecurrentAttributes& a) {
  const int64_t wanted = a.directions() * activations_of(cell);
  if (!a.activations.empty() && std::ssize(a.activations) != wanted)
    fail("{}: it has {} activations; it needs {}, or none", op, a.activations.size(), wanted);
  for (int64_t d = 0; d < a.directions(); ++d) activations_of(op, cell, a, d);
  if (a.clip && !(*a.clip >= 0)) fail("{}: the attribute clip is {}; it cannot be negative", op, *a.clip);
}

Shape recurrent_y(const RecurrentAttributes& a, const Dim& steps, const Dim& rows, const Dim& size) {
  const Dim directions(a.directions());
  return a.batch_first ? Shape{rows, steps, directions, size} : Shape{steps, directions, rows, size};
}

Shape recurrent_state(const RecurrentAttributes& a, const Dim& rows, const Dim& size) {
  const Dim directions(a.directions());
  return a.batch_first ? Shape{rows, directions, size} : Shape{directions, rows, size};
}

namespace {

double apply(const Expr& f, double x) {
  if (f.steps.empty()) return x;
  const Expr::Scalar value{.real = x};
  return f.evaluate(&value).real;
}

// One row of the batch in one direction.
class Row {
 public:
  Row(const RecurrentReference& in, int64_t d, int64_t row)
      : in_(in),
        d_(d),
        row_(row),
        functions_(activations_of("recurrence", in.cell, *in.attributes, d)),
        h_(static_cast<size_t>(in.sizes.size), 0),
        c_(static_cast<size_t>(in.sizes.units), 0) {
    for (size_t i = 0; in.h0 && i < h_.size(); ++i) h_[i] = (*in.h0)[state_at(in.sizes.size) + i];
    for (size_t i = 0; in.c0 && i < c_.size(); ++i) c_[i] = (*in.c0)[state_at(in.sizes.units) + i];
  }

  void run(RefContext& r) {
    const RecurrentSizes& z = in_.sizes;
    const int64_t length =
        in_.lengths ? std::clamp<int64_t>((*in_.lengths)[static_cast<size_t>(row_)], 0, z.steps) : z.steps;
    const bool backward = d_ == 1 || in_.attributes->direction == RecurrentDirection::reverse;
    const auto size = static_cast<size_t>(z.size);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = backward ? length - 1 - i : i;
      step(t);
      const int64_t at = in_.attributes->batch_first ? (row_ * z.steps + t) * z.directions + d_
                                                     : (t * z.directions + d_) * z.rows + row_;
      std::ranges::copy(h_,
                        r.out().real.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(at) * size));
    }
    if (length == 0) return;  // the states stay zero
    std::ranges::copy(h_, r.out(1).real.begin() + static_cast<std::ptrdiff_t>(state_at(z.size)));
    if (in_.cell == RecurrentCell::lstm)
      std::ranges::copy(c_, r.out(2).real.begin() + static_cast<std::ptrdiff_t>(state_at(z.units)));
  }

 private:
  size_t state_at(int64_t size) const {
    const RecurrentSizes& z = in_.sizes;
    const int64_t line = in_.attributes->batch_first ? row_ * z.directions + d_ : d_ * z.rows + row_;
    return static_cast<size_t>(line * size);
  }
  double given(int64_t t, int64_t gate, int64_t unit) const {
    const RecurrentSizes& z = in_.sizes;
    const int64_t line = in_.attributes->batch_first ? row_ * z.steps + t : t * z.rows + row_;
    return (*in_.gates)[static_cast<size_t>(
        ((line * z.directions + d_) * gates_of(in_.cell) + gate) * z.units + unit)];
  }
  double product(int64_t gate, int64_t unit, const std::vector<double>& h) const {
    double sum = 0;
    for (int64_t k = 0; k < in_.sizes.size; ++k) sum += in_.r(d_, gate, unit, k) * h[static_cast<size_t>(k)];
    return sum;
  }
  double extra(int64_t gate, int64_t unit, int64_t gates) const {
    return in_.extra ? (*in_.extra)[static_cast<size_t>((d_ * gates + gate) * in_.sizes.units + unit)] : 0;
  }
  // An activation of a gate.
  double act(size_t function, double x) const {
    if (in_.attributes->clip && !std::isnan(x))
      x = std::clamp(x, -*in_.attributes->clip, *in_.attributes->clip);
    return apply(functions_[function], x);
  }

  void step(int64_t t) {
    if (in_.cell == RecurrentCell::lstm) return lstm(t);
    if (in_.cell != RecurrentCell::rnn) return gru(t);
    std::vector<double> now = h_;
    for (int64_t j = 0; j < in_.sizes.units; ++j)
      now[static_cast<size_t>(j)] = act(0, given(t, 0, j) + product(0, j, h_));
    h_ = now;
  }
  void lstm(int64_t t) {
    std::vector<double> output(c_.size());
    for (int64_t j = 0; j < in_.sizes.units; ++j) {
      double& c = c_[static_cast<size_t>(j)];
      const auto gate = [&](int64_t g) { return given(t, g, j) + product(g, j, h_); };
      const double input = act(0, gate(0) + extra(0, j, 3) * c);
      const double forget = in_.attributes->input_forget ? 1 - input : act(0, gate(2) + extra(2, j, 3) * c);
      c = forget * c + input * act(1, gate(3));
      output[static_cast<size_t>(j)] = act(0, gate(1) + extra(1, j, 3) * c) * apply(functions_[2], c);
    }
    if (!in_.projection) {
      h_ = output;
      return;
    }
    for (int64_t i = 0; i < in_.sizes.size; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < in_.sizes.units; ++j)
        sum += in_.projection(d_, i, j) * output[static_cast<size_t>(j)];
      h_[static_cast<size_t>(i)] = sum;
    }
  }
  void gru(int64_t t) {
    const auto units = in_.sizes.units;
    std::vector<double> update(h_.size()), reset(h_.size()), reset_h(h_.size()), now(h_.size());
    for (int64_t j = 0; j < units; ++j) {
      const auto i = static_cast<size_t>(j);
      update[i] = act(0, given(t, 0, j) + product(0, j, h_));
      reset[i] = act(0, given(t, 1, j) + product(1, j, h_));
      reset_h[i] = reset[i] * h_[i];
    }
    for (int64_t j = 0; j < units; ++j) {
      const auto i = static_cast<size_t>(j);
      const double sum = in_.cell == RecurrentCell::gru ? product(2, j, reset_h)
                                                        : reset[i] * (product(2, j, h_) + extra(0, j, 1));
      now[i] = (1 - update[i]) * act(1, given(t, 2, j) + sum) + update[i] * h_[i];
    }
    h_ = now;
  }

  const RecurrentReference& in_;
  int64_t d_, row_;
  std::vector<Expr> functions_;
  std::vector<double> h_, c_;
};

}  // namespace

void run_recurrent(const RecurrentReference& in, RefContext& r) {
  parallel_for(in.sizes.directions * in.sizes.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Row(in, i / in.sizes.rows, i % in.sizes.rows).run(r);
  });
}

// Each step adds the error of its sum, of some functions and, of 16-bit types, of two roundings, and passes
// on that of the steps before it: less than all of it where gates are well below 1, as they are with random
// weights.
Tolerance recurrent_tolerance(RecurrentCell cell, DType type, double steps, double sum) {
  const double remembered = std::min(steps, 16.0);
  const double functions = cell == RecurrentCell::lstm ? 24 : 16;
  const double rounding = type == DType::f32 ? 0 : 3 * epsilon(type) / epsilon(DType::f32);
  return {.ulps = remembered * (functions + rounding), .terms = remembered * remembered * sum, .scale = 2};
}

}  // namespace rlx
