#include "import/onnx/importer.h"

#include <algorithm>

#include "import/onnx/call.h"
#include "import/onnx/one_to_one.h"
#include "import/onnx/rules.h"
#include "import/onnx/shape_arithmetic.h"
#include "ir/op.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kFirstOpset = 1;
constexpr int64_t kLastOpset = 26;
// Functions that call functions could name 2^60 nodes in a small file, and one node of a file can be many of
// ours.
constexpr int64_t kMaxNodes = 250'000;
constexpr int64_t kMaxMade = 1'000'000;
constexpr int64_t kMaxWork = 1 << 24;
// As deep as the text form goes.
constexpr int kMaxDepth = 31;
// Of the functions around a node, in its name.
constexpr size_t kMaxPrefix = 256;
// Larger tensors are not computed while importing, nor nodes that may need more multiplications.
constexpr int64_t kMaxEvaluated = 65536;
constexpr int64_t kMaxProducts = 1 << 22;
// Larger ones become params: a constant is part of every print and every plan.
constexpr int64_t kMaxConstant = 64;

// Thrown when the file asks for too much as a whole: there is no use in going on with the next node.
struct TooMuch : Error {
  using Error::Error;
};

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

std::string op_name(const NodeProto& n) {
  const std::string_view domain = plain_domain(n.domain);
  return domain.empty() ? std::string(n.op) : formatted("{}.{}", domain, n.op);
}

std::string node_name(const NodeProto& n) {
  if (!n.name.empty()) return std::string(n.name);
  for (const std::string_view output : n.outputs) {
    if (!output.empty()) return std::string(output);
  }
  return std::string(n.op);
}

