// The gate of LLaDA2's experts: they are chosen from the best groups only.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "extras/extras.h"

namespace rlx {
namespace {

// Groups and experts are chosen one after the other, each the best of those that come after the last one, so
// that any number of them needs no memory. Lanes have groups of their own.
constexpr std::string_view kKernel = R"(
//@ in sigmoid float
//@ in routing float
//@ out ids int
//@ out weights float
//@ use team_serial
const TEAM: u32 = 1u;  //@ spec
struct Params { first: u32, end: u32, length: u32, n_group: u32, topk_group: u32, top_k: u32, routed_scaling: f32, }

alias team_t = vec2u;  // the rank of a score, 0 being the best, and an index
const NONE = vec2u(0xffffffffu, 0xffffffffu);

fn before(a: vec2u, b: vec2u) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }
fn merge(a: team_t, b: team_t) -> team_t { return select(a, b, before(b, a)); }

fn lowest_if_nan(score: f32) -> f32 { return select(score, -infinity(), is_nan(score)); }
fn rank_of(score: f32) -> u32 {
  let bits = select(bitcast<u32>(score), 0u, score == 0.0);
  return select(~(bits | 0x80000000u), bits, (bits & 0x80000000u) != 0u);
}
fn score_of(start: u32, expert: u32) -> f32 { return lowest_if_nan(routing_get(start + routing_step(expert))); }

// The two best scores of a group added up.
fn group_at(start: u32, number: u32) -> vec2u {
  let size = params.length / params.n_group;
  var best = -infinity();
  var second = -infinity();
  for (var i = 0u; i < size; i++) {
    let score = score_of(start, number * size + i);
    second = max(second, min(best, score));
    best = max(best, score);
  }
  return vec2u(rank_of(lowest_if_nan(best + second)), number);
}

fn row_task(row: u32, lane: u32, width: u32) {
  let start = routing_base(row);
  let size = params.length / params.n_group;
  var last_group = vec2u(0u, 0u);
  for (var chosen = 0u; chosen < params.topk_group; chosen++) {
    var best = NONE;
    for (var number = lane; number < params.n_group; number += TEAM) {
      let candidate = group_at(start, number);
      if (chosen == 0u || before(last_group, candidate)) { best = merge(best, candidate); }
    }
    last_group = team_all(best, lane, width);
  }
  var last = vec2u(0u, 0u);
  var sum = 0.0;
  for (var chosen = 0u; chosen < params.top_k; chosen++) {
    var best = NONE;
    for (var number = lane; number < params.n_group; number += TEAM) {
      let kept = !before(last_group, group_at(start, number));
      for (var expert = number * size; expert < (number + 1u) * size; expert++) {
        let candidate = vec2u(rank_of(select(-infinity(), score_of(start, expert), kept)), expert);
        if (chosen == 0u || before(last, candidate)) { best = merge(best, candidate); }
      }
    }
    last = team_all(best, lane, width);
    sum += sigmoid_get(sigmoid_base(row) + sigmoid_step(last.y));
    if (lane == 0u) { ids_put(ids_base(row) + ids_step(chosen), i32(last.y)); }
  }
  if (lane != 0u) { return; }
  let divisor = select(sum + 1e-20, 1.0, params.top_k == 1u);
  for (var chosen = 0u; chosen < params.top_k; chosen++) {
    let expert = u32(ids_get(ids_base(row) + ids_step(chosen)));
    let weight = sigmoid_get(sigmoid_base(row) + sigmoid_step(expert)) * params.routed_scaling / divisor;
    weights_put(weights_base(row) + weights_step(chosen), weight);
  }
}
)";

std::vector<TensorType> infer(const CustomCall& c) {
  const TensorType& scores = c.input(0);
  const auto refuse = [](const std::string& what) { extras::refuse("llada2.group_limited_gate: " + what); };
  if (scores.shape.rank() < 1 || c.input(1).shape != scores.shape)
    refuse("the scores are " + scores.shape.text() + " and " + c.input(1).shape.text() +
           ", but both have a row of experts for each token");
  const int64_t axis = scores.shape.rank() - 1;
  const Dim& last = scores.shape[axis];
  if (!last.is_static()) refuse("the number of experts, " + last.text() + ", must be known");
  const int64_t experts = last.value();
  const auto expect = [&](std::string_view name, int64_t least, int64_t most) {
    const int64_t value = c.integer(name);
    if (value < least || value > most)
      refuse(std::string(name) + " is " + std::to_string(value) + ", but for " + std::to_string(experts) +
             " experts it must be from " + std::to_string(least) + " to " + std::to_string(most));
  };
  expect("n_group", 1, experts);
  expect("topk_group", 1, c.integer("n_group"));
  expect("top_k", 1, experts);
  if (experts % c.integer("n_group") != 0)
    refuse(std::to_string(experts) + " experts cannot be in " + std::to_string(c.integer("n_group")) +
           " groups of equal size");
  Shape out = scores.shape;
  out[axis] = c.integer("top_k");
  return {{DType::i32, out}, {scores.dtype, out}};
}

