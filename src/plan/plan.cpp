#include "plan/plan.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/format.h"
#include "plan/arena.h"

namespace rlx {
namespace {

std::vector<Lifetime> lifetimes(const std::vector<Dispatch>& dispatches, size_t storages) {
  std::vector<Lifetime> lives(storages);
  for (size_t i = 0; i < dispatches.size(); ++i) {
    for (const Operand& o : dispatches[i].operands) {
      if (!o.present()) continue;
      Lifetime& life = lives[static_cast<size_t>(o.storage)];
      if (!life.used()) life.first = static_cast<int32_t>(i);
      life.last = static_cast<int32_t>(i);
    }
  }
  return lives;
}

// Storages that share one piece of memory (in-place results); a storage alone is a block of one.
struct Block {
  int64_t bytes = 0;
  Lifetime life;
  std::vector<int32_t> storages;
};

bool may_share(const Dispatch& d, const Dispatch::InPlace& pair, const Program& program,
               const std::vector<Lifetime>& lives, int32_t now) {
  const Operand& out = d.operands[static_cast<size_t>(pair.output)];
  const Operand& in = d.operands[static_cast<size_t>(pair.input)];
  if (!in.present() || in.storage == out.storage) return false;
  const Storage& source = program.storages[static_cast<size_t>(in.storage)];
  const Storage& target = program.storages[static_cast<size_t>(out.storage)];
  return source.is_intermediate() && target.is_intermediate() && source.bytes == target.bytes &&
         lives[static_cast<size_t>(in.storage)].last == now &&
         lives[static_cast<size_t>(out.storage)].first == now && in.view.offset == 0 && out.view.offset == 0;
}

std::vector<Block> make_blocks(const Program& program, const std::vector<Dispatch>& dispatches,
                               const std::vector<Lifetime>& lives, const std::vector<bool>& wanted,
                               bool share) {
  std::vector<int32_t> owner(program.storages.size());  // the storage whose block this one joins
  std::iota(owner.begin(), owner.end(), 0);
  if (share) {
    for (size_t i = 0; i < dispatches.size(); ++i) {
      for (const Dispatch::InPlace& pair : dispatches[i].in_place) {
        const Dispatch& d = dispatches[i];
        if (!may_share(d, pair, program, lives, static_cast<int32_t>(i))) continue;
        const auto in = static_cast<size_t>(d.operands[static_cast<size_t>(pair.input)].storage);
        const auto out = static_cast<size_t>(d.operands[static_cast<size_t>(pair.output)].storage);
        if (!wanted[in] || !wanted[out] || owner[out] != static_cast<int32_t>(out)) continue;
        owner[out] = owner[in];
        break;
      }
    }
  }
  std::vector<Block> blocks(program.storages.size());
  for (size_t s = 0; s < blocks.size(); ++s) {
    if (!wanted[s] || !lives[s].used()) continue;
    Block& block = blocks[static_cast<size_t>(owner[s])];
    block.bytes = std::max(block.bytes, program.storages[s].bytes);
    block.life.first = block.life.used() ? std::min(block.life.first, lives[s].first) : lives[s].first;
    block.life.last = std::max(block.life.last, lives[s].last);
    block.storages.push_back(static_cast<int32_t>(s));
  }
  std::erase_if(blocks, [](const Block& b) { return b.storages.empty(); });
  std::ranges::stable_sort(blocks, std::greater<>(), &Block::bytes);
  return blocks;
}

int64_t largest_live_sum(const std::vector<Block>& blocks, size_t steps) {
  std::vector<int64_t> change(steps + 1, 0);
  for (const Block& b : blocks) {
    change[static_cast<size_t>(b.life.first)] += round_up(b.bytes, kBindingAlignment);
    change[static_cast<size_t>(b.life.last) + 1] -= round_up(b.bytes, kBindingAlignment);
  }
  int64_t sum = 0;
  int64_t most = 0;
  for (int64_t c : change) most = std::max(most, sum += c);
  return most;
}

std::vector<BoundDispatch> bind_all(const std::vector<Dispatch>& dispatches,
                                    const std::vector<Dispatch>* largest,
                                    const std::vector<Placement>& placements, const Caps& caps) {
  std::vector<BoundDispatch> bound;
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const Dispatch& d = dispatches[i];
    Pattern like;  // of no operand: nothing
    if (largest && largest->size() == dispatches.size() && (*largest)[i].kernel == d.kernel) {
      like = walk_patterns((*largest)[i]);
    }
    for (BoundDispatch& b : bind_dispatch(d, placements, caps, &like)) bound.push_back(std::move(b));
  }
  return bound;
}

}  // namespace

