// The order of rows of ranks, for sort, topk and ops that bring equal elements together.
#pragma once

#include <string>
#include <string_view>

#include "kernels/lowering.h"

namespace rlx {

// Which bits of ranks differ: [low, high).
struct RankBits {
  int64_t low, high;
};
RankBits rank_bits(DType dtype);

// Ranks of the elements of rows (ops/machinery/rows.h) of x, u32[rows, pitch]: the smaller comes first, and
// NaN is greater than any number. What is beyond a row comes last.
Operand lower_ranks(Lowering& l, const Operand& x, bool descending, int64_t pitch);

struct OrderProblem {
  std::string_view op;  // whose kernels these are
  Operand ranks;        // u32[rows, pitch]; from `length` on, all bits are set
  int64_t rows = 0;
  int64_t length = 0;
  int64_t count = 0;  // how many are wanted
  RankBits bits{0, 32};
  Operand y;  // [rows, count] of an integer type of 32 bits

  std::string key() const;
};

using OrderVariant = Variant<OrderProblem, bool>;
bool select_applies(const Target& target, const OrderProblem& p);
bool network_applies(const Target& target, const OrderProblem& p);
bool chunks_apply(const Target& target, const OrderProblem& p);
std::vector<Candidate> select_candidates(const Target& target, const OrderProblem& p);
std::vector<Candidate> network_candidates(const Target& target, const OrderProblem& p);
std::vector<Candidate> chunks_candidates(const Target& target, const OrderProblem& p);
std::vector<Candidate> radix_candidates(const Target& target, const OrderProblem& p);
std::vector<Candidate> radix_serial_candidates(const Target& target, const OrderProblem& p);
bool run_select(Lowering& l, const OrderProblem& p, const Candidate& c);
bool run_network(Lowering& l, const OrderProblem& p, const Candidate& c);
bool run_chunks(Lowering& l, const OrderProblem& p, const Candidate& c);
bool run_radix(Lowering& l, const OrderProblem& p, const Candidate& c);
bool run_radix_serial(Lowering& l, const OrderProblem& p, const Candidate& c);

// A list of the best in each invocation; a sorting network in workgroup memory; the best of chunks, and then
// of the best chunks; four bits after the other, counted by workgroups or by single invocations.
inline constexpr OrderVariant kOrderVariants[] = {
    {"select", select_applies, select_candidates, run_select},
    {"network", network_applies, network_candidates, run_network},
    {"chunks", chunks_apply, chunks_candidates, run_chunks},
    {"radix", always, radix_candidates, run_radix},
    {"radix_serial", always, radix_serial_candidates, run_radix_serial},
};

// y = the indices of the first `count` of each row in ascending order of their ranks; equal ones stay in
// order.
void lower_order(Lowering& l, const OrderProblem& p);
// The pitch that ranks should have for this.
int64_t order_pitch(int64_t length, int64_t count);

}  // namespace rlx
