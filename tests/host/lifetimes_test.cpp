// Memory that is used again too early, found without a device: the dispatches and instructions of a program
// are followed as the host would run them, and each byte remembers whose contents it holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/format.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "plan/cones.h"
#include "rlx/graph.h"
#include "tests/support/graph_texts.h"
#include "tests/support/random_graph.h"

namespace rlx::testing {
namespace {

// Which storage's contents lie where.
class Memory {
 public:
  Memory(const Program& program, const std::vector<Placement>& placements)
      : program_(program), placements_(placements) {}

  void write(int32_t storage) {
    const Placement& place = placements_[static_cast<size_t>(storage)];
    if (place.buffer < 0 || place.bytes == 0) return;
    written_.insert(storage);
    std::vector<int32_t>& owners = buffers_[place.buffer];
    const auto begin = static_cast<size_t>(place.offset);
    const auto end = begin + static_cast<size_t>(place.bytes);
    if (owners.size() < end) owners.resize(end, -1);
    std::fill(owners.begin() + static_cast<std::ptrdiff_t>(begin),
              owners.begin() + static_cast<std::ptrdiff_t>(end), storage);
  }

  // Says who has overwritten what was written there; nothing was if a loop has made no iteration.
  void read(int32_t storage, const std::string& reader) {
    if (!written_.contains(storage)) return;
    const Placement& place = placements_[static_cast<size_t>(storage)];
    const std::vector<int32_t>& owners = buffers_[place.buffer];
    for (int64_t i = place.offset; i < place.offset + place.bytes; ++i) {
      const int32_t owner = owners[static_cast<size_t>(i)];
      if (owner == storage) continue;
      lost.insert(formatted("{} finds '{}' where storage {} of '{}' was", reader, name(owner), storage,
                            name(storage)));
      return;
    }
  }

  void run(const Dispatch& d) {
    for (const bool writes : {false, true}) {
      for (size_t o = 0; o < d.operands.size(); ++o) {
        if (!d.operands[o].present() || d.kernel->operands[o].out != writes) continue;
        if (writes) {
          write(d.operands[o].storage);
        } else {
          read(d.operands[o].storage,
               formatted("{} of '{}'", d.kernel->name, program_.names[static_cast<size_t>(d.node)].name));
        }
      }
    }
  }

  std::set<std::string> lost;

 private:
  std::string name(int32_t storage) const {
    const int32_t node = program_.storages[static_cast<size_t>(storage)].node;
    return node < 0 ? "" : program_.names[static_cast<size_t>(node)].name;
  }

  const Program& program_;
  const std::vector<Placement>& placements_;
  std::map<int32_t, std::vector<int32_t>> buffers_;
  std::set<int32_t> written_;
};

// Runs the program with decisions that come from a seed.
class Host {
 public:
  Host(const Program& program, const Plan& plan, uint32_t seed)
      : program_(program), memory_(program, plan.placements), random_(seed) {}

  std::set<std::string> run() {
    for (size_t s = 0; s < program_.storages.size(); ++s) {
      const Storage& storage = program_.storages[s];
      if (storage.leaf || storage.table || storage.overflow) memory_.write(static_cast<int32_t>(s));
    }
    for (const Program::Work& work : program_.work) {
      if (work.code.empty()) dispatch(work.first, work.count);
      std::map<size_t, int64_t> trips;  // by loop
      for (size_t at = 0; at < work.code.size();) at = step(work, at, trips);
    }
    for (const Program::Output& out : program_.outputs)
      memory_.read(program_.operand(out).storage, formatted("the output '{}'", out.name));
    return std::move(memory_.lost);
  }

 private:
  size_t step(const Program::Work& work, size_t at, std::map<size_t, int64_t>& trips) {
    using enum Instruction::Kind;
    const Instruction& i = work.code[at];
    if (i.word != Instruction::kNoWord) memory_.read(i.word, "the host");
    switch (i.kind) {
      case Instruction::Kind::run:
        dispatch(work.first + i.first, i.count);
        return at + 1;
      case unless:
        return random_() % 2 == 0 ? i.target : at + 1;
      case jump:
      case next:
        return i.target;
      case begin:
        trips[i.loop] = std::min<int64_t>(i.trips, static_cast<int64_t>(random_() % 4));
        return at + 1;
      case test:
        return trips[i.loop]-- > 0 ? at + 1 : i.target;
      case size:
        return at + 1;
    }
    return at + 1;
  }

