#include "ops/order/row_order.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/candidates.wgsl.h"
#include "kernels/dispatch_limit.h"
#include "kernels/lib.wgsl.h"
#include "kernels/rank.wgsl.h"
#include "kernels/rates.h"
#include "kernels/select_rows.wgsl.h"
#include "kernels/sort_count.wgsl.h"
#include "kernels/sort_place.wgsl.h"
#include "kernels/sort_rows.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/rows.h"
#include "ops/rearrange/gather_elements.h"
#include "ops/reductions/cumulative.h"
#include "ops/reductions/reduce.h"

namespace rlx {

RankBits rank_bits(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {13, 32};  // as f32, its last bits are zero
    case DType::bf16:
      return {16, 32};
    case DType::i8:
    case DType::u8:
      return {0, 8};
    default:
      return {0, 32};
  }
}

Operand lower_ranks(Lowering& l, const Operand& x, bool descending, int64_t pitch) {
  const Operand ranks = l.scratch(DType::u32, {row_count(x), pitch});
  const bool small = rank_bits(x.dtype).high == 8;
  const uint32_t sign = !is_signed_integer(x.dtype) ? 0 : small ? 0x80U : 0x80000000U;
  l.flat<kernels::rank>({.x = x, .y = ranks},
                        {.length = to_u32(row_length(x)),
                         .pitch = to_u32(pitch),
                         .sign = sign,
                         .mask = small ? 0xffU : 0xffffffffU},
                        {.FLOAT = is_float(x.dtype), .DESCENDING = descending});
  return ranks.with_view(ranks.view, 1);
}

std::string OrderProblem::key() const {
  return formatted("rows{} length {} count{} bits {}", size_class(rows), length, size_class(count),
                   bits.high - bits.low);
}

void lower_order(Lowering& l, const OrderProblem& p) {
  if (p.rows == 0 || p.count == 0) return;
  // Of what cannot be bound by rows, any part can be sorted by digits.
  if (!l.choose(p.op, kOrderVariants, p).make(l, p)) run_radix_serial(l, p, {});
}

// --- Lists ---

bool select_applies(const Target&, const OrderProblem& p) { return p.count <= 16; }

std::vector<Candidate> select_candidates(const Target& target, const OrderProblem& p) {
  const Rates r = rates_of(target.caps);
  const auto rows = static_cast<double>(std::max<int64_t>(p.rows, kernels::select_rows::GROUP));
  return one_candidate(r.dispatch_ns +
                       static_cast<double>(p.length) * r.far_step_ns * std::max(1.0, rows / r.lanes));
}

bool run_select(Lowering& l, const OrderProblem& p, const Candidate&) {
  const Dispatch whole = l.make<kernels::select_rows>({.x = p.ranks, .y = p.y},
                                                      {.end = to_u32(p.rows), .length = to_u32(p.length)}, 0,
                                                      {.KEPT = to_u32(p.count)});
  return l.rows(whole, p.rows, kernels::select_rows::GROUP);
}

// --- The network ---

namespace {

constexpr int64_t kCpuNetworkGroup = 32;
constexpr int64_t kMostSlots = 2048;  // 16 KiB of workgroup memory, which every device has

struct Network {
  int64_t size, slots, group;
};
// The lanes of a CPU take turns, and each turn between two barriers has its price.
Network network_of(const Rates& r, int64_t length) {
  const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length, 2))));
  return {size, std::max<int64_t>(size, 512), r.cpu ? kCpuNetworkGroup : 256};
}

double network_ns(const Rates& r, int64_t rows, int64_t length) {
  const Network n = network_of(r, length);
  const double steps = std::log2(n.size) * (std::log2(n.size) + 1) / 2;
  const double exchanges =
      std::ceil(static_cast<double>(n.slots) / 2 / std::min(static_cast<double>(n.group), r.lanes));
  const double group = steps * (exchanges + r.barrier_steps) * r.step_ns + r.group_ns;
  const auto groups = static_cast<double>(ceil_div(rows * n.size, n.slots));
  return r.dispatch_ns + std::ceil(groups / std::max(1.0, r.lanes / static_cast<double>(n.group))) * group;
}