Plan make_plan(const Program& program, const std::vector<Placement>& fixed, int32_t fixed_buffers,
               const Caps& caps, const PlanOptions& options) {
  Plan plan;
  plan.fixed_buffers = fixed_buffers;
  plan.placements = fixed;
  const size_t count = program.storages.size();
  const auto max_bytes = static_cast<int64_t>(caps.max_buffer_bytes);

  std::vector<Lifetime> main_lives = lifetimes(program.main, count);
  std::vector<Lifetime> load_lives = lifetimes(program.load, count);
  const auto steps = static_cast<int32_t>(program.main.size());
  const auto load_steps = static_cast<int32_t>(program.load.size());
  for (const Program::Output& out : program.outputs) {
    Lifetime& life = main_lives[static_cast<size_t>(out.operand.storage)];
    if (!life.used()) life.first = 0;  // a leaf, an empty tensor, or made by the load phase
    life.last = steps;
  }
  // Inputs, tables, and what the load phase hands to the main phase stay for the life of the plan.
  std::vector<bool> derived(count), input(count), main_temp(count), load_temp(count);
  for (size_t s = 0; s < count; ++s) {
    const bool temp = program.storages[s].is_intermediate();
    input[s] = program.storages[s].leaf == LeafKind::input;
    derived[s] = program.storages[s].table ||
                 (temp && load_lives[s].used() && (main_lives[s].used() || options.keep_all));
    load_temp[s] = temp && load_lives[s].used() && !derived[s];
    main_temp[s] = temp && !load_lives[s].used() && main_lives[s].used();
    if (derived[s] || input[s]) load_lives[s] = {0, load_steps};
    if (options.keep_all && main_temp[s]) main_lives[s] = {0, steps};
  }
  const auto place = [&](const std::vector<Dispatch>& dispatches, const std::vector<Lifetime>& lives,
                         const std::vector<bool>& wanted, bool share) {
    const std::vector<Block> blocks = make_blocks(program, dispatches, lives, wanted, share);
    Arena arena(fixed_buffers + static_cast<int32_t>(plan.buffers.size()), max_bytes);
    for (const Block& block : blocks) {
      const Placement at = arena.place(block.bytes, block.life);
      for (int32_t s : block.storages) {
        plan.placements[static_cast<size_t>(s)] = {at.buffer, at.offset,
                                                   program.storages[static_cast<size_t>(s)].bytes};
      }
    }
    const std::vector<int64_t> sizes = arena.sizes();
    plan.buffers.insert(plan.buffers.end(), sizes.begin(), sizes.end());
    const int64_t bytes = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    return std::pair(bytes, largest_live_sum(blocks, dispatches.size() + 1));
  };
  plan.input_bytes = place(program.load, load_lives, input, false).first;
  plan.derived_bytes = place(program.load, load_lives, derived, false).first;
  const auto [bytes, bound] = place(program.main, main_lives, main_temp, !options.keep_all);
  plan.arena_bytes = bytes;
  plan.lower_bound_bytes = bound;
  place(program.load, load_lives, load_temp, true);

  plan.load =
      bind_all(program.load, options.largest ? &options.largest->load : nullptr, plan.placements, caps);
  plan.main =
      bind_all(program.main, options.largest ? &options.largest->main : nullptr, plan.placements, caps);
  return plan;
}

std::string print(const Plan& plan, const Graph& graph) {
  std::string out;
  const auto phase = [&](const char* title, const std::vector<BoundDispatch>& dispatches) {
    if (dispatches.empty()) return;
    out += formatted("{} ({} dispatches)\n", title, dispatches.size());
    for (size_t i = 0; i < dispatches.size(); ++i) {
      const BoundDispatch& d = dispatches[i];
      const Node& n = graph.node(d.node);
      int64_t bytes = 0;
      for (const BoundRange& r : d.ranges) bytes += r.bytes;
      const std::string kernel = d.kernel->name + (d.variant.empty() ? "" : " [" + d.variant + "]");
      out += formatted("  {:4}  {:28} {:34} {}x{}x{}  {} bindings, {} bytes\n", i, n.name, kernel, d.grid[0],
                       d.grid[1], d.grid[2], d.ranges.size(), bytes);
    }
  };
  phase("load phase", plan.load);
  phase("each run", plan.main);
  out += formatted(
      "memory: inputs {} bytes, intermediates {} bytes (lower bound {}), derived weights {} bytes\n",
      plan.input_bytes, plan.arena_bytes, plan.lower_bound_bytes, plan.derived_bytes);
  return out;
}

}  // namespace rlx