// Exporters write sums and products of names too. Nothing if it is no text for a dimension.
std::optional<Dim> parsed_dim(const std::string& text) {
  try {
    return Dim::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_op_of(std::string_view op, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

std::string free_name(const Graph& graph, std::string name) {
  while (graph.find(name) >= 0) name += '_';
  return name;
}

// Params are found by their names, other nodes of a graph are not: one that has the name already takes
// another. (The inputs of a body go by their order, and those of the model never have the name of a param.)
void make_free(Graph& graph, const std::string& name) {
  if (const int32_t other = graph.find(name); other >= 0) graph.rename(other, free_name(graph, name));
}

// What it costs to look at it, however often.
int64_t size_of(const NodeProto& n) {
  size_t size = 1 + n.inputs.size() + n.outputs.size();
  for (const AttributeProto& a : n.attributes)
    size += 1 + a.ints.size() + a.floats.size() + a.strings.size() + (a.g ? a.g->inputs.size() : 0);
  return static_cast<int64_t>(size);
}

bool is_small(const TensorType& t) {
  return t.shape.is_static() && t.shape.elements().value() <= kMaxEvaluated;
}

// An upper bound of the steps that the reference takes: every element of the inputs for every result, unless
// the op is one that looks at few.
int64_t most_work(const Node& n, const std::vector<const RefTensor*>& inputs) {
  int64_t made = 0;
  for (const TensorType& t : n.outputs) made += t.shape.elements().value();
  if (n.op->has(Trait::view) || n.op->has(Trait::elementwise)) return made;
  int64_t read = 1;
  for (const RefTensor* in : inputs) read += in ? in->elements() : 0;
  return std::min(made, kMaxProducts) * std::min(read, kMaxProducts) + read;
}

// Why there is no rule.
Refused no_rule(const NodeProto& n) {
  const std::string_view domain = plain_domain(n.domain);
  if (domain.starts_with("ai.onnx."))
    return Refused(Refusal::foreign_domain, formatted("the ops of the domain {} are not supported", domain));
  if (n.op.starts_with("Sequence") || n.op.starts_with("Optional") || n.op.starts_with("String") ||
      is_op_of(n.op, {"ConcatFromSequence", "SplitToSequence", "RegexFullMatch"}))
    return Refused(Refusal::not_a_tensor, "sequences, optionals and strings are not supported");
  return Refused(Refusal::missing_op, "there is no such op here yet");
}

}  // namespace

Importer::Importer(const ModelProto& model, TensorData& data, const ImportOptions& options,
                   NamedTensors host_inputs)
    : model_(model),
      data_(data),
      options_(options),
      host_inputs_(std::move(host_inputs)),
      scope_{.graph = &graph_} {
  if (!model.graph.name.empty()) graph_.name = model.graph.name;
}

Imports Importer::run() {
  Frame frame{.scope = scope_, .opsets = model_.opsets};
  check_opset(opset(frame, ""));
  collect_functions();
  collect_input_symbols();
  add_initializers(scope_, model_.graph);
  declare_inputs();
  check_given_symbols();
  for (const auto& [name, dim] : options_.symbols) dim.collect_symbols(symbols_);
  nodes(frame, model_.graph.nodes);
  declare_outputs();
  return {std::move(graph_), std::move(weights_),  std::move(host_inputs_),
          std::move(types_), std::move(problems_), random_};
}

void Importer::check_opset(int64_t version) const {
  if (version < kFirstOpset || version > kLastOpset) {
    fail(ErrorKind::unsupported, "the model uses version {} of ONNX's ops; {} to {} are supported", version,
         kFirstOpset, kLastOpset);
  }
}

void Importer::collect_functions() {
  for (const FunctionProto& f : model_.functions) {
    if (!functions_.emplace(FunctionId{plain_domain(f.domain), f.name, f.overload}, &f).second)
      fail(ErrorKind::invalid_file, "there are two functions '{}'", excerpt(f.name));
  }
}

void Importer::spend(int64_t work) {
  work_ += std::min(work, kMaxWork);
  if (work_ > kMaxWork)
    throw TooMuch(ErrorKind::unsupported, "the model asks for too much work while it is imported");
}

int64_t Importer::opset(const Frame& frame, std::string_view domain) const {
  const auto same = [&](const OpsetId& id) { return plain_domain(id.domain) == plain_domain(domain); };
  const auto it = std::ranges::find_if(frame.opsets, same);
  if (it != frame.opsets.end()) return it->version;
  return plain_domain(domain).empty() ? kLastOpset : 1;
}

bool Importer::is_own(std::string_view domain) { return plain_domain(domain).empty(); }

// --- Leaves ---

const Tensor& Importer::tensor(const TensorProto& proto) {
  const auto it = tensors_.find(&proto);
  return it != tensors_.end() ? it->second : tensors_.emplace(&proto, data_.tensor(proto)).first->second;
}

Imported Importer::leaf(Graph& graph, std::string_view name, const Tensor& tensor, ElementType type) {
  Imported out{.type = type};
  // What shapes are computed from; other integers, such as quantised weights, are only known if they are few.
  const bool plain = type == ElementType::int64 || type == ElementType::int32 || type == ElementType::boolean;
  const bool known = is_integer(type) || type == ElementType::boolean;
  if (known && tensor.elements() <= (plain ? kMaxInts : kMaxConstant)) {
    spend(tensor.elements() / 4);
    const std::vector<int64_t> numbers = tensor.integers();
    out.ints = Ints{tensor.shape(), {numbers.begin(), numbers.end()}};
    if (tensor.elements() <= kMaxConstant) return out;
  }
  if (tensor.elements() <= kMaxConstant) {
    out.value = graph.constant(tensor, std::string(name));
  } else {
    const std::string unique = weight_name(name);
    make_free(graph, unique);
    out.value = graph.param(unique, tensor.dtype(), Shape(tensor.shape()));
    weights_.emplace(unique, tensor);
  }
  return out;
}

// Sub-graphs and functions may use a name again, and a name of a node may be that of an input.
std::string Importer::weight_name(std::string_view wanted) {
  std::string name(wanted);
  while (weights_.contains(name) || types_.contains(name))
    name = formatted("{}_{}", wanted, ++numbering_[std::string(wanted)]);
  return name;
}

void Importer::add_initializers(Scope& scope, const GraphProto& graph) {
  if (graph.sparse_initializers)
    problems_.push_back({Refusal::not_a_tensor, "", "", "sparse initializers are not supported"});
  for (const TensorProto& t : graph.initializers) {
    if (t.name.empty()) fail(ErrorKind::invalid_file, "an initializer has no name");
    if (scope.values.contains(t.name))
      fail(ErrorKind::invalid_file, "there are two initializers '{}'", excerpt(t.name));
    Imported imported;
    try {
      imported = leaf(*scope.graph, t.name, data_.tensor(t), t.type);
    } catch (const Refused& e) {
      problems_.push_back({e.why(), std::string(t.name), "initializer", e.what()});
      imported.failed = true;
    }
    scope.values.emplace(t.name, std::move(imported));
  }
}

// The symbols that texts of dimensions mean, before any is made up.
void Importer::collect_input_symbols() {
  for (const ValueInfo& info : model_.graph.inputs) {
    for (const DimProto& d : info.shape.value_or(std::vector<DimProto>())) {
      if (d.value || d.param.empty()) continue;
      if (const auto dim = parsed_dim(std::string(d.param))) dim->collect_symbols(symbols_);
    }
  }
}

std::string Importer::fresh_symbol(std::string_view what) {
  std::string name;
  for (const char c : what) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || !parsed_dim(name))
    name = "_" + name;
  const std::string wanted = name;
  while (!symbols_.insert(name).second) name = formatted("{}_{}", wanted, ++numbering_[wanted]);
  return name;
}

// The same text is the same size, and texts that are no names are different ones.
Dim Importer::symbol(const std::string& text) {
  const auto [it, fresh] = named_dims_.try_emplace(text);
  if (fresh) {
    const auto dim = parsed_dim(text);
    it->second = dim ? *dim : Dim::symbol(fresh_symbol(text));
  }
  return it->second;
}

Shape Importer::input_shape(const ValueInfo& info) {
  const auto given = options_.values.find(info.name);
  if (!info.shape) {
    if (given == options_.values.end())
      throw Refused(Refusal::host_value,
                    formatted("the input '{}' has no shape in the file", excerpt(info.name)));
    return Shape(given->second.shape());
  }
  Shape shape;
  for (size_t i = 0; i < info.shape->size(); ++i) {
    const DimProto& d = (*info.shape)[i];
    if (d.value) {
      if (*d.value < 0)
        fail(ErrorKind::invalid_file, "the input '{}' has a dimension of {}", excerpt(info.name), *d.value);
      shape.push_back(Dim(*d.value));
    } else if (!d.param.empty()) {
      shape.push_back(symbol(std::string(d.param)));
    } else {
      shape.push_back(Dim::symbol(fresh_symbol(formatted("{}_{}", info.name, i))));
    }
  }
  for (const auto& [name, dim] : options_.symbols) {
    for (int64_t i = 0; i < shape.rank(); ++i) shape[i] = shape[i].replace(name, dim);
  }
  return shape;
}

void Importer::declare_inputs() {
  std::set<std::string_view> names;
  for (const ValueInfo& info : model_.graph.inputs) {
    if (info.name.empty()) fail(ErrorKind::invalid_file, "an input has no name");
    if (!names.insert(info.name).second)
      fail(ErrorKind::invalid_file, "there are two inputs '{}'", excerpt(info.name));
    if (scope_.values.contains(info.name)) continue;  // an initializer is its value
    Imported in{.type = info.type};
    try {
      if (info.kind != ValueInfo::Kind::tensor || info.type == ElementType::string)
        throw Refused(Refusal::not_a_tensor, "it is not a tensor of numbers");
      const auto dtype = carrier(info.type);
      if (!dtype)
        throw Refused(Refusal::element_type,
                      formatted("the element type {} is not supported", to_string(info.type)));
      if (const auto host = host_inputs_.find(info.name); host != host_inputs_.end()) {
        const Tensor& value = host->second;
        if (!is_float(info.type) && value.elements() <= kMaxInts && value.dtype() != DType::c64) {
          const std::vector<int64_t> numbers = value.integers();
          in.ints = Ints{value.shape(), {numbers.begin(), numbers.end()}};
        } else {
          in.value = graph_.constant(value, std::string(info.name));
        }
      } else {
        in.value = graph_.input(std::string(info.name), *dtype, input_shape(info));
      }
    } catch (const Refused& e) {
      problems_.push_back({e.why(), std::string(info.name), "input", e.what()});
      in.failed = true;
    }
    types_[std::string(info.name)] = info.type;
    scope_.values.emplace(info.name, std::move(in));
  }
}

void Importer::check_given_symbols() const {
  for (const auto& [name, dim] : options_.symbols) {
    if (symbols_.contains(name)) continue;
    fail(ErrorKind::invalid_argument, "the inputs have no symbol named '{}'{}", excerpt(name),
         symbols_.empty() ? "" : formatted("; they have: {}", excerpt(joined(symbols_), 500)));
  }
}

void Importer::declare_outputs() {
  if (model_.graph.outputs.empty()) fail(ErrorKind::invalid_file, "the model has no outputs");
  std::set<std::string_view> names;
  for (const ValueInfo& info : model_.graph.outputs) {
    if (!names.insert(info.name).second)
      fail(ErrorKind::invalid_file, "there are two outputs '{}'", excerpt(info.name));
    const auto it = scope_.values.find(info.name);
    if (it == scope_.values.end()) {
      fail(ErrorKind::invalid_file, "the output '{}' is not the output of any node", excerpt(info.name));
    }
    Imported& v = it->second;
    if (v.failed) continue;
    Frame frame{.scope = scope_, .opsets = model_.opsets};
    if (!v.value) v.value = Call(*this, frame, NodeProto()).materialize(*v.ints, v.type);
    types_[std::string(info.name)] = v.type;
    graph_.output(std::string(info.name), v.value);
  }
}

// --- Names ---

Imported* Importer::find(Scope& scope, std::string_view name) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) {
    if (it->second.failed) throw Skipped();
    return &it->second;
  }
  if (!scope.outer) fail("its input '{}' is not the output of any node before it", excerpt(name));
  Imported* outer = find(*scope.outer, name);
  if (scope.outer->graph == scope.graph) return outer;
  return &scope.values.emplace(name, capture(scope, name, *outer)).first->second;
}

