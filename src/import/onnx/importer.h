// Walks an ONNX graph and builds ours: finds the rule of each node, keeps what is known of each value, and
// collects everything that cannot be done, so that a user sees all of it at once.
#pragma once

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
  // As in LoadOptions.
  uint64_t seed = 0;
  std::string seed_input = {};
};

struct Imports {
  Graph graph;
  NamedTensors weights;
  NamedTensors host_inputs;  // those of ImportOptions::values that were needed, and are no inputs any more
  std::map<std::string, ElementType> types;  // of inputs and outputs
  std::vector<ImportProblem> problems;
  bool random = false;  // it draws random numbers
};

// Thrown for a node of which an input already failed: one problem is enough.
struct Skipped {};

class Importer {
 public:
  Importer(const ModelProto& model, TensorData& data, const ImportOptions& options, NamedTensors host_inputs);

  Imports run();
  // Inputs whose values were needed and not known to be constant: the caller starts again with them.
  const std::set<std::string>& newly_needed() const { return newly_needed_; }

  // --- For Call ---

  int64_t opset(const Frame& frame, std::string_view domain) const;
  static bool is_own(std::string_view domain);  // ONNX's
  Imported* find(Scope& scope, std::string_view name);
  // Of an attribute: read once, however often a function is called.
  const Tensor& tensor(const TensorProto& proto);
  // A constant if it is small, otherwise a param.
  Imported leaf(Graph& graph, std::string_view name, const Tensor& tensor, ElementType type);
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
  // The same for the condition of branches of which one cannot be imported: the other may be all that is
  // needed. Returns if no input decides.
  void need_condition(const Value& condition);
  size_t problem_count() const { return problems_.size(); }

  // --- For control flow ---

  struct BodyInput {
    ElementType type;
    TensorType tensor;               // cast if the type is carried in another
    std::optional<Ints> known = {};  // then it is no input of the body
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
  // A sub-graph in place: its nodes join those around it.
  std::vector<Imported> inlined(Frame& frame, const GraphProto& proto);

 private:
  void declare_inputs();
  void check_given_symbols() const;
  void collect_functions();
  void check_opset(int64_t version) const;
  void add_initializers(Scope& scope, const GraphProto& graph);
  void nodes(Frame& frame, const std::vector<NodeProto>& nodes);
  void node(Frame& frame, const NodeProto& node);
  void translate(Frame& frame, const NodeProto& node);
  bool call_function(Frame& frame, const NodeProto& node);
  void bind_outputs(Frame& frame, const NodeProto& node, std::vector<Imported> outputs, int32_t first_node);
  void declare_outputs();
  void collect_input_symbols();
  Dim symbol(const std::string& text);
  Shape input_shape(const ValueInfo& info);
  std::string weight_name(std::string_view wanted);
  Value seed_input(Scope& scope);
  Imported capture(Scope& scope, std::string_view name, const Imported& outer);
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
  Graph graph_;
  Scope scope_;
  NamedTensors weights_;
  std::map<std::string, ElementType> types_;
  std::vector<ImportProblem> problems_;
  using FunctionId =
      std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload
  std::map<FunctionId, const FunctionProto*> functions_;
  std::set<std::string> symbols_;                          // that have a meaning
  std::map<std::string, Dim> named_dims_;                  // what the texts of dimensions stand for
  std::map<std::string, int64_t, std::less<>> numbering_;  // of names that are wanted more than once
  // Values that have been computed while importing, by node; no tensors where that cannot be done.
  using KnownValues = std::map<int32_t, std::vector<RefTensor>>;
  std::map<const Graph*, KnownValues> known_;
  std::map<const TensorProto*, Tensor> tensors_;  // of attributes
  bool random_ = false;                           // random numbers are drawn
  Value seed_;                                    // their input, if there is one
  int64_t streams_ = 0;                           // of nodes without a seed
  int64_t translated_ = 0;                        // nodes of the file, each time that a function is called
  int64_t made_ = 0;                              // nodes of our own
  int64_t work_ = 0;
};

// Imports with the values of inputs that turn out to be needed.
Imports import_model(const ModelProto& model, TensorData& data, const ImportOptions& options);

}  // namespace rlx::onnx
