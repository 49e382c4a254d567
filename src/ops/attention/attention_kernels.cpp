// The kernels of attention, and what each costs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_blocked.wgsl.h"
#include "kernels/attention_blocked_forms.wgsl.h"
#include "kernels/attention_join.wgsl.h"
#include "kernels/attention_matrix.wgsl.h"
#include "kernels/attention_matrix_forms.wgsl.h"
#include "kernels/attention_online.wgsl.h"
#include "kernels/attention_online_forms.wgsl.h"
#include "kernels/attention_plain.wgsl.h"
#include "kernels/attention_plain_forms.wgsl.h"
#include "kernels/binder.h"
#include "kernels/matrix_units.h"
#include "kernels/rates.h"
#include "ops/attention/attention_problem.h"

namespace rlx {
namespace {

// Whether every head is a contiguous run of four, eight, ... elements that starts at a multiple of four.
bool quads(const View& v) {
  if (v.strides.back() != 1 || v.dims.back() % 4 != 0 || v.dims.back() == 0 || v.offset % 4 != 0)
    return false;
  return std::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
}

uint32_t stride(const Operand& o, int64_t axis) {
  return o.present() ? static_cast<uint32_t>(to_i32(o.view.strides[static_cast<size_t>(axis)])) : 0;
}

float empty_share(const AttentionProblem& p) {
  return p.nan_when_empty ? std::numeric_limits<float>::quiet_NaN() : 0;
}

// The parameters that all kernels get.
template <class Params>
Params common_params(const AttentionProblem& p) {
  Params params;
  params.quads = to_u32(ceil_div(p.head(), 4));
  params.queries = to_u32(p.queries());
  params.rows = to_u32(p.rows());
  params.keys = to_u32(p.keys);
  params.shift = to_i32(p.has_forms() ? p.shift - p.total : p.shift);  // there each batch has its own keys
  // Far enough to see every key when there is no window.
  params.window = to_i32(p.op->mask == MaskKind::sliding_window ? std::min(p.op->window, int64_t{1} << 30)
                                                                : int64_t{1} << 30);
  params.q_member = stride(p.q, 2);
  params.q_row = stride(p.q, 3);
  params.q_dim = stride(p.q, 4);
  params.k_row = stride(p.k, 2);
  params.k_dim = stride(p.k, 3);
  params.v_row = stride(p.v, 2);
  params.v_dim = stride(p.v, 3);
  params.y_member = stride(p.y, 2);
  params.y_row = stride(p.y, 3);
  params.mask_member = stride(p.mask, 2);
  params.mask_row = stride(p.mask, 3);
  params.mask_key = stride(p.mask, 4);
  params.scale = static_cast<float>(p.op->scale_for(p.head()));
  params.soft_cap = static_cast<float>(p.op->soft_cap.value_or(1));
  params.masked_score = static_cast<float>(p.op->masked_score);
  params.empty_share = empty_share(p);
  params.parts = to_u32(p.parts);
  params.part_keys = to_u32(ceil_div(p.keys, p.parts));
  params.kv_heads = to_u32(p.kv_heads());
  params.page = to_u32(p.k.view.dims[2]);
  params.last_page = to_u32(std::max<int64_t>(p.k.view.dims[0], 1) - 1);
  params.skipped = to_u32(p.skipped);
  params.total = to_u32(to_i32(p.total));
  return params;
}

template <class Kernel>
typename Kernel::Operands operands(const AttentionProblem& p) {
  typename Kernel::Operands o;
  o.q = p.q;
  o.k = p.k;
  o.v = p.v;
  o.mask = p.mask;
  o.y = p.y;
  if constexpr (requires { o.carry; }) o.carry = p.carry;
  if constexpr (requires { o.lengths; }) {
    o.lengths = p.lengths;
    o.start = p.start;
    o.pages = p.pages;
    o.sinks = p.sinks;
    o.slopes = p.slopes;
    o.k_scale = p.k_scale;
    o.v_scale = p.v_scale;
    o.log_sum = p.log_sum;
  }
  return o;
}

template <class Spec>
Spec common_spec(const AttentionProblem& p) {
  Spec spec;
  spec.HEAD = to_u32(p.head());
  spec.VALUE = to_u32(p.value());
  spec.CAUSAL = p.op->mask != MaskKind::none;
  spec.CAPPED = p.op->soft_cap.has_value();
  spec.ROUNDED = p.op->round_scores ? held_kind(p.q.dtype) : 0;
  spec.KEEP = p.mask.present() && p.mask.dtype == DType::bool_;
  spec.Q4 = quads(p.q.view);
  spec.K4 = quads(p.k.view);
  spec.V4 = quads(p.v.view);
  spec.Y4 = quads(p.y.view);
  return spec;
}

double flops(const AttentionProblem& p) {
  return 2.0 * static_cast<double>(p.batch() * p.kv_heads() * p.rows()) * static_cast<double>(p.keys) *
         static_cast<double>(p.head() + p.value());
}

// For a kernel with tiles of `tile` rows, all of which are computed whether or not they exist.
double tiles_ns(const Rates& r, const AttentionProblem& p, int64_t tile, Share share) {
  const double used = static_cast<double>(p.rows()) / static_cast<double>(round_up(p.rows(), tile));
  return r.dispatch_ns + compute_ns(r, flops(p), share) / used;
}

std::vector<Candidate> plain_candidates(const Target& target, const AttentionProblem& p) {
  return one_candidate(tiles_ns(rates_of(target.caps), p, 1, {.cpu = 0.5 / 24, .gpu = 0.2}));
}

template <class Kernel>
Dispatch plain_with(const Lowering& l, const AttentionProblem& p) {
  auto spec = common_spec<typename Kernel::Spec>(p);
  spec.CONTINUES = p.continues;
  spec.CARRIES = p.carries;
  auto o = operands<Kernel>(p);
  // Each lane reads and writes its own dims of v and y, one by one.
  o.v.x4 = o.y.x4 = false;
  return l.make<Kernel>(o, common_params<typename Kernel::Params>(p), p.batch() * p.kv_heads() * p.rows(),
                        spec);
}

Dispatch make_plain(Lowering& l, const AttentionProblem& p, const Candidate&) {
  return p.has_forms() ? plain_with<kernels::attention_plain_forms>(l, p)
                       : plain_with<kernels::attention_plain>(l, p);
}

// Vectors of four that hold a head: HEAD4 in the kernels.
int64_t head_quads(const AttentionProblem& p) { return std::max<int64_t>(ceil_div(p.head(), 4), 1); }

bool online_applies(const Target&, const AttentionProblem& p) { return p.head() <= 256 && p.value() <= 256; }

constexpr uint32_t kOnlineRows = 64;  // of a workgroup of the online kernel

std::vector<Candidate> online_candidates(const Target& target, const AttentionProblem& p) {
  const Rates r = rates_of(target.caps);
  const bool short_heads = p.head() + p.value() <= 128;
  const Share share{.cpu = (short_heads ? 16.0 : 13.0) / 24, .gpu = 1};
  const double ns = tiles_ns(r, p, 64, share);
  // As many keys as workgroup memory holds. A CPU has to compile a body for each of them.
  const int64_t value_quads = ceil_div(p.value(), 4);
  const int64_t key_bytes = 16 * (head_quads(p) + value_quads);
  // Where registers are few, compilers that unroll the loop over the keys need fewer for fewer of them.
  const double wanted = r.cpu ? 4 : r.registers < 255 ? 8 : 16;
  std::vector<Candidate> out;
  for (const uint32_t across : {1u, 2u, 4u}) {
    if (head_quads(p) % across != 0 || value_quads % across != 0) break;
    for (const uint32_t keys : {1u, 2u, 4u, 8u, 16u}) {
      const int64_t bytes = keys * (key_bytes + (across > 1 ? 4 * int64_t{kOnlineRows} * across : 0));
      if (keys > 1 && bytes > target.caps.max_workgroup_bytes) break;
      // What the invocations of a row exchange costs little; what does not fit into registers goes to memory
      // and back for every block of keys.
      const double held = 4 * static_cast<double>(head_quads(p) + value_quads) / across + keys + 8;
      const double meeting = across == 1 ? 1 : r.cpu ? 10 : misfit(across, 1);
      Candidate& c = out.emplace_back(ns * misfit(keys, wanted) * meeting * spilling(r, held));
      c.constants.push_back({"KEYS", keys});
      if (across > 1) c.constants.push_back({"ACROSS", across});
    }
  }
  return out;
}

template <class Kernel>
Dispatch online_with(const Lowering& l, const AttentionProblem& p, const Candidate& c) {
  auto spec = common_spec<typename Kernel::Spec>(p);
  spec.KEYS = c.at("KEYS");
  spec.ACROSS = c.has("ACROSS") ? c.at("ACROSS") : 1;
  spec.LANES = kOnlineRows * spec.ACROSS;
  auto params = common_params<typename Kernel::Params>(p);
  const int64_t tiles = ceil_div(p.rows(), int64_t{kOnlineRows});
  params.tiles = to_u32(tiles);
  return l.make<Kernel>(operands<Kernel>(p), params, p.batch() * p.kv_heads() * tiles, spec);
}

Dispatch make_online(Lowering& l, const AttentionProblem& p, const Candidate& c) {
  return p.has_forms() ? online_with<kernels::attention_online_forms>(l, p, c)
                       : online_with<kernels::attention_online>(l, p, c);
}

// Workgroup memory of the blocked kernel: rows of q, weights of a block of keys, what lanes exchange.
int64_t blocked_bytes(const AttentionProblem& p, int64_t quads_of_rows, int64_t lanes = 8) {
  return 16 * quads_of_rows * (4 * head_quads(p) + 4 * lanes + lanes);
}

uint32_t split_lanes(const Caps& caps) { return rates_of(caps).cpu ? 8 : 32; }

bool blocked_applies(const Target& target, const AttentionProblem& p) {
  return !p.op->round_scores && blocked_bytes(p, 1) <= target.caps.max_workgroup_bytes;
}

double blocked_cpu_share(const AttentionProblem& p) {
  return (!quads(p.k.view) ? 5.0 : p.head() <= 64 ? 12.0 : 16.0) / 24;
}

// Groups of four rows, of which there are no fewer in any form of the kernel.
int64_t blocked_groups(const AttentionProblem& p) { return p.batch() * p.kv_heads() * ceil_div(p.rows(), 4); }

std::vector<Candidate> blocked_candidates(const Target& target, const AttentionProblem& p) {
  const bool k4 = quads(p.k.view);
  const Rates r = rates_of(target.caps);
  const Share share{.cpu = blocked_cpu_share(p), .gpu = 0.05};
  const double idle = std::max(1.0, r.cores / static_cast<double>(blocked_groups(p)));
  const double ns = tiles_ns(r, p, p.rows() > 8 ? 16 : 4, share) * (p.rows() <= 16 ? idle : 1);
  // More rows share a load of keys, but make longer code, which takes longer to compile than a small problem
  // to run.
  const int wanted = p.rows() <= 4 || flops(p) < 4e6 ? 1 : p.rows() <= 8 || !k4 ? 2 : 4;
  std::vector<Candidate> out;
  for (const uint32_t four_rows : {1u, 2u, 4u}) {
    if (four_rows > 1 && blocked_bytes(p, four_rows) > target.caps.max_workgroup_bytes) break;
    Candidate& c = out.emplace_back(ns * misfit(four_rows, wanted));
    c.constants.push_back({"QUADS", four_rows});
    // Measured: with so few rows, reading the keys takes longer than the arithmetic.
    if (r.cpu && p.rows() <= 4) c.own_ns = r.dispatch_ns + 3 * (c.ns - r.dispatch_ns);
  }
  return out;
}

template <class Kernel>
Dispatch blocked_with(const Lowering& l, const AttentionProblem& p, const Candidate& c) {
  auto spec = common_spec<typename Kernel::Spec>(p);
  spec.QUADS = c.at("QUADS");
  spec.SPLIT = p.carry.present();
  if (spec.SPLIT) spec.LANES = split_lanes(l.caps());
  auto params = common_params<typename Kernel::Params>(p);
  const int64_t tiles = ceil_div(p.rows(), 4 * int64_t{spec.QUADS});
  params.tiles = to_u32(tiles);
  auto o = operands<Kernel>(p);
  if (spec.SPLIT) {
    o.y = {};
    if constexpr (requires { o.log_sum; }) o.log_sum = {};
  }
  return l.make<Kernel>(o, params, p.batch() * p.kv_heads() * tiles * p.parts, spec);
}

Dispatch make_blocked(Lowering& l, const AttentionProblem& p, const Candidate& c) {
  return p.has_forms() ? blocked_with<kernels::attention_blocked_forms>(l, p, c)
                       : blocked_with<kernels::attention_blocked>(l, p, c);
}

// --- Keys in parts ---

bool split_applies(const Target& target, const AttentionProblem& p) {
  return blocked_applies(target, p) && p.rows() <= 16 && attention_parts(target, p) > 1 &&
         blocked_bytes(p, 1, split_lanes(target.caps)) <= target.caps.max_workgroup_bytes;
}

// On a GPU twice as fast as the plain kernel, whose groups are too few; not measured.
std::vector<Candidate> split_candidates(const Target& target, const AttentionProblem& p) {
  const Rates r = rates_of(target.caps);
  const Share share{.cpu = blocked_cpu_share(p), .gpu = 0.4};
  return {{r.dispatch_ns + tiles_ns(r, p, 4, share), {{"QUADS", 1}}}};
}

// --- On matrix units ---

// Factors are what is stored, or weights in two parts that hold the digits of f32.
bool can_use(const AttentionProblem& p, const SubgroupMatrix& unit) {
  if (unit.result != DType::f32) return false;
  const auto half = [](const Operand& o) { return o.dtype == DType::f16; };
  return unit.component == DType::f32 ||
         (unit.component == DType::f16 && half(p.q) && half(p.k) && half(p.v));
}

// Constants of the kernel, and the workgroup memory that it takes.
struct MatrixShape {
  uint32_t subgroups, block, pad;
  int64_t bytes;
};
MatrixShape matrix_shape(const AttentionProblem& p, const SubgroupMatrix& unit, uint32_t subgroups,
                         uint32_t block) {
  const int64_t element = unit_bytes(unit.component);
  MatrixShape s{subgroups, block, to_u32(16 / element), 0};
  const int64_t rows = int64_t{subgroups} * unit.m;
  const int64_t head = round_up(p.head(), unit.k);
  const int64_t dims = std::max(head, round_up(p.value(), unit.n));
  const int64_t weights = element == 2 ? 2 : 1;
  const int64_t factors = rows * (head + s.pad) + block * (dims + s.pad) + weights * rows * (block + s.pad);
  constexpr int64_t kShared = 4 * 64;  // at most, of a row
  s.bytes = factors * element + rows * (4 * std::max<int64_t>(block, unit.n) + kShared);
  return s;
}

// All shapes that the device has room for, with their units.
template <class F>
void for_each_shape(const Caps& caps, const AttentionProblem& p, F&& f) {
  for (const SubgroupMatrix& unit : caps.subgroup_matrices) {
    if (!can_use(p, unit)) continue;
    for (const uint32_t subgroups : {1u, 2u, 4u}) {
      for (const uint32_t block : {16u, 32u}) {
        const MatrixShape s = matrix_shape(p, unit, subgroups, block);
        if (s.bytes <= caps.max_workgroup_bytes &&
            subgroups * matrix_width(caps) <= caps.max_invocations_per_workgroup)
          f(unit, s);
      }
    }
  }
}

bool matrix_applies(const Target& target, const AttentionProblem& p) {
  bool any = false;
  for_each_shape(target.caps, p, [&](const SubgroupMatrix&, const MatrixShape&) { any = true; });
  return any && !p.op->round_scores && p.head() > 0;
}

// Twice the rate of the online kernel on a GPU: a guess. Lavapipe's units are slow.
std::vector<Candidate> matrix_candidates(const Target& target, const AttentionProblem& p) {
  const Share share{.cpu = 0.02, .gpu = target.caps.emulated_matrices ? 0.01 : 2.0};
  const double ns = tiles_ns(rates_of(target.caps), p, 64, share);
  std::vector<Candidate> out;
  for_each_shape(target.caps, p, [&](const SubgroupMatrix& unit, const MatrixShape& s) {
    // GPUs have workgroup memory for about ten subgroups at once that take this much each.
    constexpr double kBytes = 6144;
    const double crowd = std::max(1.0, static_cast<double>(s.bytes) / (kBytes * s.subgroups));
    out.push_back(
        {ns * misfit(s.subgroups, p.rows() > 2 * int64_t{unit.m} ? 4 : 1) * misfit(s.block, 32) * crowd,
         {{"FACTORS", to_u32(8 * unit_bytes(unit.component))},
          {"M", unit.m},
          {"N", unit.n},
          {"K", unit.k},
          {"SUBGROUPS", s.subgroups},
          {"BLOCK", s.block}}});
  });
  return out;
}

template <class Kernel>
Dispatch matrix_with(const Lowering& l, const AttentionProblem& p, const Candidate& c) {
  const bool half = c.at("FACTORS") == 16;
  const SubgroupMatrix unit{half ? DType::f16 : DType::f32, DType::f32, c.at("M"), c.at("N"), c.at("K")};
  const MatrixShape s = matrix_shape(p, unit, c.at("SUBGROUPS"), c.at("BLOCK"));
  auto spec = common_spec<typename Kernel::Spec>(p);
  spec.UNIT_M = unit.m;
  spec.UNIT_N = unit.n;
  spec.UNIT_K = unit.k;
  spec.WIDTH = matrix_width(l.caps());
  spec.SUBGROUPS = s.subgroups;
  spec.BLOCK = s.block;
  spec.PAD = s.pad;
  spec.TWICE = half;
  auto params = common_params<typename Kernel::Params>(p);
  const int64_t tiles = ceil_div(p.rows(), int64_t{s.subgroups} * unit.m);
  params.tiles = to_u32(tiles);
  Dispatch d = l.make<Kernel>(operands<Kernel>(p), params, p.batch() * p.kv_heads() * tiles, spec);
  if (half) d.kernel = with_fragment(*d.kernel, "matrix_of_f32", "matrix_of_f16");
  d.kernel = with_fragment(*d.kernel, "matrix_emulated", joined(matrix_fragments(l.caps()), {}, " "));
  return d;
}

Dispatch make_matrix(Lowering& l, const AttentionProblem& p, const Candidate& c) {
  return p.has_forms() ? matrix_with<kernels::attention_matrix_forms>(l, p, c)
                       : matrix_with<kernels::attention_matrix>(l, p, c);
}

constexpr AttentionVariant kVariants[] = {
    {"online", online_applies, online_candidates, make_online},
    {"blocked", blocked_applies, blocked_candidates, make_blocked},
    {"plain", always, plain_candidates, make_plain},
    {"split", split_applies, split_candidates, make_blocked},
    {"matrix", matrix_applies, matrix_candidates, make_matrix},
};

}  // namespace

std::vector<std::string> attention_variants() { return names_of(kVariants); }
const AttentionVariant& choose_attention(const Lowering& l, const AttentionProblem& p) {
  return *l.choose(Attention::kName, kVariants, p).row;
}
const AttentionVariant& plain_attention() { return kVariants[2]; }
const AttentionVariant& blocked_attention() { return kVariants[1]; }
const AttentionVariant& split_attention() { return kVariants[3]; }
const AttentionVariant& online_attention() { return kVariants[0]; }
bool online_attention_applies(const Target& target, const AttentionProblem& p) {
  return online_applies(target, p);
}
// Enough for all cores, but none of so few keys that joining it costs as much.
int64_t attention_parts(const Target& target, const AttentionProblem& p) {
  constexpr int64_t kFewKeys = 256;
  const Rates r = rates_of(target.caps);
  const auto wanted = static_cast<int64_t>(r.cpu ? 2 * r.cores : r.lanes / 256);
  const int64_t groups = std::max<int64_t>(1, blocked_groups(p));
  return std::clamp<int64_t>(ceil_div(wanted, groups), 1, std::max<int64_t>(1, p.keys / kFewKeys));
}

Dispatch join_parts(const Lowering& l, const AttentionProblem& p) {
  const int64_t tasks = p.batch() * p.kv_heads() * p.rows() * p.value();
  return l.make<kernels::attention_join>({.carry = p.carry, .y = p.y, .log_sum = p.log_sum},
                                         {.first = 0,
                                          .end = to_u32(tasks),
                                          .parts = to_u32(p.parts),
                                          .value = to_u32(p.value()),
                                          .rows = to_u32(p.rows()),
                                          .queries = to_u32(p.queries()),
                                          .y_member = stride(p.y, 2),
                                          .y_row = stride(p.y, 3),
                                          .empty_share = empty_share(p)},
                                         ceil_div(tasks, flat_pieces(l.caps())));
}

Dispatch make_attention(Lowering& l, const AttentionVariant& variant, const AttentionProblem& part) {
  return l.choose(Attention::kName, variant, part).make(l, part);
}

}  // namespace rlx
