// DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are bytes. All inputs at once, and h in each
// step, are quantised by their own range, as ONNX Runtime does it: so the steps are a scan, and not the op
// `lstm`.
#include "import/onnx/importer.h"
#include "import/onnx/quantized.h"
#include "import/onnx/recurrent.h"
#include "import/onnx/rules.h"
#include "ops/elementwise/elementwise.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/recurrent.h"

namespace rlx::onnx {
namespace {

struct Options {
  std::vector<std::string> activations;  // three for each direction
  std::optional<double> clip;
  bool input_forget = false;
  int64_t units = 0;
};

// What one direction needs of the inputs. All but `gates` go into the body as they are.
struct Direction {
  Value gates;              // of all steps, without what h adds: [steps, batch, 4 * units]
  Value h, c;               // at first, [batch, units]
  Value r, r_scale;         // bytes, [units, 4 * units]
  Value r_zero, peepholes;  // may be empty
  Value lengths;            // may be empty
};

// Entry d of the first axis.
Value part(Value v, int64_t d) {
  if (!v) return v;
  Shape one = v.shape();
  one.erase(0);
  return reshape(slice(v, 0, d, 1), one);
}

Value activated(const std::string& function, Value x) {
  if (!function.contains('(')) return apply_function(function, {x});
  auto op = std::make_shared<FusedElementwise>();
  op->expression = ExprAttr::parse(function);
  return x.graph().add_value(op, {x});
}

// The sum of products of bytes, as a float.
Value product(const DynamicQuantized& a, Value b, Value b_zero, Value b_scale) {
  const Value sums = integer_product(a.y, a.zero_point, b, b_zero);
  return cast(sums, DType::f32) * (a.scale * as_f32(b_scale));
}

// One step: h and c from those before, and from the gates.
class Step {
 public:
  Step(const Options& o, const std::string* activations) : o_(o), activations_(activations) {}

  // In the order of the gates: input, output, forget, cell.
  std::pair<Value, Value> operator()(Value all, Value c, Value peepholes) const {
    const auto gate = [&](int64_t i) { return slice(all, 1, i * o_.units, o_.units); };
    const auto peephole = [&](Value sum, int64_t i, Value of) {
      return peepholes ? sum + of * slice(peepholes, 0, i * o_.units, o_.units) : sum;
    };
    const Value input = act(0, peephole(gate(0), 0, c));
    const Value forget = o_.input_forget ? 1.0 - input : act(0, peephole(gate(2), 2, c));
    const Value next = forget * c + input * act(1, gate(3));
    const Value output = act(0, peephole(gate(1), 1, next));
    return {output * activated(activations_[2], next), next};
  }

 private:
  Value act(size_t function, Value x) const {
    if (o_.clip) x = minimum(maximum(x, -*o_.clip), *o_.clip);
    return activated(activations_[function], x);
  }

