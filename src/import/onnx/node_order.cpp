#include "import/onnx/node_order.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/fail.h"
#include "rlx/ops/order.h"

namespace rlx::onnx {
namespace {

// One node needs another of the same list.
struct Need {
  size_t node;
  size_t other;
};

// Names that see each other: those of a graph, and of the graphs around it. Each reference is resolved once,
// to the innermost graph that has the name, and is a need of that graph's node around the reference.
class Sorter {
 public:
  explicit Sorter(std::string_view file) : file_(file) {}

  void graph(GraphProto& g) {
    std::vector<std::string_view> given;
    for (const ValueInfo& info : g.inputs) given.push_back(info.name);
    for (const TensorProto& t : g.initializers) given.push_back(t.name);
    std::vector<std::string_view> results;
    for (const ValueInfo& info : g.outputs) results.push_back(info.name);
    list(given, g.nodes, results);
  }

  void list(const std::vector<std::string_view>& given, std::vector<NodeProto>& nodes,
            const std::vector<std::string_view>& results) {
    const size_t level = levels_.size();
    levels_.push_back({});
    std::vector<std::string_view> defined;
    const auto define = [&](std::string_view name, size_t node) {
      if (name.empty()) return;
      std::vector<Definition>& all = definitions_[name];
      if (!all.empty() && all.back().level == level)
        return;  // the first counts; importing tells of the other
      all.push_back({level, node});
      defined.push_back(name);
    };
    for (const std::string_view name : given) define(name, kGiven);
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string_view name : nodes[i].outputs) define(name, i);
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      levels_[level].at = i;
      for (const std::string_view name : nodes[i].inputs) refer(name);
      for (AttributeProto& a : nodes[i].attributes) {
        if (a.g) graph(*a.g);
      }
    }
    // A sub-graph may return a value from around it.
    for (const std::string_view name : results) refer(name, level);
    const std::vector<Need> needs = std::move(levels_[level].needs);
    levels_.pop_back();
    for (const std::string_view name : defined) definitions_[name].pop_back();
    if (!std::ranges::all_of(needs, [](const Need& n) { return n.other < n.node; })) sort(nodes, needs);
  }

 private:
  struct Definition {
    size_t level;
    size_t node;
  };
  struct Level {
    size_t at = 0;  // the node that is looked at
    std::vector<Need> needs = {};
  };
  static constexpr size_t kGiven = SIZE_MAX;

  // Only definitions below the level `below` count.
  void refer(std::string_view name, size_t below = SIZE_MAX) {
    const auto it = definitions_.find(name);
    if (it == definitions_.end() || it->second.empty()) return;  // importing tells of it
    const Definition& found = it->second.back();
    if (found.level >= below || found.node == kGiven) return;
    Level& level = levels_[found.level];
    level.needs.push_back({level.at, found.node});
  }

  // Depth first, without recursion: chains are as long as files.
  void sort(std::vector<NodeProto>& nodes, const std::vector<Need>& needs) const {
    std::vector<size_t> first(nodes.size() + 1, 0);  // of each node in `others`
    for (const Need& n : needs) ++first[n.node + 1];
    for (size_t i = 0; i < nodes.size(); ++i) first[i + 1] += first[i];
    std::vector<size_t> others(needs.size());
    std::vector<size_t> next(first.begin(), first.end() - 1);
    for (const Need& n : needs) others[next[n.node]++] = n.other;

    enum class State : char { unseen, open, done };
    std::vector<State> states(nodes.size(), State::unseen);
    next.assign(first.begin(), first.end() - 1);
    std::vector<size_t> order;
    std::vector<size_t> path;
    const auto open = [&](size_t i) {
      if (states[i] == State::open) cycle(nodes, path, i);
      if (states[i] == State::done) return;
      states[i] = State::open;
      path.push_back(i);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      open(i);
      while (!path.empty()) {
        const size_t at = path.back();
        if (next[at] < first[at + 1]) {
          open(others[next[at]++]);
        } else {
          states[at] = State::done;
          order.push_back(at);
          path.pop_back();
        }
      }
    }
    std::vector<NodeProto> sorted;
    sorted.reserve(nodes.size());
    for (const size_t i : order) sorted.push_back(std::move(nodes[i]));
    nodes = std::move(sorted);
  }

  // The end of the path, from `from` on: each node needs the next one, and the last needs the first.
  [[noreturn]] void cycle(const std::vector<NodeProto>& nodes, const std::vector<size_t>& path,
                          size_t from) const {
    constexpr size_t kMostNamed = 8;
    const auto start = std::ranges::find(path, from);
    const auto count = static_cast<size_t>(path.end() - start);
    std::string names;
    for (size_t i = 0; i < std::min(count, kMostNamed); ++i) {
      const NodeProto& n = nodes[*(start + static_cast<std::ptrdiff_t>(i))];
      names += formatted("{}'{}' ({})", i == 0 ? "" : ", ", excerpt(node_name(n)), excerpt(n.op));
    }
    if (count > kMostNamed) names += formatted(" and {} more", count - kMostNamed);
    if (count == 1)
      fail(ErrorKind::invalid_file, "{}: the node {} needs an output of its own: it is a cycle", file_,
           names);
    fail(ErrorKind::invalid_file, "{}: {} nodes are a cycle, in which each needs an output of the next: {}",
         file_, count, names);
  }

  std::string_view file_;
  std::vector<Level> levels_;
  std::unordered_map<std::string_view, std::vector<Definition>> definitions_;
};

}  // namespace

void sort_nodes(ModelProto& model, std::string_view file) {
  Sorter(file).graph(model.graph);
  for (FunctionProto& f : model.functions) Sorter(file).list(f.inputs, f.nodes, {});
}

}  // namespace rlx::onnx