// A value of the graph around a body.
Imported Importer::capture(Scope& scope, std::string_view name, const Imported& outer) {
  Imported inner{.type = outer.type, .ints = outer.ints};
  if (outer.ints) return inner;
  const Node& producer = outer.value.graph().producer(outer.value.id());
  if (const auto* constant = op_cast<Constant>(*producer.op)) {
    inner.value = scope.graph->constant(constant->value);
  } else if (producer.op->is(LeafKind::param)) {
    const int32_t there = scope.graph->find(producer.name);
    if (there >= 0 && scope.graph->node(there).op->is(LeafKind::param)) {
      inner.value = scope.graph->value({there, 0});
    } else {
      make_free(*scope.graph, producer.name);
      inner.value = scope.graph->param(producer.name, outer.value.dtype(), outer.value.shape());
    }
  } else {
    inner.value = body_input(*scope.graph, std::string(name), {outer.value.dtype(), outer.value.shape()});
    scope.captured.emplace_back(name, outer.value);
  }
  return inner;
}

// --- Random numbers ---

Importer::Stream Importer::draw(Frame& frame, std::optional<uint64_t> seed) {
  random_ = true;
  if (seed) return {*seed};
  if (options_.seed_input.empty()) return {options_.seed, streams_++};
  return {seed_input(frame.scope), streams_++};
}

