// Ops beyond the library's own, written on its public header for custom ops (rlx/custom_op.h). Link
// rlx::extras. The command line has them too.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Registers them for graph texts; the functions below do so themselves. Calling it again does nothing.
void register_extras();

enum class Metric {
  euclidean,  // sqrt(max(0, |a|^2 + |b|^2 - 2 ab))
  cosine,     // max(0, 1 - clamp(ab / (|a| |b|), -1, 1)), norms at least 1e-12
};
// Between all pairs of points [.., n, d]: [.., n, n], 0 on the diagonal.
Value pairwise_distances(Value points, Metric metric = Metric::euclidean);

// [.., n, k]
struct Neighbours {
  Value ids;
  Value distances;
};
// The op `umap.knn`: the k nearest neighbours of each of n points, by their distances [.., n, n], nearest
// first and among equals the lower id first. A point is not its own neighbour; neither is one whose distance
// is infinite or NaN. Where there are fewer than k, the id is n and the distance infinite.
Neighbours umap_knn(Value distances, int64_t k);
// The same for points [.., n, d].
Neighbours umap_knn(Value points, int64_t k, Metric metric);

struct GateOptions {
  int64_t n_group = 8;     // groups of equally many neighbouring experts
  int64_t topk_group = 4;  // groups that are kept
  int64_t top_k = 8;       // experts that are chosen
  double routed_scaling = 2.5;
};
// [.., top_k]
struct GatedExperts {
  Value ids;
  Value weights;
};
// The op `llada2.group_limited_gate`: the experts of each row, by their routing scores [.., experts]. The
// groups with the largest sums of their two best scores are kept, then the best experts in them are chosen,
// the best first; among equals the lower index comes first. If the kept groups have fewer than top_k, the
// others follow in order. NaN counts as the lowest score. Weights are the experts' sigmoid scores times
// routed_scaling, over their sum if there is more than one.
GatedExperts group_limited_gate(Value sigmoid, Value routing, const GateOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
