#include "plan/plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/checked.h"
#include "base/format.h"

namespace rlx {
namespace {

std::vector<Lifetime> lifetimes(const Program& program) {
  const std::vector<Dispatch>& dispatches = program.dispatches;
  std::vector<Lifetime> lives(program.storages.size());
  for (size_t i = 0; i < dispatches.size(); ++i) {
    for (const Operand& o : dispatches[i].operands) {
      if (!o.present()) continue;
      Lifetime& life = lives[static_cast<size_t>(o.storage)];
      if (!life.used()) life.first = static_cast<int32_t>(i);
      life.last = static_cast<int32_t>(i);
    }
  }
  // The host reads words after the dispatches before that instruction.
  for (const Program::Work& work : program.work) {
    size_t end = work.first;
    for (const Instruction& i : work.code) {
      if (i.kind == Instruction::Kind::run) end = work.first + i.first + i.count;
      if (i.word == Instruction::kNoWord || end == 0) continue;
      Lifetime& life = lives[static_cast<size_t>(i.word)];
      if (life.used()) life.last = std::max(life.last, static_cast<int32_t>(end) - 1);
    }
  }
  return lives;
}

// What an iteration finds, the next one finds too; and what is read after a loop is kept from its first
// iteration on. Inner loops come before those around them.
void extend_over_loops(const Program& program, std::vector<Lifetime>& lives) {
  for (const Program::Work& work : program.work) {
    for (const Program::Loop& loop : work.loops) {
      const auto begin = static_cast<int32_t>(work.first + loop.first);
      const auto last = static_cast<int32_t>(work.first + loop.end) - 1;
      for (Lifetime& life : lives) {
        if (!life.used() || life.first > last || life.last < begin) continue;
        if (life.first < begin) life.last = std::max(life.last, last);
        if (life.last > last) life.first = std::min(life.first, begin);
      }
    }
  }
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

// Before any of it is allocated.
void check_memory(const Plan& plan, const Program& program, const Caps& caps) {
  const int64_t bytes = std::accumulate(plan.buffers.begin(), plan.buffers.end(), int64_t{0});
  if (caps.memory_bytes == 0 || bytes <= static_cast<int64_t>(caps.memory_bytes)) return;
  const Storage& largest = *std::ranges::max_element(program.storages, {}, [](const Storage& s) {
    return s.leaf && *s.leaf != LeafKind::input ? int64_t{-1} : s.bytes;
  });
  fail(ErrorKind::out_of_memory,
       "the plan needs {} bytes for inputs and intermediates, but the device '{}' has {}; the largest of "
       "them, of {} "
       "bytes, belongs to the node '{}'",
       bytes, caps.adapter, caps.memory_bytes, largest.bytes,
       largest.node < 0 ? "" : program.names[static_cast<size_t>(largest.node)].name);
}

}  // namespace

Plan make_plan(const Program& program, const std::vector<Placement>& fixed, int32_t fixed_buffers,
               const Caps& caps, const PlanOptions& options) {
  Plan plan;
  plan.fixed_buffers = fixed_buffers;
  plan.placements = fixed;
  const size_t count = program.storages.size();
  const auto max_bytes = static_cast<int64_t>(caps.max_buffer_bytes);

  std::vector<Lifetime> lives = lifetimes(program);
  const auto steps = static_cast<int32_t>(program.dispatches.size());
  for (const Program::Output& out : program.outputs) {
    Lifetime& life = lives[static_cast<size_t>(program.operand(out).storage)];
    if (!life.used()) life.first = 0;  // a leaf, or an empty tensor
    life.last = steps;
  }
  extend_over_loops(program, lives);
  // Inputs, tables and words for overflow stay for the life of the plan.
  std::vector<bool> table(count), input(count), overflow(count), temporary(count);
  for (size_t s = 0; s < count; ++s) {
    input[s] = program.storages[s].leaf == LeafKind::input;
    table[s] = program.storages[s].table != nullptr;
    overflow[s] = program.storages[s].overflow;
    temporary[s] = program.storages[s].is_intermediate() && lives[s].used();
    if (table[s] || input[s] || overflow[s] || (options.keep_all && temporary[s])) lives[s] = {0, steps};
  }
  const auto place = [&](const std::vector<bool>& wanted, bool share) {
    const std::vector<Block> blocks = make_blocks(program, program.dispatches, lives, wanted, share);
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
    return std::pair(bytes, largest_live_sum(blocks, program.dispatches.size() + 1));
  };
  plan.input_bytes = place(input, false).first;
  plan.table_bytes = place(table, false).first;
  place(overflow, false);
  std::tie(plan.arena_bytes, plan.lower_bound_bytes) = place(temporary, !options.keep_all);
  check_memory(plan, program, caps);

  for (const Dispatch& d : program.dispatches) {
    plan.first_bound.push_back(plan.dispatches.size());
    for (BoundDispatch& b : bind_dispatch(d, plan.placements, caps)) plan.dispatches.push_back(std::move(b));
  }
  plan.first_bound.push_back(plan.dispatches.size());
  for (Lifetime& life : lives) {
    if (!life.used()) continue;
    const auto bound = [&](int32_t dispatch) {
      return static_cast<int32_t>(plan.first_bound[static_cast<size_t>(dispatch)]);
    };
    life = {bound(life.first),
            life.last < steps ? std::max(bound(life.first), bound(life.last + 1) - 1) : bound(steps)};
  }
  plan.lives = std::move(lives);
  return plan;
}

std::string to_text(const std::vector<BoundDispatch>& dispatches,
                    const std::vector<Program::NodeName>& names) {
  std::string out;
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const BoundDispatch& d = dispatches[i];
    int64_t bytes = 0;
    for (const BoundRange& r : d.ranges) bytes += r.bytes;
    const std::string variant = d.variant.text();
    const std::string kernel = d.kernel->name + (variant.empty() ? "" : " [" + variant + "]");
    out += formatted("  {:4}  {:28} {:34} {}x{}x{}  {} bindings, {} bytes\n", i,
                     names[static_cast<size_t>(d.node)].name, kernel, d.grid[0], d.grid[1], d.grid[2],
                     d.ranges.size(), bytes);
  }
  return out;
}

}  // namespace rlx
