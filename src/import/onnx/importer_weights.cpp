// The importer, weights: initializers and tensors of attributes as constants, params or known integers.
#include "base/fail.h"
#include "import/onnx/importer.h"
#include "import/onnx/importer_parts.h"
#include "rlx/graph.h"

namespace rlx::onnx {
namespace {

// Larger ones become params: a constant is part of every print and every plan.
constexpr int64_t kMaxConstant = 64;

}  // namespace

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

Imported Importer::leaf(Graph& graph, std::string_view name, const TensorProto& proto) {
  const auto it = leaves_.find({&graph, &proto});
  if (it != leaves_.end()) return it->second;
  return leaves_.emplace(std::pair(&graph, &proto), leaf(graph, name, tensor(proto), proto.type))
      .first->second;
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
      imported = leaf(*scope.graph, t.name, t);
    } catch (const Refused& e) {
      problems_.push_back({e.why(), std::string(t.name), "initializer", e.what()});
      imported.failed = true;
    }
    scope.values.emplace(t.name, std::move(imported));
  }
}

}  // namespace rlx::onnx