Value Importer::seed_input(Scope& scope) {
  const std::string& name = options_.seed_input;
  if (!seed_) {
    if (scope_.values.contains(name))
      fail("the model has a value named '{}', so that no input for the seed can have this name", name);
    make_free(graph_, name);
    seed_ = graph_.input(name, DType::u32, {2});
    types_[name] = ElementType::uint32;
    scope_.values.emplace(name, Imported{.type = ElementType::uint32, .value = seed_});
  }
  if (scope.graph == &graph_) return seed_;
  const Scope* outermost = &scope;
  while (outermost->outer) outermost = outermost->outer;
  if (outermost != &scope_)
    throw Refused(Refusal::other, "in a function that a sub-graph calls, no seed can come from an input");
  return find(scope, name)->value;
}

// --- Nodes ---

void Importer::nodes(Frame& frame, const std::vector<NodeProto>& nodes) {
  for (const NodeProto& n : nodes) node(frame, n);
}

void Importer::node(Frame& frame, const NodeProto& n) {
  const auto failed = [&](const ImportProblem& problem) {
    problems_.push_back(problem);
    bind_outputs(frame, n, std::vector<Imported>(n.outputs.size(), {.failed = true}), 0);
  };
  const std::string name = frame.prefix + node_name(n);
  try {
    translate(frame, n);
  } catch (const Skipped&) {
    bind_outputs(frame, n, std::vector<Imported>(n.outputs.size(), {.failed = true}), 0);
  } catch (const TooMuch&) {
    throw;
  } catch (const Refused& e) {
    failed({e.why(), name, op_name(n), e.what()});
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal)
      throw e.within(formatted("the node '{}' ({})", excerpt(name), op_name(n)));
    failed({Refusal::other, name, op_name(n), e.what(), e.kind() != ErrorKind::unsupported});
  }
}

