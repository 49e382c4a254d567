// Walks an ONNX graph and builds ours: finds the rule of each node, keeps what is known of each value, and
// collects everything that cannot be done, so that a user sees all of it at once.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/imported.h"
#include "import/onnx/problem.h"
#include "import/onnx/proto.h"
#include "import/onnx/tensor_data.h"
#include "ir/reference.h"
#include "rlx/graph.h"
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
  std::vector<AttributeProto> attributes = {};
  std::string prefix = {};  // of node names
  int depth = 0;            // of functions and sub-graphs
};

struct ImportOptions {
  // Values of graph inputs that may be needed to know a shape.
  NamedTensors values = {};
  // What stands for a symbol of the file's shapes.
  std::map<std::string, Dim> symbols = {};
};

struct Imports {
  Graph graph;
  NamedTensors weights;
  NamedTensors host_inputs;  // those of ImportOptions::values that were needed, and are no inputs any more
  std::map<std::string, ElementType> types;  // of inputs and outputs
  std::vector<ImportProblem> problems;
};

class Importer {
 public:
  Importer(const ModelProto& model, TensorData& data, const ImportOptions& options, NamedTensors host_inputs);

  Imports run();
  // Inputs whose values were needed and not known to be constant: the caller starts again with them.
  const std::set<std::string>& newly_needed() const { return newly_needed_; }

  // --- For Call ---

  int64_t opset(const Frame& frame, std::string_view domain) const;
  Imported* find(Scope& scope, std::string_view name);
  TensorData& data() { return data_; }
  // A constant if it is small, otherwise a param.
  Imported leaf(Graph& graph, std::string_view name, const TensorProto& tensor);
  // A tensor that depends on constants and weights alone.
  std::optional<Tensor> constant(const Value& value);
  // For a value that must be known: finds the input that it depends on, so that importing can start again
  // with that input's value, and throws.
  [[noreturn]] void need_host_value(const Value& value, std::string_view what);

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
  // A sub-graph in place: its nodes join those around it.
  std::vector<Imported> inlined(Frame& frame, const GraphProto& proto);

 private:
  void declare_inputs();
  void add_initializers(Scope& scope, const GraphProto& graph);
  void nodes(Frame& frame, const std::vector<NodeProto>& nodes);
  void node(Frame& frame, const NodeProto& node);
  void translate(Frame& frame, const NodeProto& node);
  bool call_function(Frame& frame, const NodeProto& node);
  void bind_outputs(Frame& frame, const NodeProto& node, std::vector<Imported> outputs, int32_t first_node);
  void declare_outputs();
  Shape input_shape(const ValueInfo& info);
  Imported capture(Scope& scope, std::string_view name, const Imported& outer);
  void evaluate(const Graph& graph, int32_t node);

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
  // Values that have been computed while importing; no tensors where that cannot be done.
  std::map<std::pair<const Graph*, int32_t>, std::vector<RefTensor>> known_;
  int64_t translated_ = 0;
};

// Imports with the values of inputs that turn out to be needed.
Imports import_model(const ModelProto& model, TensorData& data, const ImportOptions& options);

}  // namespace rlx::onnx
