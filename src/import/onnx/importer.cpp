// The importer, nodes: finds the rule of each node or the function that it calls, and counts what a file asks
// for. Its other parts are in importer_inputs.cpp, importer_weights.cpp, importer_bodies.cpp and
// importer_known.cpp.
#include "import/onnx/importer.h"

#include <algorithm>

#include "import/onnx/call.h"
#include "import/onnx/importer_parts.h"
#include "import/onnx/one_to_one.h"
#include "import/onnx/rules.h"
#include "import/onnx/shape_arithmetic.h"
#include "ir/op.h"
#include "rlx/graph.h"

namespace rlx::onnx {
namespace {

constexpr int64_t kFirstOpset = 1;
constexpr int64_t kLastOpset = 26;
// Functions that call functions could name 2^60 nodes in a small file, and one node of a file can be many of
// ours.
constexpr int64_t kMaxNodes = 250'000;
constexpr int64_t kMaxMade = 1'000'000;
constexpr int64_t kMaxWork = 1 << 24;

// Thrown when the file asks for too much as a whole: there is no use in going on with the next node.
struct TooMuch : Error {
  using Error::Error;
};

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

std::string op_name(const NodeProto& n) {
  const std::string_view domain = plain_domain(n.domain);
  return domain.empty() ? std::string(n.op) : formatted("{}.{}", domain, n.op);
}

// What it costs to look at it, however often.
int64_t size_of(const NodeProto& n) {
  size_t size = 1 + n.inputs.size() + n.outputs.size();
  for (const AttributeProto& a : n.attributes)
    size += 1 + a.ints.size() + a.floats.size() + a.strings.size() + (a.g ? a.g->inputs.size() : 0);
  return static_cast<int64_t>(size);
}

// What the minima in the sizes of a node's inputs may be, fewest assumptions first, and numbers before
// symbols.
std::vector<DimChoices> possible_choices(Importer& importer, Frame& frame, const NodeProto& n) {
  std::vector<Minimum> found;
  const auto look = [&](const Dim& dim) {
    for (Minimum& m : minima(dim)) {
      if (!std::ranges::contains(found, m.text, &Minimum::text)) found.push_back(std::move(m));
    }
  };
  for (const std::string_view name : n.inputs) {
    const Imported* in = name.empty() ? nullptr : importer.find(frame.scope, name);
    if (in && in->ints) std::ranges::for_each(in->ints->values, look);
    if (in && in->value) std::ranges::for_each(in->value.shape(), look);
  }
  return choices_of(std::move(found));
}

// Why there is no rule.
Refused no_rule(const NodeProto& n) {
  const std::string_view domain = plain_domain(n.domain);
  if (domain.starts_with("ai.onnx."))
    return Refused(Refusal::foreign_domain, formatted("the ops of the domain {} are not supported", domain));
  if (n.op.starts_with("String") || n.op == "RegexFullMatch")
    return Refused(Refusal::not_a_tensor, "strings are not supported");
  return Refused(Refusal::missing_op, "there is no such op here yet");
}

}  // namespace

Importer::Importer(const ModelProto& model, TensorData& data, const ImportOptions& options,
                   NamedTensors host_inputs, DimChoices assumed)
    : model_(model),
      data_(data),
      options_(options),
      host_inputs_(std::move(host_inputs)),
      assumed_(std::move(assumed)),
      scope_{.graph = &graph_} {
  if (!model.graph.name.empty()) graph_.name = model.graph.name;
}

Imports Importer::run() {
  Frame frame{.scope = scope_, .opsets = model_.opsets};
  check_opset(opset(frame, ""));
  collect_functions();
  collect_input_symbols();
  add_initializers(scope_, model_.graph);
  check_given_lengths();
  collect_varying_sizes();
  declare_inputs();
  check_given_symbols();
  for (const auto& [name, dim] : options_.symbols) dim.collect_symbols(symbols_);
  nodes(frame, model_.graph.nodes);
  declare_outputs();
  return {std::move(graph_),
          std::move(weights_),
          std::move(host_inputs_),
          std::move(types_),
          std::move(lengths_),
          std::move(problems_),
          random_};
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

int64_t Importer::nodes_left() const { return kMaxNodes - translated_; }

bool Importer::is_own(std::string_view domain) { return plain_domain(domain).empty(); }

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
    if (e.kind() == ErrorKind::out_of_memory) throw;  // says nothing about the node
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
  const auto attempt = [&](const DimChoices& choices) {
    Call call(*this, frame, n);
    call.assume(choices);
    if (!domain.empty() || !call.only_tensors() || !fold_ints(call)) {
      if (rule) {
        rule(call);
      } else {
        import_one_to_one(*same, call);
      }
    }
    call.expect_known_attributes();
    return call.take_outputs();
  };
  std::vector<Imported> outputs = fitted(frame, n, attempt);
  made_ += frame.scope.graph->size() - first_node;
  if (made_ > kMaxMade) {
    throw TooMuch(ErrorKind::unsupported,
                  formatted("the nodes of the model become more than {} of ours", kMaxMade));
  }
  bind_outputs(frame, n, std::move(outputs), first_node);
}

// The node as it is or, if its inputs do not fit each other because of slices that are moved to the ends of
// their axes, for the sizes that let them fit.
std::vector<Imported> Importer::fitted(Frame& frame, const NodeProto& n, const Attempt& attempt) {
  try {
    return attempt({});
  } catch (const TooMuch&) {
    throw;
  } catch (const Refused&) {
    throw;
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;
    for (const DimChoices& choices : possible_choices(*this, frame, n)) {
      spend(size_of(n));
      try {
        std::vector<Imported> outputs = attempt(choices);
        newly_assumed_.insert(choices.begin(), choices.end());
        return outputs;
      } catch (const TooMuch&) {
        throw;
      } catch (const Error&) {
        // Nor do they fit for these.
      }
    }
    throw;
  }
}

void Importer::bind_outputs(Frame& frame, const NodeProto& n, std::vector<Imported> outputs,
                            int32_t first_node) {
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    const Imported& out = outputs[i];
    if (!n.outputs[i].empty() && !out.failed && !out.ints && !out.value && out.is_tensor())
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

Imported Importer::derived(Frame& frame, const NodeProto& node, std::string_view op,
                           std::vector<Imported> inputs, std::vector<AttributeProto> attributes) {
  static const std::vector<OpsetId> opsets = {{.domain = "", .version = 13}};
  Scope scope{.graph = frame.scope.graph, .outer = &frame.scope};
  const std::string name = node_name(node);
  NodeProto made{.outputs = {"made"}, .name = name, .op = op, .attributes = std::move(attributes)};
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names.push_back(std::to_string(i));
  for (size_t i = 0; i < inputs.size(); ++i) {
    made.inputs.push_back(names[i]);
    scope.values.emplace(names[i], std::move(inputs[i]));
  }
  Frame inner{.scope = scope, .opsets = opsets, .prefix = frame.prefix, .depth = frame.depth};
  translate(inner, made);
  return scope.values.at("made");
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
  inner.prefix = nested_prefix(frame.prefix, node_name(n));
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

Imports import_model(const ModelProto& model, TensorData& data, const ImportOptions& options) {
  constexpr int kMostAssumed = 8;
  NamedTensors host_inputs;
  DimChoices assumed;
  std::optional<Imports> fitting;
  for (int with_more = 0;;) {
    Importer importer(model, data, options, host_inputs, assumed);
    Imports imports = importer.run();
    if (!importer.newly_needed().empty()) {
      for (const std::string& name : importer.newly_needed()) host_inputs[name] = options.values.at(name);
      continue;
    }
    // What was assumed for one node may be in the way of another.
    if (fitting && !imports.problems.empty()) return *std::move(fitting);
    if (importer.newly_assumed().empty() || ++with_more > kMostAssumed) return imports;
    assumed.insert(importer.newly_assumed().begin(), importer.newly_assumed().end());
    if (imports.problems.empty()) fitting = std::move(imports);
  }
}

}  // namespace rlx::onnx