void Importer::translate(Frame& frame, const NodeProto& n) {
  if (++translated_ > kMaxNodes) {
    throw TooMuch(ErrorKind::unsupported, formatted("the model has more than {} nodes", kMaxNodes));
  }
  spend(size_of(n));
  const int32_t first_node = frame.scope.graph->size();
  const std::string_view domain = plain_domain(n.domain);
  if (call_function(frame, n)) return;
  const Rule rule = rule_table().find(domain, n.op);
  const OneToOne* same = domain.empty() ? find_one_to_one(n.op) : nullptr;
  if (!rule && !same) throw no_rule(n);  // also if an input failed: whoever adds ops wants to see all of them
  Call call(*this, frame, n);
  if (!domain.empty() || !fold_ints(call)) {
    if (rule) {
      rule(call);
    } else {
      import_one_to_one(*same, call);
    }
  }
  call.expect_known_attributes();
  made_ += frame.scope.graph->size() - first_node;
  if (made_ > kMaxMade) {
    throw TooMuch(ErrorKind::unsupported,
                  formatted("the nodes of the model become more than {} of ours", kMaxMade));
  }
  bind_outputs(frame, n, call.take_outputs(), first_node);
}

void Importer::bind_outputs(Frame& frame, const NodeProto& n, std::vector<Imported> outputs,
                            int32_t first_node) {
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const Imported& out = outputs[i];
    if (!n.outputs[i].empty() && !out.failed && !out.ints && !out.value)
      fail(ErrorKind::unsupported, "its output {} is not supported", i);
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const std::string_view name = n.outputs[i];
    if (name.empty()) continue;
    Imported& out = outputs[i];
    // What a rule made, not what it passed on.
    if (!out.failed && out.value && out.value.id().node >= first_node && first_node > 0) {
      const Node& made = out.value.graph().producer(out.value.id());
      if (!made.op->is_leaf()) out.value.named(frame.prefix + node_name(n));
    }
    if (!frame.scope.values.emplace(name, std::move(out)).second &&
        !frame.scope.values.at(std::string(name)).failed)
      fail(ErrorKind::invalid_file, "the name '{}' is the output of two nodes", excerpt(name));
  }
}

