#include "runtime/derivation.h"

#include <map>
#include <vector>

#include "base/format.h"
#include "ir/op.h"

namespace rlx {
namespace {

constexpr int64_t kMostElements = 64;  // of a constant: attribute_text leaves out the values of larger ones

class Derivation {
 public:
  explicit Derivation(const Graph& graph) : graph_(graph) {}

  // False if the text would leave something out.
  bool add(int32_t id) {
    if (numbers_.contains(id)) return true;
    const Node& n = graph_.node(id);
    std::string line;
    if (n.op->is(LeafKind::param)) {
      line = formatted("'{}' {}", n.name, n.outputs[0].text());
    } else {
      for (ValueId v : n.inputs) {
        if (!v.is_absent() && !add(v.node)) return false;
      }
      line = n.op->name();
      for (const auto& [name, value] : attributes(*n.op)) {
        const auto* tensor = std::get_if<Tensor>(&value);
        if ((tensor && tensor->elements() > kMostElements) ||
            std::holds_alternative<std::shared_ptr<const Graph>>(value))
          return false;
        line += formatted(" {}={}", name, attribute_text(value));
      }
      for (ValueId v : n.inputs)
        line += v.is_absent() ? " -" : formatted(" #{}:{}", numbers_.at(v.node), v.output);
    }
    numbers_.emplace(id, numbers_.size());
    text_ += line + "\n";
    return true;
  }

  const std::string& text() const { return text_; }

 private:
  const Graph& graph_;
  std::map<int32_t, size_t> numbers_;
  std::string text_;
};

}  // namespace

std::string derivation(const Graph& graph, ValueId value) {
  Derivation made(graph);
  if (!made.add(value.node)) return "";
  return made.text() + formatted("output {}", value.output);
}

}  // namespace rlx