// `ids` may be absent: indices in the row.
bool emit_network(Lowering& l, const OrderProblem& p, const Operand& ids) {
  const Network n = network_of(rates_of(l.caps()), p.length);
  const Dispatch whole = l.make<kernels::sort_rows>(
      {.x = p.ranks, .ids = ids, .y = p.y},
      {.end = to_u32(p.rows), .length = to_u32(p.length), .count = to_u32(p.count)}, 0,
      {.SIZE = to_u32(n.size), .SLOTS = to_u32(n.slots), .GROUP = to_u32(n.group)});
  return l.rows(whole, p.rows, n.slots / n.size);
}

}  // namespace

bool network_applies(const Target&, const OrderProblem& p) { return p.length <= kMostSlots; }
std::vector<Candidate> network_candidates(const Target& target, const OrderProblem& p) {
  return one_candidate(network_ns(rates_of(target.caps), p.rows, p.length));
}
bool run_network(Lowering& l, const OrderProblem& p, const Candidate&) { return emit_network(l, p, {}); }

// --- Chunks ---
//
// An element that is among the first k lies in one of the k chunks with the best first elements, where chunks
// are compared as their best elements are. So the order of these is found first (in the same way, if there
// are many), and then that of the elements of k chunks, a small part of all.

namespace {

// Such that the elements of k chunks go through a small network.
int64_t chunk_of(int64_t length, int64_t count) {
  const int64_t most = std::max<int64_t>(4, kMostSlots / 4 / count);
  const auto even = static_cast<int64_t>(std::sqrt(static_cast<double>(length) / static_cast<double>(count)));
  return std::clamp<int64_t>(even, 4, most);
}

bool are_worth_it(int64_t length, int64_t count) {
  return count > 0 && count <= kMostSlots / 4 && length >= 64 && count * 8 <= length;
}

}  // namespace

int64_t order_pitch(int64_t length, int64_t count) {
  return are_worth_it(length, count) ? round_up(length, chunk_of(length, count)) : length;
}

bool chunks_apply(const Target&, const OrderProblem& p) { return are_worth_it(p.length, p.count); }

std::vector<Candidate> chunks_candidates(const Target& target, const OrderProblem& p) {
  const Rates r = rates_of(target.caps);
  const int64_t chunk = chunk_of(p.length, p.count);
  const double walk = r.step_ns * std::max(1.0, static_cast<double>(p.rows * p.length) / 4 / r.lanes);
  const double best = network_ns(r, p.rows, std::min(kMostSlots, ceil_div(p.length, chunk)));
  return one_candidate(4 * r.dispatch_ns + walk + best + network_ns(r, p.rows, chunk * p.count));
}

bool run_chunks(Lowering& l, const OrderProblem& p, const Candidate&) {
  const int64_t chunk = chunk_of(p.length, p.count);
  const int64_t chunks = ceil_div(p.length, chunk);
  check(p.ranks.view.dims[1] == chunks * chunk, "ranks have the pitch that order_pitch says");
  const int64_t pitch = order_pitch(chunks, p.count);
  Operand best = l.scratch(DType::u32, {p.rows, pitch});
  if (pitch > chunks) lower_fill(l, best, 0xffffffffU);
  lower_reduce(l, ReduceKind::min, p.ranks.with_view(p.ranks.view.split_axis(1, chunks)), {2},
               best.with_view(best.view.slice(1, 0, chunks)));
  const Operand chosen = l.scratch(DType::u32, {p.rows, p.count});
  OrderProblem among = p;
  among.ranks = best.with_view(best.view, 1);
  among.length = chunks;
  among.y = chosen.with_view(chosen.view, 1);
  lower_order(l, among);
  const Operand ids = l.scratch(DType::u32, {p.rows, p.count * chunk});
  l.flat<kernels::candidates>({.chunks = chosen, .y = ids}, {.chunk = to_u32(chunk)});
  const Operand ranks = l.scratch(DType::u32, ids.view.dims);
  lower_gather_elements(l, p.ranks, ids, 1, ranks);
  OrderProblem last = p;
  last.ranks = ranks.with_view(ranks.view, 1);
  last.length = p.count * chunk;
  return emit_network(l, last, ids.with_view(ids.view, 1));
}