// The indices of the largest scores first, the lower one first among equals.
std::vector<size_t> best_first(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return scores[i]; });
  return order;
}

// The experts of a row.
std::vector<size_t> choose(std::span<const double> routing, const CustomCall& c) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const auto groups = static_cast<size_t>(c.integer("n_group"));
  const size_t size = routing.size() / groups;
  std::vector<double> scores(routing.begin(), routing.end());
  for (double& s : scores) s = std::isnan(s) ? kLowest : s;
  std::vector<double> sums;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> own(scores.begin() + static_cast<std::ptrdiff_t>(g * size),
                            scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    own.push_back(kLowest);
    std::ranges::sort(own, std::greater<>());
    const double sum = static_cast<float>(own[0] + own[1]);  // what the device compares
    sums.push_back(std::isnan(sum) ? kLowest : sum);
  }
  const std::vector<size_t> order = best_first(sums);
  for (size_t i = static_cast<size_t>(c.integer("topk_group")); i < groups; ++i)
    std::fill_n(scores.begin() + static_cast<std::ptrdiff_t>(order[i] * size), size, kLowest);
  std::vector<size_t> experts = best_first(scores);
  experts.resize(static_cast<size_t>(c.integer("top_k")));
  return experts;
}

void reference(CustomReference& r) {
  const auto experts = static_cast<size_t>(r.input(0).shape[r.input(0).shape.rank() - 1].value());
  const auto top_k = static_cast<size_t>(r.integer("top_k"));
  for (size_t row = 0; row < r.in(0).size() / experts; ++row) {
    const std::vector<size_t> chosen = choose(r.in(1).subspan(row * experts, experts), r);
    const std::span<const double> sigmoid = r.in(0).subspan(row * experts, experts);
    double sum = 1e-20;
    for (const size_t e : chosen) sum += sigmoid[e];
    for (size_t i = 0; i < top_k; ++i) {
      r.out(0)[row * top_k + i] = static_cast<double>(chosen[i]);
      r.out(1)[row * top_k + i] = sigmoid[chosen[i]] * r.number("routed_scaling") / (top_k == 1 ? 1 : sum);
    }
  }
}

}  // namespace

CustomOp extras::group_limited_gate_op() {
  return {.name = "llada2.group_limited_gate",
          .formula = "{ids, weights} of the top_k experts in the topk_group best of n_group groups",
          .attributes = {{"n_group", 8}, {"topk_group", 4}, {"top_k", 8}, {"routed_scaling", 2.5}},
          .documentation = {{"sigmoid", "scores [.., experts] that become weights"},
                            {"routing", "scores [.., experts] by which experts are chosen"},
                            {"n_group", "groups of equally many neighbouring experts"},
                            {"topk_group", "groups that are kept"},
                            {"top_k", "experts that are chosen"},
                            {"routed_scaling", "factor of the weights"},
                            {"ids", "[.., top_k], the best expert first"},
                            {"weights", "[.., top_k], over their sum if there is more than one"}},
          .wgsl = std::string(kKernel),
          .infer = infer,
          .reference = reference,
          .ulps = 8,
          .terms = [](const CustomCall& c) { return static_cast<double>(c.integer("top_k")); },
          .samples = {
              "llada2.group_limited_gate(T[3,32] in 0..1, T[3,32] in 0..1)",
              "llada2.group_limited_gate(T[2,5,12] in 0..1, T[2,5,12]) {n_group=4, topk_group=2, top_k=5}",
              "llada2.group_limited_gate(T[5,4] in 0..1, T[5,4]) {n_group=4, topk_group=1, top_k=3}",
              "llada2.group_limited_gate(T[1,1] in 0..1, T[1,1]) {n_group=1, topk_group=1, top_k=1}",
              "llada2.group_limited_gate(T[0,16], T[0,16])",
              "llada2.group_limited_gate(T[70,256] in 0..1, T[70,256] in 0..1)"}};
}

GatedExperts group_limited_gate(Value sigmoid, Value routing, const GateOptions& options) {
  register_extras();
  const std::vector<Value> made = custom_outputs("llada2.group_limited_gate", {sigmoid, routing},
                                                 {{"n_group", options.n_group},
                                                  {"topk_group", options.topk_group},
                                                  {"top_k", options.top_k},
                                                  {"routed_scaling", options.routed_scaling}});
  return {.ids = made[0], .weights = made[1]};
}

}  // namespace rlx
