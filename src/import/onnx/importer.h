// Walks an ONNX graph and builds ours: finds the rule of each node, keeps what is known of each value, and
// collects everything that cannot be done, so that a user sees all of it at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "import/onnx/imported.h"
#include "import/onnx/problem.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor_data.h"
#include "ir/dim_choices.h"
#include "ir/reference.h"
#include "rlx/graph.h"
#include "rlx/ops/random.h"
#include "rlx/tensor.h"

namespace rlx::onnx {

// The names of one ONNX graph, and the graph of ours that its nodes are added to. A sub-graph sees the names
// around it; what it reads of them becomes an input of its body.
struct Scope {
  Graph* graph = nullptr;
  Scope* outer = nullptr;
  std::map<std::string, Imported, std::less<>> values = {};
  // What became an input of the body, in that order: its name, and the value in the outer graph.
  std::vector<std::pair<std::string, Value>> captured = {};
};

// Where a node is: the names it sees, the versions of the op sets, and in a function what the call gave it.
struct Frame {
  Scope& scope;
  const std::vector<OpsetId>& opsets;
  std::map<std::string_view, const AttributeProto*> attributes = {};
  std::string prefix = {};  // of node names
  int depth = 0;            // of functions and sub-graphs
};

struct ImportOptions {
  // Values of graph inputs that may be needed to know a shape.
  NamedTensors values = {};
  // What stands for a symbol of the file's shapes.
  std::map<std::string, Dim, std::less<>> symbols = {};
  // The largest values of symbols, where they are known.
  std::map<std::string, int64_t> capacities = {};
  // As in LoadOptions.
  std::map<std::string, std::optional<int64_t>, std::less<>> lengths = {};
  uint64_t seed = 0;
  std::string seed_input = {};
};

struct Imports {
  Graph graph;
  NamedTensors weights;
  NamedTensors host_inputs;  // those of ImportOptions::values that were needed, and are no inputs any more
  std::map<std::string, ElementType> types;  // of inputs and outputs
  // Of those that are sequences; nothing for optionals that hold nothing.
  std::map<std::string, std::optional<int64_t>> lengths;
  std::vector<ImportProblem> problems;
  bool random = false;  // it draws random numbers
};

// Thrown for a node of which an input already failed: one problem is enough.
struct Skipped {};

class Importer {
 public:
  Importer(const ModelProto& model, TensorData& data, const ImportOptions& options, NamedTensors host_inputs,
           DimChoices assumed);

  Imports run();
  // Inputs whose values were needed and not known to be constant: the caller starts again with them.
  const std::set<std::string>& newly_needed() const { return newly_needed_; }
  // What sizes must be so that nodes fit together, beyond what was assumed: likewise.
  const DimChoices& newly_assumed() const { return newly_assumed_; }

  // --- For Call ---

  int64_t opset(const Frame& frame, std::string_view domain) const;
  static bool is_own(std::string_view domain);  // ONNX's
  Imported* find(Scope& scope, std::string_view name);
  // Read once, however often a function is called.
  const Tensor& tensor(const TensorProto& proto);
  // A constant if it is small, otherwise a param.
  Imported leaf(Graph& graph, std::string_view name, const Tensor& tensor, ElementType type);
  // The same once for each graph, however often a function or the body of a loop is put in place.
  Imported leaf(Graph& graph, std::string_view name, const TensorProto& proto);
  // For a size that only the run knows; unlike all others of the model.
  std::string fresh_symbol(std::string_view what);
  // Counts what is computed and kept while importing, in units of about a hundred nanoseconds or a hundred
  // bytes. Small files can ask for much: importing ends with an error when it is too much.
  void spend(int64_t work);
  // A tensor that depends on constants and weights alone.
  std::optional<Tensor> constant(const Value& value);
  // For a node that draws random numbers: its seed and stream, where the file gives no seed.
  struct Stream {
    Seed seed;
    int64_t stream = 0;
  };
  Stream draw(Frame& frame, std::optional<uint64_t> seed);
  // For a value that must be known: finds the input that it depends on, so that importing can start again
  // with that input's value, and throws.
  [[noreturn]] void need_host_value(const Value& value, std::string_view what);
  // If inputs whose values are given decide this one, importing starts again with them.
  void want_host_value(const Value& value) { static_cast<void>(behind(value)); }
  // The same for the condition of branches of which one cannot be imported: the other may be all that is
  // needed. Returns if no input decides.
  void need_condition(const Value& condition);
  size_t problem_count() const { return problems_.size(); }
  // A size or bound of a slice without the minima that make no difference: because of a capacity, or because
  // the model would not fit together otherwise. The slice is an error of a run in which it does not hold.
  Dim settled(const Dim& dim) const;
  // The value where its shape must be this one; an empty Value if it never is. Where it is so for some sizes
  // only, others are an error of the run.
  Value agreed(const Value& value, const Shape& shape);

  // --- For control flow ---

