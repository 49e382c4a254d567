#include "plan/cones.h"

#include <algorithm>
#include <map>

#include "ops/rearrange/concat.h"
#include "plan/arena.h"

namespace rlx {
namespace {

using Params = std::set<int32_t>;

// The params that each dispatch depends on.
std::vector<Params> dependencies(const Program& program, const Graph& graph) {
  std::vector<Params> of_storage(program.storages.size());
  for (size_t s = 0; s < of_storage.size(); ++s) {
    if (program.storages[s].leaf == LeafKind::param) of_storage[s] = {static_cast<int32_t>(s)};
  }
  std::vector<Params> out(program.dispatches.size());
  for (const Program::Work& work : program.work) {
    const bool separate = op_cast<Concat>(*graph.node(work.node).op) != nullptr;
    Params all;
    const auto each_operand = [&](size_t i, auto&& f) {
      const Dispatch& d = program.dispatches[i];
      for (size_t o = 0; o < d.operands.size(); ++o) {
        if (d.operands[o].present())
          f(of_storage[static_cast<size_t>(d.operands[o].storage)], d.kernel->operands[o].out);
      }
    };
    for (size_t i = work.first; i < work.first + work.count; ++i) {
      each_operand(i, [&](const Params& params, bool written) {
        if (!written) out[i].insert(params.begin(), params.end());
      });
      all.insert(out[i].begin(), out[i].end());
      each_operand(i, [&](Params& params, bool written) {
        if (written) params.insert(out[i].begin(), out[i].end());
      });
    }
    if (separate) continue;
    // Dispatches of other ops may prepare memory for each other (zeros to add to).
    for (size_t i = work.first; i < work.first + work.count; ++i) {
      out[i] = all;
      each_operand(i, [&](Params& params, bool written) {
        if (written) params.insert(all.begin(), all.end());
      });
    }
  }
  return out;
}

}  // namespace

std::vector<Cone> find_cones(const Program& program, const Graph& graph) {
  const std::vector<Params> needed = dependencies(program, graph);
  std::vector<Params> groups;  // disjoint
  for (const Params& params : needed) {
    Params joined = params;
    std::erase_if(groups, [&](const Params& group) {
      const bool meets = std::ranges::any_of(group, [&](int32_t p) { return joined.contains(p); });
      if (meets) joined.insert(group.begin(), group.end());
      return meets;
    });
    groups.push_back(std::move(joined));
  }
  std::map<int32_t, size_t> group_of;
  std::map<size_t, Cone> cones;  // 0: of constants alone
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int32_t p : groups[g]) group_of[p] = g + 1;
  }
  for (size_t i = 0; i < needed.size(); ++i) {
    const size_t group = needed[i].empty() ? 0 : group_of.at(*needed[i].begin());
    Cone& cone = cones[group];
    if (group > 0) cone.params = groups[group - 1];
    cone.dispatches.push_back(i);
  }
  std::vector<Cone> out;
  for (auto& [group, cone] : cones) out.push_back(std::move(cone));
  return out;
}

std::vector<int64_t> place_cone(const Program& program, const Cone& cone, int32_t first_buffer,
                                const Caps& caps, std::vector<Placement>& placements) {
  std::map<int32_t, Lifetime> lives;
  for (size_t i = 0; i < cone.dispatches.size(); ++i) {
    for (const Operand& o : program.dispatches[cone.dispatches[i]].operands) {
      if (!o.present() || placements[static_cast<size_t>(o.storage)].buffer >= 0) continue;
      const bool given = program.storages[static_cast<size_t>(o.storage)].leaf.has_value();
      Lifetime& life =
          lives.try_emplace(o.storage, Lifetime{given ? 0 : static_cast<int32_t>(i), 0}).first->second;
      life.last = static_cast<int32_t>(i);
    }
  }
  std::vector<int32_t> order;
  for (const auto& [storage, life] : lives) order.push_back(storage);
  const auto bytes = [&](int32_t s) { return program.storages[static_cast<size_t>(s)].bytes; };
  std::ranges::stable_sort(order, std::greater<>(), bytes);
  Arena arena(first_buffer, static_cast<int64_t>(caps.max_buffer_bytes));
  for (int32_t s : order) placements[static_cast<size_t>(s)] = arena.place(bytes(s), lives.at(s));
  return arena.sizes();
}

}  // namespace rlx
