// If, Loop and Scan.
#include "rlx/ops/control_flow.h"
#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "import/onnx/unrolled.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/state_space.h"

namespace rlx::onnx {
namespace {

using Body = Importer::Body;

void pass_on(Call& c, const std::vector<Imported>& values) {
  for (size_t i = 0; i < values.size(); ++i) c.out(static_cast<int64_t>(i), values[i]);
}

void declare_outputs(Body& body) {
  const std::vector<Value> values = device_values(body.outputs);
  for (size_t i = 0; i < values.size(); ++i) body.graph->output(formatted("out{}", i), values[i]);
}

// Both are tensors, or sequences of the same length, or optionals that hold nothing.
bool are_alike(const Imported& a, const Imported& b) {
  if (a.elements && b.elements) return a.elements->size() == b.elements->size();
  return a.absent == b.absent && !a.elements == !b.elements;
}

std::vector<Value> values_of(const Body& body) {
  std::vector<Value> out;
  for (const auto& [name, value] : body.captured) out.push_back(value);
  return out;
}

struct Branches {
  Body yes, no;
};

// A branch that cannot be imported, say because it is for inputs of another size, does no harm if the value
// of the condition turns out to be given with the model.
Branches both_branches(Call& c) {
  Importer& importer = c.importer();
  const size_t problems = importer.problem_count();
  try {
    Branches out{.yes = importer.body(c.frame(), c.subgraph("then_branch"), {}), .no = {}};
    out.no = importer.body(c.frame(), c.subgraph("else_branch"), {}, out.yes.captured);
    if (importer.problem_count() > problems) importer.need_condition(c.in(0));
    return out;
  } catch (const Skipped&) {
    importer.need_condition(c.in(0));
    throw;
  }
}

// Tensors that may have the same shape get it; in a run in which they have not, that is an error.
void agree(Call& c, Imported& value, const Imported& with) {
  if (!value.is_tensor() || !with.is_tensor()) return;
  if (const Value same = c.importer().agreed(value.value, with.value.shape())) value.value = same;
}

// One branch is imported if the condition is known; otherwise both, and the device decides.
void if_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.ignores("then_branch else_branch");
  if (!c.known(0)) {
    if (const auto known = c.constant(0)) {
      return pass_on(
          c, c.importer().inlined(c.frame(), c.subgraph(known->integer(0) ? "then_branch" : "else_branch")));
    }
  } else if (c.known(0)->is_static() && c.known(0)->values.size() == 1) {
    return pass_on(
        c, c.importer().inlined(c.frame(),
                                c.subgraph(c.known(0)->values[0].is(0) ? "else_branch" : "then_branch")));
  }
  auto [yes, no] = both_branches(c);
  for (size_t i = yes.captured.size(); i < no.captured.size(); ++i) {
    const auto& [name, value] = no.captured[i];
    Importer::body_input(*yes.graph, name, {value.dtype(), value.shape()});
  }
  if (yes.outputs.size() != no.outputs.size())
    fail("its branches have {} and {} outputs", yes.outputs.size(), no.outputs.size());
  // Another shape or length in each branch: then the value of the condition must be known.
  for (size_t i = 0; i < yes.outputs.size(); ++i) {
    if (!are_alike(yes.outputs[i], no.outputs[i]))
      c.importer().need_host_value(
          c.in(0), formatted("whether its output is {} or {}", yes.outputs[i].what(), no.outputs[i].what()));
    agree(c, yes.outputs[i], no.outputs[i]);
    agree(c, no.outputs[i], yes.outputs[i]);
  }
  const std::vector<Value> yes_values = device_values(yes.outputs);
  const std::vector<Value> no_values = device_values(no.outputs);
  for (size_t i = 0; i < yes_values.size(); ++i) {
    if (!(yes_values[i].type() == no_values[i].type()))
      c.importer().need_host_value(c.in(0), "the shape of its output");
  }
  declare_outputs(yes);
  declare_outputs(no);
  Value condition = c.in(0);
  if (condition.shape().rank() > 0) condition = reshape(condition, {});
  const std::vector<Value> made = if_else(condition, values_of(no), *yes.graph, *no.graph);
  size_t next = 0;
  for (size_t i = 0; i < yes.outputs.size(); ++i)
    c.out(static_cast<int64_t>(i), with_values(yes.outputs[i], made, next));
}

// A loop that makes no iterations: the carried values as they were, and nothing stacked.
void pass_carried(Call& c, const Body& inner, const std::vector<Imported>& carried) {
  for (size_t i = 1; i < inner.outputs.size(); ++i) {
    if (i <= carried.size()) {
      c.out(static_cast<int64_t>(i) - 1, carried[i - 1]);
      continue;
    }
    const Imported& from = inner.outputs[i];
    Shape shape = from.value.shape();
    shape.insert(0, 0);
    c.out(static_cast<int64_t>(i) - 1, expand(c.graph().scalar(from.value.dtype(), 0), shape), from.type);
  }
}

Value as_scalar(Value v) { return v.shape().rank() == 0 ? v : reshape(v, {}); }

void expect_tensors(const Body& body, int64_t first, int64_t end) {
  for (int64_t i = first; i < end; ++i) {
    const Imported& out = body.outputs[static_cast<size_t>(i)];
    if (!out.is_tensor()) fail("the output {} of its body is {}; it must be a tensor", i, out.what());
  }
}

// What goes from iteration to iteration: values on the device, of a shape that does not change.
void expect_same_types(Call& c, const std::vector<Imported>& before, const Body& body) {
  for (size_t i = 0; i < before.size(); ++i) {
    const Imported& next = body.outputs[i + 1];
    if (!are_alike(before[i], next)) {
      c.refuse(
          Refusal::other,
          "its carried value {} begins as {} and becomes {}: the loop would have to be unrolled, which needs "
          "a number of iterations that is known while importing, here at most {}",
          i, before[i].what(), next.what(), most_copies(c, c.subgraph("body")));
    }
    const std::vector<Value> was = device_values({before[i]});
    const std::vector<Value> is = device_values({next});
    for (size_t k = 0; k < was.size(); ++k) {
      const TensorType type{value_dtype(was[k].dtype()), was[k].shape()};
      if (!(is[k].type() == type)) {
        c.refuse(Refusal::other,
                 "its carried value {} begins as {} and becomes {}; sizes that change are not supported", i,
                 type.text(), is[k].type().text());
      }
    }
  }
}

// A loop over sequences is unrolled if it can be. The body counts iterations in i32, and its condition, which
// ONNX hands in although it always holds, is known.
void loop_rule(Call& c) {
  c.expect_inputs(2, 1 << 20);
  const GraphProto& proto = c.subgraph("body");
  const bool lists = !c.only_tensors() || c.importer().captures_lists(c.frame().scope, proto);
  if (lists && unroll_loop(c)) return;
  const int64_t carried_count = c.input_count() - 2;
  std::vector<Importer::BodyInput> inputs = {{ElementType::int64, {DType::i32, {}}},
                                             {ElementType::boolean, {DType::bool_, {}}, Ints::scalar(1)}};
  std::vector<Imported> before;
  for (int64_t i = 0; i < carried_count; ++i) {
    if (c.any(i + 2).is_tensor()) c.in(i + 2);  // there from now on, for other nodes too
    before.push_back(c.any(i + 2));
    c.importer().materialize(c.frame(), before.back());
    inputs.push_back(body_input_like(c, before.back()));
  }
  Body inner = c.importer().body(c.frame(), proto, inputs);
  if (std::ssize(inner.outputs) < 1 + carried_count)
    fail("its body has {} outputs, but {} values are carried", inner.outputs.size(), carried_count);
  expect_tensors(inner, 0, 1);
  expect_tensors(inner, 1 + carried_count, std::ssize(inner.outputs));
  inner.outputs[0].value = as_scalar(inner.outputs[0].value);
  for (size_t i = 0; i < before.size(); ++i) agree(c, inner.outputs[i + 1], before[i]);
  expect_same_types(c, before, inner);
  declare_outputs(inner);

  LoopOptions options{.captured = values_of(inner)};
  const bool stacks = std::ssize(inner.outputs) > 1 + carried_count;
  const Ints* trips = c.has(0) ? c.known(0) : nullptr;
  const Value condition = c.has(1) ? c.in(1) : Value();
  const auto always = [&] {
    const auto start = c.has(1) ? c.constant(1) : std::optional(Tensor::scalar(true));
    const auto goes_on = c.importer().constant(inner.outputs[0].value);
    return start && goes_on && start->integer(0) != 0 && goes_on->integer(0) != 0;
  };
  // What cannot run even once needs no memory for what it stacks.
  const std::optional<Tensor> most = stacks && c.has(0) ? c.constant(0) : std::nullopt;
  const std::optional<Tensor> begins = stacks && c.has(1) ? c.constant(1) : std::nullopt;
  const auto is_none = [](const std::optional<Tensor>& number) {
    return number && number->elements() == 1 && number->integer(0) <= 0;
  };
  if (is_none(most) || is_none(begins)) return pass_carried(c, inner, before);
  if (stacks && trips && always()) {
    if (trips->values.size() != 1) fail("the number of its iterations has {} elements", trips->values.size());
    options.exactly = Dim::max(trips->values[0], 0);
  } else {
    if (c.has(0)) options.trips = as_scalar(c.in(0));
    if (condition) options.condition = as_scalar(condition);
    if (stacks) {
      if (!most) c.importer().need_host_value(c.has(0) ? c.in(0) : c.in(1), "the number of its iterations");
      if (most->elements() != 1) fail("the number of its iterations has {} elements", most->elements());
      if (most->integer(0) > INT32_MAX) {
        c.refuse(Refusal::other,
                 "it stacks the results of up to {} iterations, for which no memory can be planned",
                 most->integer(0));
      }
      options.count = c.importer().fresh_symbol("iterations");
      options.capacity = most->integer(0);
    }
  }
  const std::vector<Value> made = loop(device_values(before), *inner.graph, options);
  size_t next = 0;
  for (size_t i = 1; i < inner.outputs.size(); ++i)
    c.out(static_cast<int64_t>(i) - 1, with_values(inner.outputs[i], made, next));
}

// The axis that is scanned comes first; backwards is a view.
Value scanned_along(Value v, int64_t axis, bool backwards) {
  if (backwards) v = slice(v, axis, v.shape()[axis] - 1, v.shape()[axis], -1);
  if (axis == 0) return v;
  std::vector<int64_t> perm = {axis};
  for (int64_t i = 0; i < v.shape().rank(); ++i) {
    if (i != axis) perm.push_back(i);
  }
  return transpose(v, perm);
}

Value stacked_along(Value v, int64_t axis, bool backwards) {
  if (backwards) v = slice(v, 0, v.shape()[0] - 1, v.shape()[0], -1);
  if (axis == 0) return v;
  std::vector<int64_t> perm;
  for (int64_t i = 1; i < v.shape().rank(); ++i) perm.push_back(i);
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  return transpose(v, perm);
}

// One number for each of `count` values.
std::vector<int64_t> list_of(Call& c, std::string_view name, int64_t count) {
  std::vector<int64_t> out = c.integers(name, std::vector<int64_t>(static_cast<size_t>(count), 0));
  if (std::ssize(out) != count)
    fail("its attribute '{}' has {} numbers instead of {}", name, out.size(), count);
  return out;
}

struct Scanned {
  std::vector<Value> values;  // the carried ones, then those stacked along their first axis
  std::vector<ElementType> types;
};

// The values that are scanned lie along their first axis. Their types are those of the call's inputs from
// `first` on.
Scanned scan_body(Call& c, int64_t first, const std::vector<Value>& carried,
                  const std::vector<Value>& scanned) {
  std::vector<Importer::BodyInput> inputs;
  for (const Value& v : carried)
    inputs.push_back({c.type(first + std::ssize(inputs)), {value_dtype(v.dtype()), v.shape()}});
  for (const Value& v : scanned) {
    Shape slice_shape = v.shape();
    slice_shape.erase(0);
    inputs.push_back({c.type(first + std::ssize(inputs)), {value_dtype(v.dtype()), slice_shape}});
  }
  Body inner = c.importer().body(c.frame(), c.subgraph("body"), inputs);
  if (inner.outputs.size() < carried.size()) {
    fail("its body has {} outputs, but {} values are carried", inner.outputs.size(), carried.size());
  }
  expect_tensors(inner, 0, std::ssize(inner.outputs));
  declare_outputs(inner);
  Scanned out{.values = scan(carried, scanned, *inner.graph, values_of(inner)), .types = {}};
  for (const Imported& v : inner.outputs) out.types.push_back(v.type);
  return out;
}

// Opset 8 has batches: each value has a first axis more, and each of its entries is scanned alone.
void batched_scan(Call& c, int64_t carried_count) {
  if (c.has(0)) c.refuse(Refusal::other, "lengths of sequences are not supported");
  const int64_t scanned_count = c.input_count() - 1 - carried_count;
  const std::vector<int64_t> backwards = list_of(c, "directions", scanned_count);
  const Dim batch = c.shape(1)[0];
  if (!batch.is_static() || batch.is(0) || batch.value() > 1024)
    c.refuse(Refusal::other, "its batch is {}; it must be a number from 1 to 1024", batch.text());
  std::vector<std::vector<Value>> parts;
  std::vector<ElementType> types;
  for (int64_t b = 0; b < batch.value(); ++b) {
    std::vector<Value> carried;
    std::vector<Value> scanned;
    for (int64_t i = 1; i < c.input_count(); ++i) {
      const Value v = c.in(i);
      Shape one = v.shape();
      one.erase(0);
      const Value entry = reshape(slice(v, 0, b, 1), one);
      if (i <= carried_count) {
        carried.push_back(entry);
      } else {
        scanned.push_back(
            scanned_along(entry, 0, backwards[static_cast<size_t>(i - 1 - carried_count)] != 0));
      }
    }
    Scanned made = scan_body(c, 1, carried, scanned);
    types = made.types;
    parts.resize(made.values.size());
    for (size_t i = 0; i < made.values.size(); ++i) {
      Shape one = made.values[i].shape();
      one.insert(0, 1);
      parts[i].push_back(reshape(made.values[i], one));
    }
  }
  for (size_t i = 0; i < parts.size(); ++i)
    c.out(static_cast<int64_t>(i), parts[i].size() == 1 ? parts[i][0] : concat(parts[i], 0), types[i]);
}

void scan_rule(Call& c) {
  const int64_t scanned_count = c.integer("num_scan_inputs");
  const int64_t first = c.opset() < 9 ? 1 : 0;
  if (scanned_count < 1 || scanned_count > c.input_count() - first)
    fail("it scans {} of {} inputs", scanned_count, c.input_count());
  const int64_t carried_count = c.input_count() - first - scanned_count;
  if (c.opset() < 9) return batched_scan(c, carried_count);
  const std::vector<int64_t> axes = list_of(c, "scan_input_axes", scanned_count);
  const std::vector<int64_t> backwards = list_of(c, "scan_input_directions", scanned_count);
  std::vector<Value> carried;
  std::vector<Value> scanned;
  for (int64_t i = 0; i < carried_count; ++i) carried.push_back(c.in(i));
  for (int64_t i = 0; i < scanned_count; ++i) {
    const int64_t at = carried_count + i;
    const auto k = static_cast<size_t>(i);
    scanned.push_back(scanned_along(c.in(at), Call::normalized(axes[k], c.rank(at)), backwards[k] != 0));
  }
  const Scanned made = scan_body(c, 0, carried, scanned);
  const int64_t stacked_count = std::ssize(made.values) - carried_count;
  const std::vector<int64_t> out_axes = list_of(c, "scan_output_axes", stacked_count);
  const std::vector<int64_t> out_backwards = list_of(c, "scan_output_directions", stacked_count);
  for (size_t i = 0; i < made.values.size(); ++i) {
    Value v = made.values[i];
    if (static_cast<int64_t>(i) >= carried_count) {
      const size_t k = i - static_cast<size_t>(carried_count);
      v = stacked_along(v, Call::normalized(out_axes[k], v.shape().rank()), out_backwards[k] != 0);
    }
    c.out(static_cast<int64_t>(i), v, made.types[i]);
  }
}

}  // namespace

namespace rules {
void register_control_flow(RuleTable& table) {
  table.add("If", if_rule);
  table.add("Loop", loop_rule);
  table.add("Scan", scan_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