// A function that the model defines: its nodes take the place of the call.
bool Importer::call_function(Frame& frame, const NodeProto& n) {
  const auto found = functions_.find({plain_domain(n.domain), n.op, n.overload});
  if (found == functions_.end()) return false;
  const FunctionProto& f = *found->second;
  if (frame.depth >= kMaxDepth) fail("functions call each other more than {} deep", kMaxDepth);
  if (n.inputs.size() > f.inputs.size())
    fail("it has {} inputs; the function takes {}", n.inputs.size(), f.inputs.size());
  AttributeNames known(f.attributes.begin(), f.attributes.end());
  for (const AttributeProto& a : f.attribute_defaults) known.emplace(a.name);
  expect_attributes(n, known, formatted("the function '{}'", n.op), ErrorKind::invalid_file);
  Scope scope{.graph = frame.scope.graph};
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.inputs[i].empty()) scope.values.emplace(f.inputs[i], *find(frame.scope, n.inputs[i]));
  }
  Frame inner{.scope = scope, .opsets = f.opsets, .depth = frame.depth + 1};
  check_opset(opset(inner, ""));
  inner.prefix = frame.prefix + node_name(n) + "/";
  if (inner.prefix.size() > kMaxPrefix) inner.prefix = excerpt(inner.prefix, kMaxPrefix) + "/";
  spend(std::ssize(f.attribute_defaults));
  for (const AttributeProto& a : f.attribute_defaults) inner.attributes[a.name] = &a;
  for (const AttributeProto& a : n.attributes) {
    if (a.reference.empty()) {
      inner.attributes[a.name] = &a;
    } else if (const auto given = frame.attributes.find(a.reference); given != frame.attributes.end()) {
      inner.attributes[a.name] = given->second;
    }
  }
  nodes(inner, f.nodes);
  std::vector<Imported> outputs(n.outputs.size());
  for (size_t i = 0; i < n.outputs.size() && i < f.outputs.size(); ++i) {
    const auto made = scope.values.find(f.outputs[i]);
    if (made == scope.values.end())
      fail("the function '{}' does not make its output '{}'", n.op, f.outputs[i]);
    outputs[i] = made->second;
  }
  bind_outputs(frame, n, std::move(outputs), 0);
  return true;
}

// --- Control flow ---

Value Importer::body_input(Graph& graph, const std::string& name, const TensorType& type) {
  return graph.input(free_name(graph, name), type.dtype, type.shape);
}

Importer::Body Importer::body(Frame& frame, const GraphProto& proto, const std::vector<BodyInput>& inputs,
                              const std::vector<std::pair<std::string, Value>>& captured) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  if (proto.inputs.size() != inputs.size())
    fail("its sub-graph has {} inputs instead of {}", proto.inputs.size(), inputs.size());
  Body out;
  known_.erase(out.graph.get());  // of an earlier one at the same address
  Scope scope{.graph = out.graph.get(), .outer = &frame.scope};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name(proto.inputs[i].name);
    Imported in{.type = inputs[i].type, .ints = inputs[i].known};
    if (!in.ints) {
      const Value value = body_input(*out.graph, name, inputs[i].tensor);
      in.value = value.dtype() == *carrier(in.type) ? value : cast(value, *carrier(in.type));
    }
    if (!scope.values.emplace(name, std::move(in)).second)
      fail("its sub-graph has two inputs '{}'", excerpt(name));
  }
  for (const auto& [name, value] : captured) find(scope, name);
  add_initializers(scope, proto);
  Frame inner{.scope = scope,
              .opsets = frame.opsets,
              .attributes = frame.attributes,
              .prefix = frame.prefix,
              .depth = frame.depth + 1};
  nodes(inner, proto.nodes);
  for (const ValueInfo& info : proto.outputs) {
    Imported v = *find(scope, info.name);
    if (!v.value) v.value = Call(*this, inner, NodeProto()).materialize(*v.ints, v.type);
    out.outputs.push_back(std::move(v));
  }
  out.captured = std::move(scope.captured);
  return out;
}

std::vector<Imported> Importer::inlined(Frame& frame, const GraphProto& proto) {
  if (frame.depth >= kMaxDepth) fail("sub-graphs are nested more than {} deep", kMaxDepth);
  Scope scope{.graph = frame.scope.graph, .outer = &frame.scope};
  add_initializers(scope, proto);
  Frame inner{.scope = scope,
              .opsets = frame.opsets,
              .attributes = frame.attributes,
              .prefix = frame.prefix,
              .depth = frame.depth + 1};
  nodes(inner, proto.nodes);
  std::vector<Imported> out;
  for (const ValueInfo& info : proto.outputs) out.push_back(*find(scope, info.name));
  return out;
}

// --- Values that are known while importing ---

