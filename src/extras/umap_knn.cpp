// The nearest neighbours of points, by their distances.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "extras/extras.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

// Each pass over a row finds the next two neighbours, so that no list of k has to be kept, whatever k is.
constexpr std::string_view kKernel = R"(
//@ in d float
//@ out ids int
//@ out distances float
//@ use team_serial
const TEAM: u32 = 1u;  //@ spec
struct Params { first: u32, end: u32, length: u32, k: u32, }

// Two neighbours, the nearer one first: the rank of a distance and an id for each.
alias team_t = vec4u;
const NONE = vec2u(0xffffffffu, 0xffffffffu);

fn nearer(a: vec2u, b: vec2u) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }
fn merge(a: team_t, b: team_t) -> team_t {
  if (nearer(b.xy, a.xy)) { return vec4u(b.xy, select(a.xy, b.zw, nearer(b.zw, a.xy))); }
  return vec4u(a.xy, select(b.xy, a.zw, nearer(a.zw, b.xy)));
}

// In the order of the distances; -0 and 0 are equal.
fn rank_of(distance: f32) -> u32 {
  let bits = select(bitcast<u32>(distance), 0u, distance == 0.0);
  return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

fn put(row: u32, slot: u32, found: vec2u) {
  let exists = found.x != NONE.x;
  ids_put(ids_base(row) + ids_step(slot), i32(select(params.length, found.y, exists)));
  var distance = infinity();
  if (exists) { distance = d_get(d_base(row) + d_step(found.y)); }
  distances_put(distances_base(row) + distances_step(slot), distance);
}

fn row_task(row: u32, lane: u32, width: u32) {
  let start = d_base(row);
  let self_id = row % params.length;
  var last = vec2u(0u, 0u);
  for (var slot = 0u; slot < params.k; slot += 2u) {
    var best = vec4u(NONE, NONE);
    for (var id = lane; id < params.length; id += TEAM) {
      let distance = d_get(start + d_step(id));
      if (id == self_id || is_nan(distance) || is_inf(distance)) { continue; }
      let candidate = vec2u(rank_of(distance), id);
      if (slot == 0u || nearer(last, candidate)) { best = merge(best, vec4u(candidate, NONE)); }
    }
    best = team_all(best, lane, width);
    if (lane == 0u) {
      put(row, slot, best.xy);
      if (slot + 1u < params.k) { put(row, slot + 1u, best.zw); }
    }
    last = best.zw;
  }
}
)";

std::vector<TensorType> infer(const CustomCall& c) {
  const TensorType& d = c.input(0);
  const int64_t rank = d.shape.rank();
  if (rank < 2 || d.shape[rank - 1] != d.shape[rank - 2])
    extras::refuse("umap.knn: distances are square matrices, not " + d.shape.text());
  const int64_t k = c.integer("k");
  if (k < 1)
    extras::refuse("umap.knn: k is " + std::to_string(k) + ", but there must be at least one neighbour");
  Shape out = d.shape;
  out[rank - 1] = k;
  return {{DType::i32, out}, {d.dtype, out}};
}

void reference(CustomReference& r) {
  const int64_t rank = r.input(0).shape.rank();
  const auto n = static_cast<size_t>(r.input(0).shape[rank - 1].value());
  const auto k = static_cast<size_t>(r.integer("k"));
  for (size_t row = 0; n > 0 && row < r.in(0).size() / n; ++row) {
    const std::span<const double> d = r.in(0).subspan(row * n, n);
    std::vector<size_t> ids;
    for (size_t id = 0; id < n; ++id) {
      if (id != row % n && std::isfinite(d[id])) ids.push_back(id);
    }
    std::ranges::stable_sort(ids, {}, [&](size_t id) { return d[id]; });
    for (size_t slot = 0; slot < k; ++slot) {
      const bool exists = slot < ids.size();
      r.out(0)[row * k + slot] = static_cast<double>(exists ? ids[slot] : n);
      r.out(1)[row * k + slot] = exists ? d[ids[slot]] : std::numeric_limits<double>::infinity();
    }
  }
}

}  // namespace

CustomOp extras::umap_knn_op() {
  return {
      .name = "umap.knn",
      .formula = "{ids, distances} of the k nearest neighbours of each point, by their distances d",
      .attributes = {{"k", 15}},
      .documentation = {{"d", "distances [.., n, n] between all pairs of points"},
                        {"k", "how many neighbours"},
                        {"ids", "[.., n, k], the nearest first; n where there are fewer"},
                        {"distances", "to them; infinite where there are fewer"}},
      .wgsl = std::string(kKernel),
      .infer = infer,
      .reference = reference,
      .ulps = 0,
      .samples = {"umap.knn(T[17,17]) {k=3}", "umap.knn(T[2,5,5] in 0..1) {k=7}", "umap.knn(T[1,1]) {k=1}",
                  "umap.knn(T[0,0]) {k=2}", "umap.knn(T[300,300] in 0..2) {k=15}"}};
}

Value pairwise_distances(Value points, Metric metric) {
  const int64_t rank = points.type().shape.rank();
  if (rank < 2)
    extras::refuse("pairwise_distances: points are [.., n, d], not " + points.type().shape.text());
  std::vector<int64_t> swapped(static_cast<size_t>(rank));
  std::iota(swapped.begin(), swapped.end(), int64_t{0});
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  const auto turned = [&](Value x) { return transpose(x, swapped); };
  const Value squares = sum(square(points), {-1}, true);
  const Value products = matmul(points, turned(points));
  Value distances;
  if (metric == Metric::euclidean) {
    distances = sqrt(maximum(squares + turned(squares) - 2 * products, 0));
  } else {
    const Value norms = maximum(sqrt(squares), 1e-12);
    distances = maximum(1 - clamp(products / (norms * turned(norms)), -1, 1), 0);
  }
  const Dim n = points.type().shape[rank - 2];
  const Value diagonal = eye(points.graph(), n, n, 0, DType::bool_);
  return where(diagonal, 0, distances);
}

Neighbours umap_knn(Value distances, int64_t k) {
  register_extras();
  const std::vector<Value> made = custom_outputs("umap.knn", {distances}, {{"k", k}});
  return {.ids = made[0], .distances = made[1]};
}

Neighbours umap_knn(Value points, int64_t k, Metric metric) {
  return umap_knn(pairwise_distances(points, metric), k);
}

}  // namespace rlx