  void dispatch(size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) memory_.run(program_.dispatches[i]);
  }

  const Program& program_;
  Memory memory_;
  std::mt19937 random_;
};

// Each leaf that is not an input in a buffer of its own.
std::vector<Placement> fixed_places(const Program& program, int32_t& buffers) {
  std::vector<Placement> fixed(program.storages.size());
  for (size_t s = 0; s < fixed.size(); ++s) {
    const auto leaf = program.storages[s].leaf;
    if (leaf && *leaf != LeafKind::input) fixed[s] = {buffers++, 0, program.storages[s].bytes};
  }
  return fixed;
}

Program lowered(const Graph& graph) {
  const Graph ready = materialize_views(expand_ops(graph));
  return lower(ready, Target{});
}

std::set<std::string> lost_by(const Program& program) {
  int32_t buffers = 0;
  const std::vector<Placement> fixed = fixed_places(program, buffers);
  const Plan plan = make_plan(program, fixed, buffers, Caps{});
  std::set<std::string> lost;
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) lost.merge(Host(program, plan, seed).run());
  return lost;
}

// A word that the host reads, among dispatches that could use its memory before that.
const std::string kBranches = R"(
  %x = input : f32[8]
  %s = sum(%x)
  %c = greater(%s, 0)
  %a = exp(%x)
  %b = tanh(%a)
  %y = if(%c, %b) {then=graph yes {
    %b = input : f32[8]
    %m = max(%b)
    %d = less(%m, 3)
    %e = sort(%b)
    %z = if(%d, %e) {then=graph a { %e = input : f32[8] %z = neg(%e) output z = %z },
                     else=graph b { %e = input : f32[8] %z = mul(%e, 2) output z = %z }}
    output z = %z
  }, else=graph no {
    %b = input : f32[8]
    %z = sort(%b)
    output z = %z
  }}
  %after = sort(%y)
  output after = %after
)";

// What an iteration finds, such as %e, the next one has to find too.
const std::string kLoops = R"(
  %x = input : f32[8]
  %s = sum(%x)
  %n = cast(%s) {to=i32}
  %t = sort(%x)
  %e = exp(%x)
  %y = loop(%n, none, %t, %e) {carried=1, body=graph outer {
    %i = input : i32[]
    %t = input : f32[8]
    %e = input : f32[8]
    %u = loop(none, none, %t, %e) {carried=1, body=graph inner {
      %j = input : i32[]
      %t = input : f32[8]
      %e = input : f32[8]
      %v = add(%t, %e)
      %w = sort(%v)
      %m = max(%w)
      %more = less(%m, 9)
      output more = %more
      output w = %w
    }}
    %l = sum(%u)
    %more = less(%l, 50)
    %z = sort(%u)
    output more = %more
    output z = %z
  }}
  %after = sort(%y)
  output after = %after
)";

bool reads_word(const Program& program) {
  return std::ranges::any_of(program.work, [](const Program::Work& work) {
    return std::ranges::any_of(work.code,
                               [](const Instruction& i) { return i.word != Instruction::kNoWord; });
  });
}

// The dispatches after the one that makes the word have memory of their own, and nothing but the host reads
// it.
TEST(Lifetimes, AWordOutlivesTheDispatchesBeforeItIsRead) {
  const Graph g = checked(R"(
    %x = input : f32[8]
    %word = sum(%x)
    %a = exp(%x)
    %b = sort(%a)
    %y = tanh(%b)
    output y = %y
  )");
  Program program = lowered(g);
  Program::Work& last = program.work.back();
  last.code = {{.kind = Instruction::Kind::run, .first = 0, .count = last.count},
               {.kind = Instruction::Kind::unless,
                .word = program.values.at({g.find("word"), 0}).storage,
                .target = 2}};
  const std::set<std::string> lost = lost_by(program);
  EXPECT_TRUE(lost.empty()) << *lost.begin();
}