// --- Radix ---

namespace {

constexpr int64_t kDigits = kernels::lib::digits::DIGITS;
constexpr int64_t kDigitBits = 4;
constexpr int64_t kRadixTeam = 64;
constexpr int64_t kRadixShare = 64;

int64_t serial_share(const OrderProblem& p) {
  return std::clamp<int64_t>(p.rows * p.length / 1024, 64, 2048);
}

int64_t passes(const OrderProblem& p) {
  return std::max<int64_t>(1, ceil_div(p.bits.high - p.bits.low, kDigitBits));
}

// Three walks for each pass, of which neighbouring invocations go far apart.
double radix_ns(const Rates& r, const OrderProblem& p, int64_t team, int64_t share) {
  const double tasks = static_cast<double>(p.rows) * static_cast<double>(ceil_div(p.length, share));
  const double walk = static_cast<double>(share) * r.far_step_ns * std::max(1.0, tasks / r.lanes);
  const double meet = team > 1 ? tasks / static_cast<double>(team) * r.group_ns : 0;
  return static_cast<double>(passes(p)) * (5 * r.dispatch_ns + 3 * walk + 2 * meet);
}

class Radix {
 public:
  Radix(Lowering& l, const OrderProblem& p, const Team& team, int64_t share)
      : l_(l),
        p_(p),
        team_(team),
        share_(share),
        block_(team.size * share),
        blocks_(ceil_div(p.length, block_)) {}

  void run() {
    Operand ranks = p_.ranks.with_view(p_.ranks.view.slice(1, 0, p_.length), 1);
    Operand ids;
    for (int64_t bit = p_.bits.low, left = passes(p_); left > 0; bit += kDigitBits, --left) {
      const bool last = left == 1;
      const Operand counts = l_.scratch(DType::u32, {p_.rows, kDigits, blocks_});
      count(ranks, counts.with_view(counts.view, 1), bit);
      const Operand before = l_.scratch(DType::u32, counts.view.dims);
      const View flat = View::contiguous({p_.rows, kDigits * blocks_});
      lower_scan(l_, {.x = counts.with_view(flat, 1), .y = before.with_view(flat, 1), .exclusive = true});
      const Operand sorted = last ? Operand{} : scratch_rows();
      const Operand to = last ? p_.y : scratch_rows();
      place(
          {.ranks = ranks, .ids = ids, .before = before.with_view(before.view, 1), .sorted = sorted, .y = to},
          bit);
      ranks = sorted;
      ids = to;
    }
  }

 private:
  struct Move {
    Operand ranks, ids, before, sorted, y;
  };
  // Rows and blocks that one dispatch reads.
  struct Part {
    int64_t row, rows, block, blocks;
  };

  Operand scratch_rows() {
    const Operand o = l_.scratch(DType::u32, {p_.rows, p_.length});
    return o.with_view(o.view, 1);
  }

  int64_t begin_of(const Part& part) const { return part.block * block_; }
  int64_t length_of(const Part& part) const {
    return std::min(part.blocks * block_, p_.length - begin_of(part));
  }
  Operand elements(const Operand& o, const Part& part) const {
    if (!o.present()) return o;
    return o.with_view(o.view.slice(0, part.row, part.rows).slice(1, begin_of(part), length_of(part)), 1);
  }
  Operand blocks(const Operand& o, const Part& part) const {
    return o.with_view(o.view.slice(0, part.row, part.rows).slice(2, part.block, part.blocks), 1);
  }