  const Options& o_;
  const std::string* activations_;
};

// The last h and c, and h of all steps.
std::vector<Value> run_steps(const Direction& d, const Step& step) {
  Graph body;
  const auto taken = [&](const char* name, const Value& v) {
    return v ? body.input(name, value_dtype(v.dtype()), v.shape()) : Value();
  };
  const Value h = taken("h", d.h);
  const Value c = taken("c", d.c);
  Shape row = d.gates.shape();
  row.erase(0);
  const Value gates = body.input("gates", DType::f32, row);
  const Value index = d.lengths ? body.input("step", DType::i32, {}) : Value();
  const Value r = taken("r", d.r);
  const Value r_scale = taken("r_scale", d.r_scale);
  const Value r_zero = taken("r_zero", d.r_zero);
  const Value peepholes = taken("peepholes", d.peepholes);
  const Value lengths = taken("lengths", d.lengths);

  // Rows that have ended keep their states. What they made last is part of the range of h once more, then 0
  // is.
  Value runs, ran;
  if (lengths) {
    const Value ends = cast(lengths, DType::i32);
    runs = reshape(less(index, ends), {row[0], 1});
    ran = reshape(less_equal(index, ends), {row[0], 1});
  }
  const DynamicQuantized bytes = dynamic_quantize(ran ? where(ran, h, 0.0) : h);
  const auto [next_h, next_c] = step(gates + product(bytes, r, r_zero, r_scale), c, peepholes);
  body.output("h", runs ? where(runs, next_h, h) : next_h);
  body.output("c", runs ? where(runs, next_c, c) : next_c);
  body.output("y", runs ? where(runs, next_h, 0.0) : next_h);

  std::vector<Value> scanned = {d.gates};
  if (d.lengths) scanned.push_back(range(d.gates.graph(), d.gates.shape()[0], 0, 1, DType::i32));
  std::vector<Value> captured;
  for (const Value& v : {d.r, d.r_scale, d.r_zero, d.peepholes, d.lengths}) {
    if (v) captured.push_back(v);
  }
  return scan({d.h, d.c}, scanned, std::move(body), captured);
}

Value reversed(Value v, Value lengths) {
  if (lengths) return reverse_sequence(v, lengths, 0, 1);
  return slice(v, 0, v.shape()[0] - 1, v.shape()[0], -1);
}

Options options_of(Call& c, int64_t directions) {
  const Shape r = c.shape(2);
  if (c.rank(0) != 3 || c.rank(1) != 3 || r.rank() != 3 || !r[1].is_static() || !(r[2] == Dim(4) * r[1]) ||
      !r[0].is(directions))
    fail(
        "its X {}, W {} and R {} must be [steps, batch, size], [{}, size, 4 * units] and [{}, units, 4 * "
        "units]",
        c.shape(0).text(), c.shape(1).text(), r.text(), directions, directions);
  Options o{.activations = recurrent_activations(c),
            .clip = c.has_attribute("clip") ? std::optional(c.real("clip")) : std::nullopt,
            .input_forget = c.flag("input_forget", false),
            .units = r[1].value()};
  if (o.activations.empty()) {
    for (int64_t d = 0; d < directions; ++d)
      o.activations.insert(o.activations.end(), {"sigmoid", "tanh", "tanh"});
  }
  if (std::ssize(o.activations) != 3 * directions)
    fail("it has {} activations instead of {}", o.activations.size(), 3 * directions);
  if (c.has_attribute("hidden_size") && c.integer("hidden_size") != o.units)
    fail("its hidden_size is {}, but R is {}", c.integer("hidden_size"), r.text());
  return o;
}

void rule(Call& c) {
  c.expect_inputs(12, 12);
  const RecurrentDirection direction = recurrent_direction(c);
  const int64_t directions = direction == RecurrentDirection::bidirectional ? 2 : 1;
  const Options o = options_of(c, directions);
  const Dim steps = c.shape(0)[0];
  const Dim batch = c.shape(0)[1];
  const Value lengths = recurrent_lengths(c, steps);
  const Value w_zero = zero_point(c, 9);
  const Value r_zero = zero_point(c, 11);
  const Value nothing = expand(c.graph().scalar(DType::f32, 0), {batch, o.units});
  const DynamicQuantized x = dynamic_quantize(c.in(0));
  std::vector<Value> y, h_last, c_last;
  for (int64_t i = 0; i < directions; ++i) {
    const bool backwards = direction == RecurrentDirection::reverse || i == 1;
    Direction d{.gates = product(x, part(c.in(1), i), part(w_zero, i), part(c.in(8), i)),
                .h = c.has(5) ? part(c.in(5), i) : nothing,
                .c = c.has(6) ? part(c.in(6), i) : nothing,
                .r = part(c.in(2), i),
                .r_scale = part(as_f32(c.in(10)), i),
                .r_zero = part(r_zero, i),
                .peepholes = part(c.optional(7), i),
                .lengths = lengths};
    if (c.has(3)) {
      const Value bias = part(c.in(3), i);
      d.gates = d.gates + (slice(bias, 0, 0, 4 * o.units) + slice(bias, 0, 4 * o.units, 4 * o.units));
    }
    if (backwards) d.gates = reversed(d.gates, lengths);
    std::vector<Value> made = run_steps(d, Step(o, &o.activations[static_cast<size_t>(3 * i)]));
    if (backwards) made[2] = reversed(made[2], lengths);
    // A row without steps has no states.
    const auto state = [&](Value v) {
      return lengths ? where(reshape(greater(lengths, 0), {batch, 1}), v, 0.0) : v;
    };
    y.push_back(reshape(made[2], {steps, 1, batch, o.units}));
    h_last.push_back(reshape(state(made[0]), {1, batch, o.units}));
    c_last.push_back(reshape(state(made[1]), {1, batch, o.units}));
  }
  const auto joined = [](const std::vector<Value>& v, int64_t axis) {
    return v.size() == 1 ? v[0] : concat(v, axis);
  };
  if (c.wants(0)) c.out(0, joined(y, 1), ElementType::float32);
  if (c.wants(1)) c.out(1, joined(h_last, 0), ElementType::float32);
  if (c.wants(2)) c.out(2, joined(c_last, 0), ElementType::float32);
}

}  // namespace

namespace rules {
void register_dynamic_quantize_lstm(RuleTable& table) { table.add(kMicrosoft, "DynamicQuantizeLSTM", rule); }
}  // namespace rules

}  // namespace rlx::onnx
