#include "ops/control_flow/loop.h"

#include <algorithm>

#include "ir/reference.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/graph.h"
#include "rlx/ops/control_flow.h"

namespace rlx {

std::optional<int64_t> constant_integer(const Graph& graph, ValueId value) {
  if (value.is_absent()) return std::nullopt;
  const auto* constant = op_cast<Constant>(*graph.producer(value).op);
  if (!constant || constant->value.elements() != 1 || is_float(constant->value.dtype()) ||
      constant->value.dtype() == DType::c64) {
    return std::nullopt;
  }
  return constant->value.integer(0);
}

int64_t Loop::stacked() const { return std::ssize(body->outputs()) - 1 - carried; }

bool Loop::always_continues() const {
  ValueId value = body->outputs()[0].value;
  // An output has its own memory, so a plan may copy the constant.
  while (op_cast<Contiguous>(*body->producer(value).op)) value = body->producer(value).inputs[0];
  return constant_integer(*body, value).value_or(0) != 0;
}

std::optional<RunSize> Loop::run_size(std::span<const TensorType>) const {
  if (!count) return std::nullopt;
  return RunSize{*count, std::nullopt};
}

namespace {

// Trips and condition.
void check_limits(const Loop& loop, const InferArgs& in) {
  if (in.has(0) && !(is_integer(in.dtype(0)) && is_one_element(in.shape(0))))
    fail("loop: the number of trips is {}; it must be one integer", in[0].text());
  if (in.has(1) && !(in.dtype(1) == DType::bool_ && is_one_element(in.shape(1))))
    fail("loop: the condition is {}; it must be one bool", in[1].text());
  if (!loop.exactly) {
    if (!in.has(0) && !in.has(1) && !loop.count && loop.always_continues())
      fail(
          "loop: there are neither trips nor a condition, and the body '{}' always goes on: it would never "
          "end",
          loop.body->name);
    return;
  }
  if (in.has(0) || in.has(1)) {
    fail("loop: it makes exactly {} iterations, so it takes neither trips nor a condition",
         loop.exactly->text());
  }
  if (!loop.always_continues()) {
    fail(
        "loop: it makes exactly {} iterations, so the first output of the body '{}' must be the constant "
        "true",
        loop.exactly->text(), loop.body->name);
  }
}

void check_outputs(const Loop& loop, const std::vector<TensorType>& outputs,
                   std::span<const TensorType> carried) {
  const Graph& body = *loop.body;
  if (loop.stacked() < 0) {
    fail("loop: the body '{}' has {} outputs; it needs one that says whether to go on and {} carried ones",
         body.name, outputs.size(), loop.carried);
  }
  if (outputs.size() == 1)
    fail("loop: the body '{}' returns only whether to go on; carry or stack a value", body.name);
  if (outputs[0].dtype != DType::bool_ || !is_one_element(outputs[0].shape)) {
    fail("loop: the first output of the body '{}' is {}; it says whether to go on and must be one bool",
         body.name, outputs[0].text());
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    if (outputs[i + 1] == carried[i]) continue;
    fail("loop: carried value {} is {}, but the body '{}' returns {} for it ('{}')", i, carried[i].text(),
         body.name, outputs[i + 1].text(), body.outputs()[i + 1].name);
  }
}

void check_stacking(const Loop& loop) {
  if (loop.exactly && loop.count) fail("loop: has `exactly` and `count`; only one of them can be given");
  if (loop.count && loop.stacked() == 0)
    fail("loop: the attribute count names the length of stacked outputs, but the body '{}' has none",
         loop.body->name);
  if (loop.stacked() > 0 && !loop.exactly && !loop.count) {
    fail("loop: the body '{}' has {} outputs to stack, so the loop needs the attribute `exactly` or `count`",
         loop.body->name, loop.stacked());
  }
  if (loop.count && !loop.count->is_static() && !loop.count->as_symbol())
    fail("loop: the attribute count is {}; it must be a symbol", loop.count->text());
  const std::optional<Dim>& length = loop.exactly ? loop.exactly : loop.count;
  if (length && length->is_static() && length->value() < 0)
    fail("loop: the number of iterations is {}", length->value());
}

}  // namespace

std::vector<TensorType> Loop::infer(const InferArgs& in) const {
  expect_body(kName, "body", body);
  if (body->outputs().empty()) fail("loop: the body '{}' has no output", body->name);
  const int64_t others = std::max<int64_t>(in.count() - kFirstCarried, 0);
  if (carried < 0 || carried > others) {
    fail("loop: the attribute carried is {}, but after trips and condition there are {} inputs", carried,
         others);
  }
  check_limits(*this, in);
  check_stacking(*this);
  std::vector<TensorType> given = {TensorType{DType::i32, {}}};
  for (int64_t i = kFirstCarried; i < in.count(); ++i) given.push_back(in[i]);
  expect_body_inputs(kName, *body, given);
  const std::vector<TensorType> outputs = body_output_types(*body);
  check_outputs(*this, outputs, std::span(given).subspan(1, static_cast<size_t>(carried)));

  std::vector<TensorType> results(outputs.begin() + 1, outputs.end());
  for (size_t s = static_cast<size_t>(carried); s < results.size(); ++s)
    results[s].shape.insert(0, exactly ? *exactly : *count);
  return results;
}

void Loop::reference(RefContext& r) const {
  const auto number = [&](int64_t i) -> std::optional<int64_t> {
    if (!r.has(i)) return std::nullopt;
    return r.in(i).ints[0];
  };
  const std::optional<int64_t> trips = exactly ? std::optional(exactly->value()) : number(0);
  const std::optional<int64_t> capacity = count ? r.capacity(*count) : std::nullopt;
  bool go_on = number(1).value_or(1) != 0;
  std::vector<RefTensor> values;  // carried, then captured
  for (int64_t i = kFirstCarried; i < r.input_count(); ++i) values.push_back(r.in(i));
  const auto first_slice = static_cast<size_t>(carried);
  std::vector<std::vector<RefTensor>> slices(static_cast<size_t>(stacked()));

  int64_t made = 0;
  for (; go_on && (!trips || made < *trips); ++made) {
    if (capacity && made == *capacity) {
      fail(ErrorKind::invalid_argument, "loop: goes on after {} iterations, the capacity of the symbol '{}'",
           made, count->text());
    }
    std::vector<RefTensor> inputs = {RefTensor::zeros(DType::i32, {})};
    inputs[0].ints[0] = made;
    inputs.insert(inputs.end(), values.begin(), values.end());
    std::vector<RefTensor> outputs = r.run(*body, std::move(inputs));
    go_on = outputs[0].ints[0] != 0;
    for (size_t c = 0; c < first_slice; ++c) values[c] = std::move(outputs[c + 1]);
    for (size_t s = 0; s < slices.size(); ++s) slices[s].push_back(std::move(outputs[first_slice + 1 + s]));
  }
  for (size_t c = 0; c < first_slice; ++c) r.out(static_cast<int64_t>(c)) = std::move(values[c]);
  // A count that is bound to its capacity leaves zeros behind the slices.
  const int64_t length = count && count->is_static() ? count->value() : made;
  const std::vector<TensorType> types = body_output_types(*body);
  for (size_t s = 0; s < slices.size(); ++s)
    r.out(static_cast<int64_t>(first_slice + s)) = stack(slices[s], types[first_slice + 1 + s], length);
}

Tolerance Loop::tolerance(std::span<const TensorType>) const { return body_tolerance(*body); }

namespace {

// The graph that the values belong to.
Graph& graph_of(const std::vector<Value>& values) {
  const auto given = std::ranges::find_if(values, [](const Value& v) { return static_cast<bool>(v); });
  if (given == values.end())
    fail(ErrorKind::invalid_argument, "loop: no value is given that says which graph it is added to");
  return given->graph();
}

}  // namespace

std::vector<Value> loop(const std::vector<Value>& carried, Graph body, const LoopOptions& options) {
  auto op = std::make_shared<Loop>();
  op->body = std::make_shared<const Graph>(std::move(body));
  op->carried = std::ssize(carried);
  op->exactly = options.exactly;
  if (!options.count.empty()) op->count = Dim::symbol(options.count);
  std::vector<Value> inputs = {options.trips, options.condition};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  inputs.insert(inputs.end(), options.captured.begin(), options.captured.end());
  Graph& graph = graph_of(inputs);
  if (options.capacity > 0) graph.set_capacity(options.count, options.capacity);
  return all_outputs(graph.add_value(op, inputs));
}

namespace ops {
void register_loop(OpTable& table) {
  table.add<Loop>(
      {.formula = "for (i = 0; i < trips && condition; ++i) condition, carried, slices = body(i, carried, "
                  "captured); the last carried values, and the slices of all iterations stacked",
       .operands = "trips? (integer): one element, the most iterations; no limit if left out\n"
                   "condition? (bool): one element, whether there are any iterations; true if "
                   "left out\n"
                   "inputs... (any): the carried values, then captured ones, which stay the same",
       .attributes = "body: takes the iteration (i32), carried and captured values; returns "
                     "whether to go on (bool), carried values and slices\n"
                     "carried: how many of the inputs are carried from iteration to iteration\n"
                     "exactly: the number of iterations, instead of trips and condition\n"
                     "count: a symbol for a number of iterations that only the run knows; slices "
                     "need this or exactly",
       .outputs = "outputs... (any): the last carried values, then the slices of all "
                  "iterations, stacked along a new first axis",
       .types = "i32 i64 u8",
       .variants = {"control_flow"},
       .samples = {
           // x becomes x / 2 + b, five times.
           "loop(none, none, f32[17], f32[17]) {exactly=5, carried=1, body=graph b { %i = input : i32[] "
           "%x = input : f32[17] %b = input : f32[17] %go = constant {value=tensor bool[] fill 1} "
           "%h = mul(%x, 0.5) %y = add(%h, %b) output go = %go output y = %y }}",
           // At most as many iterations as trips says, and only while the sum is below 4.
           "loop(T[] in 0..9, bool[], f32[3] in 0.25..1) {carried=1, body=graph b { %i = input : i32[] "
           "%x = input : f32[3] %y = mul(%x, 1.5) %s = sum(%y) %go = less(%s, 4) output go = %go "
           "output y = %y }}",
           // Nothing is carried; the slices are stacked.
           "loop(none, none, f32[5]) {exactly=7, body=graph b { %i = input : i32[] %x = input : f32[5] "
           "%go = constant {value=tensor bool[] fill 1} %f = cast(%i) {to=f32} %y = mul(%x, %f) "
           "output go = %go output y = %y }}",
           "loop(T[1] in -3..0, none, f32[4]) {carried=1, body=graph b { %i = input : i32[] "
           "%x = input : f32[4] %go = constant {value=tensor bool[] fill 1} %y = neg(%x) output go = %go "
           "output y = %y }}",
       }});
}
}  // namespace ops

}  // namespace rlx