void Importer::evaluate(const Graph& graph, int32_t id) {
  KnownValues& known = known_[&graph];
  // The nodes that it depends on, in an order in which they can be computed: that of the graph.
  std::set<int32_t> cone;
  std::vector<int32_t> open = {id};
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (known.contains(at) || !cone.insert(at).second) continue;
    for (const ValueId v : graph.node(at).inputs) {
      if (!v.is_absent()) open.push_back(v.node);
    }
  }
  for (const int32_t at : cone) {
    const Node& n = graph.node(at);
    std::vector<RefTensor>& out = known[at];
    spend(1 + std::ssize(n.inputs));
    if (!n.op->subgraphs().empty() || !std::ranges::all_of(n.outputs, is_small)) continue;
    std::set<std::string> symbols;
    collect_symbols(*n.op, symbols);
    if (!symbols.empty()) continue;
    if (const auto* constant = op_cast<Constant>(*n.op)) {
      spend(constant->value.elements());
      out = {RefTensor::from(constant->value)};
    } else if (n.op->is(LeafKind::param)) {
      spend(n.outputs[0].shape.elements().value());
      out = {RefTensor::from(weights_.at(n.name))};
    } else if (!n.op->is_leaf()) {
      std::vector<const RefTensor*> inputs;
      bool complete = true;
      for (const ValueId v : n.inputs) {
        const std::vector<RefTensor>* made = v.is_absent() ? nullptr : &known.at(v.node);
        complete = complete && (v.is_absent() || !made->empty());
        inputs.push_back(made && !made->empty() ? &(*made)[static_cast<size_t>(v.output)] : nullptr);
      }
      const int64_t work = complete ? most_work(n, inputs) : 0;
      if (!complete || work > kMaxProducts) continue;
      spend(work);
      out = run_reference(n, inputs);
    }
  }
}

std::optional<Tensor> Importer::constant(const Value& value) {
  const Graph& graph = value.graph();
  if (!is_small(graph.type(value.id()))) return std::nullopt;
  evaluate(graph, value.id().node);
  const std::vector<RefTensor>& made = known_.at(&graph).at(value.id().node);
  if (made.empty()) return std::nullopt;
  const RefTensor& found = made[static_cast<size_t>(value.id().output)];
  spend(found.elements());
  return found.to_tensor();
}

Importer::Behind Importer::behind(const Value& value) {
  std::vector<int32_t> open = {value.id().node};
  std::set<int32_t> seen;
  Behind out;
  while (!open.empty()) {
    const int32_t at = open.back();
    open.pop_back();
    if (!seen.insert(at).second) continue;
    const Node& n = value.graph().node(at);
    if (n.op->is(LeafKind::input) && &value.graph() == &graph_) {
      if (options_.values.contains(n.name)) newly_needed_.insert(n.name);
      out.inputs += formatted("{}'{}'", out.inputs.empty() ? "" : ", ", excerpt(n.name));
    }
    if (!n.op->is_leaf()) collect_symbols(*n.op, out.symbols);
    for (const ValueId v : n.inputs) {
      if (!v.is_absent()) open.push_back(v.node);
    }
  }
  return out;
}

void Importer::need_host_value(const Value& value, std::string_view what) {
  const Behind behind = this->behind(value);
  if (!behind.inputs.empty()) {
    throw Refused(Refusal::host_value,
                  formatted("{} depends on the value of the input {}, which must be given with the model",
                            what, behind.inputs));
  }
  if (!behind.symbols.empty()) {
    throw Refused(Refusal::other, formatted("{} depends on the size {}, which must be given with the model",
                                            what, excerpt(joined(behind.symbols), 200)));
  }
  throw Refused(Refusal::other, formatted("{} depends on values that only the run knows", what));
}

void Importer::need_condition(const Value& condition) {
  if (const Behind behind = this->behind(condition); !behind.inputs.empty()) {
    throw Refused(Refusal::host_value,
                  formatted("one of its branches cannot be imported, and whether it is needed depends on the "
                            "value of the input {}, which must be given with the model",
                            behind.inputs));
  }
}

Imports import_model(const ModelProto& model, TensorData& data, const ImportOptions& options) {
  NamedTensors host_inputs;
  while (true) {
    Importer importer(model, data, options, host_inputs);
    Imports imports = importer.run();
    if (importer.newly_needed().empty()) return imports;
    for (const std::string& name : importer.newly_needed()) host_inputs[name] = options.values.at(name);
  }
}

}  // namespace rlx::onnx