  struct BodyInput {
    ElementType type;
    TensorType tensor;                                    // cast if the type is carried in another
    std::optional<Ints> known = {};                       // then it is no input of the body
    std::optional<std::vector<BodyInput>> elements = {};  // of a sequence: each is an input
    bool absent = false;                                  // an optional that holds nothing
  };
  struct Body {
    std::unique_ptr<Graph> graph = std::make_unique<Graph>();
    std::vector<Imported> outputs = {};                        // in `graph`, not declared there yet
    std::vector<std::pair<std::string, Value>> captured = {};  // names, and values in the outer graph
  };
  // A sub-graph with these inputs; the captured values are inputs after them, first those that are given.
  Body body(Frame& frame, const GraphProto& proto, const std::vector<BodyInput>& inputs,
            const std::vector<std::pair<std::string, Value>>& captured = {});
  // Another input of a body. They go by their order: the name is changed if it is taken.
  static Value body_input(Graph& graph, const std::string& name, const TensorType& type);
  // A sub-graph in place: its nodes join those around it. `part` comes before their names.
  std::vector<Imported> inlined(Frame& frame, const GraphProto& proto,
                                const std::vector<Imported>& inputs = {}, const std::string& part = "");
  // What a node of opset 13 makes of these: for rules that stand for several nodes. It has the name of
  // `node`.
  Imported derived(Frame& frame, const NodeProto& node, std::string_view op, std::vector<Imported> inputs,
                   std::vector<AttributeProto> attributes = {});
  // Known integers as a tensor on the device, and so the elements of a sequence.
  void materialize(Frame& frame, Imported& value);
  // Whether a sub-graph reads a sequence, or an optional that holds nothing, from around it.
  bool captures_lists(Scope& scope, const GraphProto& proto);
  // How many nodes of the file may still be imported.
  int64_t nodes_left() const;
  // Random numbers that are drawn from here on, as they are now.
  int64_t streams() const { return streams_; }
  void restart_streams(int64_t at) { streams_ = at; }

 private:
  void declare_inputs();
  void check_given_lengths() const;
  void collect_varying_sizes();
  Imported declare_input(const ValueInfo& info);
  Imported declare_tensor(const ValueInfo& info, const std::string& name, std::optional<int64_t> index);
  int64_t given_length(const ValueInfo& info) const;
  void check_given_symbols() const;
  void collect_functions();
  void check_opset(int64_t version) const;
  void add_initializers(Scope& scope, const GraphProto& graph);
  void nodes(Frame& frame, const std::vector<NodeProto>& nodes);
  void node(Frame& frame, const NodeProto& node);
  void translate(Frame& frame, const NodeProto& node);
  using Attempt = std::function<std::vector<Imported>(const DimChoices&)>;
  std::vector<Imported> fitted(Frame& frame, const NodeProto& node, const Attempt& attempt);
  bool call_function(Frame& frame, const NodeProto& node);
  void bind_outputs(Frame& frame, const NodeProto& node, std::vector<Imported> outputs, int32_t first_node);
  void declare_outputs();
  void declare_output(const std::string& name, Imported value, std::set<std::string>& names);
  void collect_input_symbols();
  Dim symbol(const std::string& text);
  Shape input_shape(const ValueInfo& info, const std::string& name, std::optional<int64_t> index);
  std::string weight_name(std::string_view wanted);
  Value seed_input(Scope& scope);
  Imported capture(Scope& scope, std::string_view name, const Imported& outer);
  Imported body_value(Graph& graph, const std::string& name, const BodyInput& input);
  void evaluate(const Graph& graph, int32_t node);
  // What a value is computed from; inputs whose values are given count as needed from now on.
  struct Behind {
    std::string inputs;  // their names, as part of a sentence
    std::set<std::string> symbols;
  };
  Behind behind(const Value& value);

  const ModelProto& model_;
  TensorData& data_;
  const ImportOptions& options_;
  NamedTensors host_inputs_;
  std::set<std::string> newly_needed_;
  DimChoices assumed_, newly_assumed_;
  Graph graph_;
  Scope scope_;
  NamedTensors weights_;
  std::map<std::string, ElementType> types_;
  std::map<std::string, std::optional<int64_t>> lengths_;
  std::vector<ImportProblem> problems_;
  using FunctionId =
      std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload
  std::map<FunctionId, const FunctionProto*> functions_;
  std::set<std::string> symbols_;                          // that have a meaning
  std::map<std::string, Dim> named_dims_;                  // what the texts of dimensions stand for
  std::set<std::string, std::less<>> varying_;             // such texts, of sizes that differ in a sequence
  std::map<std::string, int64_t, std::less<>> numbering_;  // of names that are wanted more than once
  // Values that have been computed while importing, by node; no tensors where that cannot be done.
  using KnownValues = std::map<int32_t, std::vector<RefTensor>>;
  std::map<const Graph*, KnownValues> known_;
  std::map<const TensorProto*, Tensor> tensors_;  // as they are read
  std::map<std::pair<const Graph*, const TensorProto*>, Imported> leaves_;
  bool random_ = false;     // random numbers are drawn
  Value seed_;              // their input, if there is one
  int64_t streams_ = 0;     // of nodes without a seed
  int64_t translated_ = 0;  // nodes of the file, each time that a function is called
  int64_t made_ = 0;        // nodes of our own
  int64_t work_ = 0;
};

// Imports with the values of inputs that turn out to be needed.
Imports import_model(const ModelProto& model, TensorData& data, const ImportOptions& options);

}  // namespace rlx::onnx