TEST(Lifetimes, WordsLiveUntilTheHostHasReadThem) {
  for (const std::string& statements : {kBranches, kLoops}) {
    for (const bool optimized : {false, true}) {
      const Graph plain = checked(statements);
      const Program program = lowered(optimized ? optimize(expand_ops(plain), {}) : plain);
      const std::set<std::string> lost = lost_by(program);
      EXPECT_TRUE(lost.empty()) << *lost.begin();
      EXPECT_TRUE(reads_word(program));
    }
  }
}

TEST(Lifetimes, SizesLiveUntilTheHostHasReadThem) {
  const Graph g = checked(R"(
    %x = input : f32[9]
    %i = nonzero(%x) {count=dim(n)}
    %flat = reshape(%i) {shape=[n]}
    %picked = gather(%x, %flat)
    %sorted = sort(%picked)
    %soft = softmax(%sorted)
    output soft = %soft
  )");
  const SymbolValues largest = {{"n", 9}};
  const Graph ready = bind_symbols(materialize_views(expand_ops(g), largest, largest), largest);
  const Program program = lower(SizedGraph{ready, ready, {{"i", "n"}}}, Target{});
  EXPECT_TRUE(reads_word(program));
  const std::set<std::string> lost = lost_by(program);
  EXPECT_TRUE(lost.empty()) << *lost.begin();
}

TEST(Lifetimes, OfRandomGraphs) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const Graph g = random_graph(seed).graph;
    const std::set<std::string> lost = lost_by(lowered(seed % 2 == 0 ? g : optimize(expand_ops(g), {})));
    EXPECT_TRUE(lost.empty()) << seed << ": " << *lost.begin();
  }
}

// The load phase, one cone after the other. What nothing but a cone needs lies in memory that all of them
// share.
std::set<std::string> lost_by_loading(const Program& program, const Graph& graph) {
  const std::vector<Cone> cones = find_cones(program, graph);
  std::set<std::string> lost;
  std::set<size_t> run;
  for (const Cone& cone : cones) {
    std::vector<Placement> placements(program.storages.size());
    int32_t buffers = 0;
    for (const Program::Output& out : program.outputs) {
      const auto s = static_cast<size_t>(program.operand(out).storage);
      placements[s] = {buffers++, 0, program.storages[s].bytes};
    }
    for (size_t s = 0; s < placements.size(); ++s) {
      if (program.storages[s].table || program.storages[s].overflow)
        placements[s] = {buffers++, 0, program.storages[s].bytes};
    }
    place_cone(program, cone, buffers, Caps{}, placements);
    Memory memory(program, placements);
    // Everything that is given is there from the beginning.
    for (size_t s = 0; s < placements.size(); ++s) {
      const Storage& storage = program.storages[s];
      if (storage.leaf || storage.table || storage.overflow) memory.write(static_cast<int32_t>(s));
    }
    for (const size_t i : cone.dispatches) {
      EXPECT_TRUE(run.insert(i).second) << "dispatch " << i << " is in two cones";
      memory.run(program.dispatches[i]);
    }
    lost.merge(memory.lost);
  }
  EXPECT_EQ(run.size(), program.dispatches.size());
  return lost;
}

TEST(Lifetimes, ParamsLiveUntilTheirConeHasReadThem) {
  // Several dispatches with memory of their own between the first one and those that read %b and %c.
  const std::string chain = R"(
    %a = param : f32[300]
    %b = param : f32[300]
    %c = param : f32[7]
    %d = param : f32[5, 6]
    %s = sort(%a)
    %t = cumsum(%s)
    %u = sort(%t)
    %v = add(%u, %b)
    %w = sort(%v)
    %m = max(%c)
    %y = mul(%w, %m)
    %z = sort(%b)
    %e = exp(%d)
    output y = %y
    output z = %z
    output e = %e
  )";
  for (const bool optimized : {false, true}) {
    const Graph plain = materialize_views(expand_ops(checked(chain)));
    const Graph graph = optimized ? materialize_views(optimize(plain, {})) : plain;
    const Program program = lower(graph, Target{});
    EXPECT_EQ(find_cones(program, graph).size(), 2u);
    const std::set<std::string> lost = lost_by_loading(program, graph);
    EXPECT_TRUE(lost.empty()) << *lost.begin();
  }
}

}  // namespace
}  // namespace rlx::testing
