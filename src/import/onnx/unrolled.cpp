#include "import/onnx/unrolled.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"

#include <algorithm>
#include <limits>
#include <ranges>

namespace rlx::onnx {
namespace {

constexpr int64_t kMaxUnrolled = 4096;

AttributeProto integer_attribute(std::string_view name, int64_t value) {
  AttributeProto a;
  a.name = name;
  a.kind = AttributeProto::Kind::int_;
  a.i = value;
  return a;
}

// Whether the condition that a body returns is the same in each iteration: a constant, a value from around
// the body, or the condition that it was given. Each node comes behind those that it needs.
bool has_fixed_condition(const GraphProto& body) {
  std::string_view name = body.outputs[0].name;
  for (const NodeProto& n : body.nodes | std::views::reverse) {
    if (!std::ranges::contains(n.outputs, name)) continue;
    if (n.op == "Constant") return true;
    if ((n.op != "Identity" && n.op != "Cast") || n.inputs.size() != 1) return false;
    name = n.inputs[0];
  }
  return !std::ranges::contains(body.inputs, name, &ValueInfo::name) || body.inputs[1].name == name;
}

// The values that a loop carries, and those that it stacks, of all iterations so far.
struct Unrolled {
  std::vector<Imported> carried;
  std::vector<std::vector<Imported>> slices = {};
};

// What one iteration returns behind its condition.
void take(Unrolled& into, std::vector<Imported> outputs) {
  const size_t carried = into.carried.size();
  if (outputs.size() < 1 + carried)
    fail("its body has {} outputs, but {} values are carried", outputs.size(), carried);
  into.slices.resize(outputs.size() - 1 - carried);
  for (size_t i = 0; i < carried; ++i) into.carried[i] = std::move(outputs[i + 1]);
  for (size_t i = 0; i < into.slices.size(); ++i) {
    const Imported& slice = outputs[i + 1 + carried];
    if (!slice.is_tensor()) fail("it stacks {}; it can stack tensors", slice.what());
    into.slices[i].push_back(slice);
  }
}

// What a loop without iterations stacks: the body says of which type and shape that is nothing.
void add_empty_stacks(Call& c, const Unrolled& loop) {
  const int64_t carried = std::ssize(loop.carried);
  if (c.output_count() <= carried) return;
  std::vector<Importer::BodyInput> inputs = {{ElementType::int64, {DType::i32, {}}},
                                             {ElementType::boolean, {DType::bool_, {}}, Ints::scalar(1)}};
  for (const Imported& v : loop.carried) inputs.push_back(body_input_like(c, v));
  const Importer::Body body = c.importer().body(c.frame(), c.subgraph("body"), inputs);
  for (int64_t i = carried; i < c.output_count() && i + 1 < std::ssize(body.outputs); ++i) {
    const Imported& slice = body.outputs[static_cast<size_t>(i) + 1];
    if (!slice.is_tensor()) fail("it stacks {}; it can stack tensors", slice.what());
    Shape shape = slice.value.shape();
    shape.insert(0, 0);
    c.out(i, expand(c.graph().scalar(value_dtype(slice.value.dtype()), 0), shape), slice.type);
  }
}

}  // namespace

void spend_copy(Call& c, const std::vector<Imported>& inputs) {
  int64_t work = 100;  // names and a scope of its own
  for (const Imported& v : inputs)
    work += 1 + (v.elements ? std::ssize(*v.elements) : v.ints ? std::ssize(v.ints->values) : 0);
  c.importer().spend(work);
}

std::vector<Value> device_values(const std::vector<Imported>& all) {
  std::vector<Value> out;
  for (const Imported& v : all) {
    if (v.elements) {
      for (const Imported& one : *v.elements) out.push_back(one.value);
    } else if (!v.absent) {
      out.push_back(v.value);
    }
  }
  return out;
}

Imported with_values(const Imported& like, const std::vector<Value>& values, size_t& next) {
  if (like.absent) return like;
  if (!like.elements) return {.type = like.type, .value = values[next++]};
  std::vector<Imported> elements;
  for (const Imported& one : *like.elements) elements.push_back({.type = one.type, .value = values[next++]});
  return Imported::sequence(std::move(elements), like.type);
}

Importer::BodyInput body_input_like(Call& c, Imported value) {
  c.importer().materialize(c.frame(), value);
  if (value.absent) return {.type = value.type, .tensor = {}, .absent = true};
  if (!value.elements) return {value.type, {value_dtype(value.value.dtype()), value.value.shape()}};
  Importer::BodyInput out{.type = value.type, .tensor = {}, .elements = std::vector<Importer::BodyInput>()};
  for (const Imported& one : *value.elements) out.elements->push_back(body_input_like(c, one));
  return out;
}

std::optional<int64_t> known_number(Call& c, const Imported& value) {
  if (value.ints) {
    if (value.ints->values.size() != 1 || !value.ints->is_static()) return std::nullopt;
    return value.ints->values[0].value();
  }
  const auto tensor = c.importer().constant(value.value);
  if (!tensor || tensor->elements() != 1) return std::nullopt;
  return tensor->integer(0);
}

Imported joined_tensors(Call& c, const std::vector<Imported>& parts, int64_t axis, bool new_axis) {
  const auto derived = [&](std::string_view op, std::vector<Imported> inputs,
                           std::vector<AttributeProto> attributes) {
    return c.importer().derived(c.frame(), c.node(), op, std::move(inputs), std::move(attributes));
  };
  std::vector<Imported> inputs = parts;
  if (new_axis) {
    const Imported axes{.type = ElementType::int64, .ints = Ints::vector({Dim(axis)})};
    for (Imported& part : inputs) part = derived("Unsqueeze", {part, axes}, {});
  }
  return derived("Concat", std::move(inputs), {integer_attribute("axis", axis)});
}

int64_t most_copies(Call& c, const GraphProto& proto) {
  return std::min(kMaxUnrolled, c.importer().nodes_left() / (1 + std::ssize(proto.nodes)));
}

bool unroll_loop(Call& c) {
  Importer& importer = c.importer();
  const GraphProto& body = c.subgraph("body");
  const std::optional<int64_t> trips =
      c.has(0) ? known_number(c, c.imported(0)) : std::optional(std::numeric_limits<int64_t>::max());
  std::optional<int64_t> goes_on = c.has(1) ? known_number(c, c.imported(1)) : std::optional<int64_t>(1);
  // What changes its length from iteration to iteration cannot be carried by the device.
  if (!trips && !c.only_tensors()) importer.want_host_value(c.in(0));
  if (!goes_on && !c.only_tensors()) importer.want_host_value(c.in(1));
  if (!trips || !goes_on || body.outputs.empty() || body.inputs.size() < 2) return false;

  const int64_t most = most_copies(c, body);
  const int64_t streams = importer.streams();
  Unrolled loop;
  for (int64_t i = 2; i < c.input_count(); ++i) loop.carried.push_back(c.any(i));
  for (int64_t i = 0; i < *trips && *goes_on; ++i) {
    if (i >= most || (i == 1 && *trips > most && has_fixed_condition(body))) return false;
    importer.restart_streams(streams);  // each iteration draws the same numbers
    std::vector<Imported> inputs = {{.type = ElementType::int64, .ints = Ints::scalar(i)},
                                    {.type = ElementType::boolean, .ints = Ints::scalar(1)}};
    inputs.insert(inputs.end(), loop.carried.begin(), loop.carried.end());
    spend_copy(c, inputs);
    std::vector<Imported> outputs =
        importer.inlined(c.frame(), body, inputs, formatted("{}[{}]", node_name(c.node()), i));
    if (!outputs[0].is_tensor()) fail("its condition is {}; it must be a tensor", outputs[0].what());
    goes_on = known_number(c, outputs[0]);
    if (!goes_on) return false;
    take(loop, std::move(outputs));
  }

  for (size_t i = 0; i < loop.carried.size(); ++i) c.out(static_cast<int64_t>(i), loop.carried[i]);
  if (loop.slices.empty()) {
    add_empty_stacks(c, loop);
    return true;
  }
  for (size_t i = 0; i < loop.slices.size(); ++i) {
    const auto at = static_cast<int64_t>(loop.carried.size() + i);
    if (c.wants(at)) c.out(at, joined_tensors(c, loop.slices[i], 0, true));
  }
  return true;
}

}  // namespace rlx::onnx
