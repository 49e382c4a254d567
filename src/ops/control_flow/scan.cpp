// A loop over the slices of tensors along their first axis. It expands into `loop`, whose body takes the
// slice of each iteration itself.
#include <algorithm>

#include "ir/reference.h"
#include "ir/subgraphs.h"
#include "ops/control_flow/body.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

struct Scan final : OpOf<Scan> {
  static constexpr auto kName = "scan";
  GraphPtr body;
  int64_t carried = 0;
  int64_t scanned = 1;

  void visit_attributes(AttributeVisitor& v) override {
    v("body", body);
    v("carried", carried, 0);
    v("scanned", scanned, 1);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  bool has(Trait t) const override { return t == Trait::control_flow; }
  std::vector<Subgraph> subgraphs() const override { return {{"body", body}}; }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return body_tolerance(*body); }
};

std::vector<TensorType> Scan::infer(const InferArgs& in) const {
  expect_body(kName, "body", body);
  if (carried < 0 || scanned < 1 || scanned > in.count() || carried > in.count() - scanned) {
    fail("scan: it has {} inputs, which cannot be {} carried and {} scanned ones (at least 1)", in.count(),
         carried, scanned);
  }
  std::vector<TensorType> given;
  for (int64_t i = 0; i < in.count(); ++i) given.push_back(in[i]);
  std::optional<Dim> trips;
  for (int64_t i = carried; i < carried + scanned; ++i) {
    Shape& shape = given[static_cast<size_t>(i)].shape;
    if (shape.rank() == 0) fail("scan: input {} is scanned, but it is a scalar", i);
    if (trips && !(*trips == shape[0])) {
      fail("scan: the scanned inputs {} and {} have {} and {} slices", carried, i, trips->text(),
           shape[0].text());
    }
    trips = shape[0];
    shape.erase(0);
  }
  expect_body_inputs(kName, *body, given);

  std::vector<TensorType> outputs = body_output_types(*body);
  if (outputs.empty() || std::ssize(outputs) < carried) {
    fail("scan: the body '{}' has {} outputs; it needs at least one, and {} carried ones", body->name,
         outputs.size(), carried);
  }
  for (int64_t i = 0; i < std::ssize(outputs); ++i) {
    TensorType& type = outputs[static_cast<size_t>(i)];
    if (i >= carried) {
      type.shape.insert(0, *trips);
    } else if (!(type == in[i])) {
      fail("scan: carried value {} is {}, but the body '{}' returns {} for it", i, in[i].text(), body->name,
           type.text());
    }
  }
  return outputs;
}

// Slice i along the first axis.
RefTensor slice_of(const RefTensor& t, int64_t i) {
  RefTensor out = RefTensor::zeros(t.dtype, {t.dims.begin() + 1, t.dims.end()});
  visit_both(t, out, [&](const auto& from, auto& to) {
    std::copy_n(from.begin() + i * std::ssize(to), to.size(), to.begin());
  });
  return out;
}

void Scan::reference(RefContext& r) const {
  std::vector<RefTensor> values;
  for (int64_t i = 0; i < carried; ++i) values.push_back(r.in(i));
  const int64_t trips = r.in(carried).dims[0];
  const auto first_slice = static_cast<size_t>(carried);
  std::vector<std::vector<RefTensor>> slices(body->outputs().size() - first_slice);
  for (int64_t trip = 0; trip < trips; ++trip) {
    std::vector<RefTensor> inputs = values;
    for (int64_t i = carried; i < r.input_count(); ++i)
      inputs.push_back(i < carried + scanned ? slice_of(r.in(i), trip) : r.in(i));
    std::vector<RefTensor> outputs = r.run(*body, std::move(inputs));
    for (size_t c = 0; c < first_slice; ++c) values[c] = std::move(outputs[c]);
    for (size_t s = 0; s < slices.size(); ++s) slices[s].push_back(std::move(outputs[first_slice + s]));
  }
  const std::vector<TensorType> types = body_output_types(*body);
  for (size_t c = 0; c < first_slice; ++c) r.out(static_cast<int64_t>(c)) = std::move(values[c]);
  for (size_t s = 0; s < slices.size(); ++s)
    r.out(static_cast<int64_t>(first_slice + s)) = stack(slices[s], types[first_slice + s], trips);
}