  void count(const Operand& ranks, const Operand& counts, int64_t bit) {
    const auto make = [&](const Part& part, int64_t, int64_t) {
      return row_dispatch<kernels::sort_count>(l_, team_, part.rows * part.blocks,
                                               {.x = elements(ranks, part), .y = blocks(counts, part)},
                                               {.blocks = to_u32(part.blocks),
                                                .length = to_u32(length_of(part)),
                                                .share = to_u32(share_),
                                                .shift = to_u32(bit)},
                                               {});
    };
    emit(make, false);
  }

  void place(const Move& m, int64_t bit) {
    const auto make = [&](const Part& part, int64_t window, int64_t windows) {
      const auto to = [&](const Operand& o) {
        if (!o.present()) return o;
        Operand some = o.with_view(o.view.slice(0, part.row, part.rows), 1);
        if (windows > 1) {
          const View::Range all = some.view.range();
          const int64_t length = round_up(ceil_div(all.end - all.begin, windows), kBindingAlignment / 4);
          const int64_t begin = std::min(all.end - 1, all.begin + window * length);
          some.window = {begin, std::min(all.end, begin + length)};
        }
        return some;
      };
      return row_dispatch<kernels::sort_place>(l_, team_, part.rows * part.blocks,
                                               {.x = elements(m.ranks, part),
                                                .ids = elements(m.ids, part),
                                                .before = blocks(m.before, part),
                                                .sorted = to(m.sorted),
                                                .y = to(m.y)},
                                               {.blocks = to_u32(part.blocks),
                                                .length = to_u32(length_of(part)),
                                                .share = to_u32(share_),
                                                .shift = to_u32(bit),
                                                .index = to_u32(begin_of(part)),
                                                .count = to_u32(m.sorted.present() ? p_.length : p_.count)},
                                               {});
    };
    emit(make, true);
  }

  // All parts with all windows of the outputs: as few of them as the device can bind.
  template <class Make>
  void emit(const Make& make, bool may_window) {
    int64_t rows = p_.rows;
    int64_t blocks = blocks_;
    int64_t windows = 1;
    while (true) {
      std::vector<Dispatch> all;
      for (int64_t row = 0; row < p_.rows; row += rows) {
        for (int64_t block = 0; block < blocks_; block += blocks) {
          for (int64_t w = 0; w < windows; ++w) {
            check_dispatch_count(0, std::ssize(all) + 1);
            all.push_back(
                make(Part{row, std::min(rows, p_.rows - row), block, std::min(blocks, blocks_ - block)}, w,
                     windows));
          }
        }
      }
      if (std::ranges::all_of(all, [&](const Dispatch& d) { return fits(d, l_.caps()); })) {
        for (Dispatch& d : all) l_.emit(std::move(d));
        return;
      }
      if (rows > 1) {
        rows = ceil_div(rows, 2);
      } else if (blocks > 1 && (!may_window || blocks * block_ * windows >= p_.length)) {
        blocks = ceil_div(blocks, 2);
      } else if (may_window && windows * kBindingAlignment / 4 < p_.length) {
        windows *= 2;
      } else {
        fail_to_bind(l_.caps());
      }
    }
  }

  Lowering& l_;
  const OrderProblem& p_;
  Team team_;
  int64_t share_;   // elements of an invocation
  int64_t block_;   // elements of a team
  int64_t blocks_;  // of each row
};

}  // namespace

std::vector<Candidate> radix_candidates(const Target& target, const OrderProblem& p) {
  return one_candidate(radix_ns(rates_of(target.caps), p, kRadixTeam, kRadixShare));
}
std::vector<Candidate> radix_serial_candidates(const Target& target, const OrderProblem& p) {
  return one_candidate(radix_ns(rates_of(target.caps), p, 1, serial_share(p)));
}
bool run_radix(Lowering& l, const OrderProblem& p, const Candidate&) {
  Radix(l, p, {"team_workgroup", kRadixTeam, 1}, kRadixShare).run();
  return true;
}
bool run_radix_serial(Lowering& l, const OrderProblem& p, const Candidate&) {
  Radix(l, p, {"team_serial", 1, int64_t{kernels::lib::team_serial::ROWS_PER_GROUP}}, serial_share(p)).run();
  return true;
}

}  // namespace rlx
