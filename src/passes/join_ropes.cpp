// Rotary embeddings of neighbouring slices of one value (q and k of a joint product) become one of the joint
// slice; each former result is a view of the joint one, which its readers read in place.
#include <algorithm>
#include <ranges>

#include "base/format.h"
#include "ops/attention/rope.h"
#include "ops/rearrange/slice.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace rlx {
namespace {

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : rewriter_(graph) {}

  Graph run() {
    const std::map<int32_t, std::vector<Part>> joints = find();
    for (int32_t id = 0; id < rewriter_.source().size(); ++id) {
      if (rewriter_.is_mapped({id, 0})) continue;
      if (const auto it = joints.find(id); it != joints.end()) {
        join(id, it->second);
      } else {
        rewriter_.copy(id);
      }
    }
    return remove_dead_code(rewriter_.finish());
  }

 private:
  // A rope and the elements [begin, end) of the last axis that it reads.
  struct Part {
    int32_t rope;
    int64_t begin, end;
  };

  // What ropes must have in common: what they are slices of, the tables, positions and attributes.
  std::string key_of(const Node& rope, ValueId source) const {
    std::string key = formatted("%{}:{}", source.node, source.output);
    for (const auto& [name, value] : attributes(*rope.op))
      key += formatted(" {}={}", name, attribute_text(value));
    for (size_t i = 1; i < rope.inputs.size(); ++i)
      key += formatted(" %{}:{}", rope.inputs[i].node, rope.inputs[i].output);
    return key;
  }

  // Sequences of parts that each begin where the one before ends, by their first rope in the graph, where all
  // that the joint one reads exists.
  std::map<int32_t, std::vector<Part>> find() const {
    const Graph& g = rewriter_.source();
    const auto used = uses(g);
    std::map<std::string, std::vector<Part>> groups;
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      const Node* const x = op_cast<Rope>(*n.op) ? &g.producer(n.inputs[0]) : nullptr;
      const auto* const slice = x ? op_cast<Slice>(*x->op) : nullptr;
      if (!slice || slice->step != 1 || !slice->start.is_static() || !slice->length.is_static()) continue;
      const int64_t rank = x->outputs[0].shape.rank();
      if (normal_axis(slice->axis, rank) != rank - 1) continue;
      // An output would be copied out of the joint result.
      const auto users = used.find({id, 0});
      if (users != used.end() && std::ranges::contains(users->second, -1)) continue;
      const int64_t begin = slice->start.value();
      groups[key_of(n, x->inputs[0])].push_back({id, begin, begin + slice->length.value()});
    }
    std::map<int32_t, std::vector<Part>> joints;
    for (auto& [key, parts] : groups) {
      std::ranges::stable_sort(parts, {}, &Part::begin);
      const auto touch = [](const Part& a, const Part& b) { return a.end == b.begin; };
      for (const auto& run : std::views::chunk_by(parts, touch)) {
        if (run.size() < 2) continue;
        joints[std::ranges::min(run, {}, &Part::rope).rope] = {run.begin(), run.end()};
      }
    }
    return joints;
  }

  void join(int32_t first, const std::vector<Part>& parts) {
    const Node& n = rewriter_.source().node(first);
    const ValueId source = rewriter_.source().producer(n.inputs[0]).inputs[0];
    std::vector<ValueId> inputs = {
        slice(rewriter_.mapped(source), parts.front().begin, parts.back().end, n.name + ".joined_input")};
    for (size_t i = 1; i < n.inputs.size(); ++i) inputs.push_back(rewriter_.mapped(n.inputs[i]));
    const ValueId joint = rewriter_.target().add(n.op, std::move(inputs), n.name + ".joined");
    for (const Part& p : parts) {
      rewriter_.map({p.rope, 0}, slice(joint, p.begin - parts.front().begin, p.end - parts.front().begin,
                                       rewriter_.source().node(p.rope).name));
    }
  }

  ValueId slice(ValueId x, int64_t begin, int64_t end, const std::string& name) {
    auto op = std::make_shared<Slice>();
    op->axis = -1;
    op->start = begin;
    op->length = end - begin;
    return rewriter_.target().add(op, {x}, name);
  }

  Rewriter rewriter_;
};

}  // namespace

Graph join_ropes(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace rlx