// A name that no node of the body has.
std::string free_name(const Graph& body, std::string name) {
  while (body.find(name) >= 0) name += "_";
  return name;
}

std::optional<std::vector<Value>> Scan::expand(const ExpandArgs& in) const {
  const Dim trips = in[carried].shape()[0];
  const std::vector<TensorType> types = body_output_types(*body);
  if (trips.is(0)) {  // gather has no slice to take
    std::vector<Value> outputs(in.inputs.begin(), in.inputs.begin() + carried);
    for (size_t s = static_cast<size_t>(carried); s < types.size(); ++s) {
      Shape shape = types[s].shape;
      shape.insert(0, 0);
      outputs.push_back(rlx::expand(in.graph.scalar(types[s].dtype, 0), shape));
    }
    return outputs;
  }
  Graph steps;
  steps.name = body->name;
  const Value iteration = steps.input(free_name(*body, "iteration"), DType::i32, {});
  std::map<ValueId, ValueId> map;
  const std::vector<int32_t> inputs = body_inputs(*body);
  for (int64_t i = 0; i < std::ssize(inputs); ++i) {
    const Node& n = body->node(inputs[static_cast<size_t>(i)]);
    const TensorType type = value_type(in[i].type());
    const bool sliced = i >= carried && i < carried + scanned;
    const Value whole =
        steps.input(sliced ? free_name(*body, n.name + ".all") : n.name, type.dtype, type.shape);
    map[{inputs[static_cast<size_t>(i)], 0}] =
        (sliced ? gather(whole, iteration, 0).named(n.name) : whole).id();
  }
  const std::vector<ValueId> results = inline_body(steps, *body, std::move(map));
  std::string go_on = "go on";
  while (std::ranges::contains(body->outputs(), go_on, &Graph::Output::name)) go_on += "_";
  steps.output(go_on, steps.scalar(DType::bool_, 1));
  for (size_t o = 0; o < results.size(); ++o) steps.output(body->outputs()[o].name, steps.value(results[o]));

  LoopOptions options;
  options.captured.assign(in.inputs.begin() + carried, in.inputs.end());
  options.exactly = trips;
  return loop({in.inputs.begin(), in.inputs.begin() + carried}, std::move(steps), options);
}

}  // namespace

std::vector<Value> scan(const std::vector<Value>& carried, const std::vector<Value>& scanned, Graph body,
                        const std::vector<Value>& captured) {
  if (scanned.empty()) fail(ErrorKind::invalid_argument, "scan: takes at least one tensor to scan");
  auto op = std::make_shared<Scan>();
  op->body = std::make_shared<const Graph>(std::move(body));
  op->carried = std::ssize(carried);
  op->scanned = std::ssize(scanned);
  std::vector<Value> inputs = carried;
  inputs.insert(inputs.end(), scanned.begin(), scanned.end());
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  return all_outputs(add_node(op, inputs));
}

namespace ops {
void register_scan(OpTable& table) {
  table.add<Scan>(
      {.formula =
           "for each i: carried, slices = body(carried, scanned[i], captured); the last carried values, "
           "and the slices stacked",
       .operands = "inputs... (any): the carried values, then the scanned ones, then those that each "
                   "iteration gets as they are",
       .attributes =
           "body: takes the inputs, of scanned ones a slice; returns the carried values, then any number of "
           "slices\n"
           "carried: how many inputs are carried from one iteration to the next\n"
           "scanned: how many inputs are cut along their first axis, into a slice for each iteration",
       .outputs = "outputs... (any): the last carried values, then the slices of all iterations along a new "
                  "first axis",
       .types = "f32",
       .variants = {"expanded"},
       .samples = {
           // A running sum.
           "scan(f32[3], f32[7,3]) {carried=1, body=graph b { %s = input : f32[3] %x = input : f32[3] %y = "
           "add(%s, %x) "
           "output s = %y output y = %y }}",
           "scan(f32[5,3], f32[5], f32[3]) {scanned=2, body=graph b { %x = input : f32[3] %a = input : f32[] "
           "%b = input : f32[3] %y = mul(%x, %a) %z = add(%y, %b) output z = %z }}",
           "scan(f32[3], f32[0,3]) {carried=1, body=graph b { %s = input : f32[3] %x = input : f32[3] "
           "%y = add(%s, %x) output s = %y output y = %y }}",
       }});
}
}  // namespace ops

}  // namespace rlx
