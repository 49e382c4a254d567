// What ops with a carried state (ops/state_space/selective_scan.cpp, ops/state_space/linear_attention.cpp)
// share.
#pragma once

#include <array>
#include <limits>

#include "ir/op.h"
#include "kernels/lowering.h"

namespace rlx {

// An error that says what the input must be, unless it has this shape.
void expect_input_shape(const InferArgs& in, int64_t input, std::string_view what, const Shape& wanted);
// A state that is given is f32.
void expect_state(const InferArgs& in, int64_t input, const Shape& wanted);

// The strides of these axes, as kernels take them; 0 for axis -1 and those of an absent operand.
std::array<uint32_t, 4> strides_of(const Operand& o, std::array<int64_t, 4> axes);

// Whether the last axis can be read four elements at a time.
bool reads_fours(const Operand& o);

// `state`, a whole tensor, becomes `initial`, or zero if that is absent.
void begin_state(Lowering& l, const Operand& initial, const Operand& state);

// The chunks of a scan that all began with zero. Axes of a state are two, and of every operand they come
// last.
struct CarryProblem {
  Operand rates;   // [axis, axis], or absent
  Operand kept;    // [rows, chunks, axis, axis]: what a chunk keeps, as exp(rates * kept) if there are rates
  Operand chunks;  // [rows, chunks, axis, axis]: the state after each chunk, then the one before it
  Operand state;   // [rows, axis, axis]: the state before the first chunk, then the one after the last
};
Dispatch carry_dispatch(const Lowering& l, const CarryProblem& p);

// Memory that is not taken yet, to see whether dispatches with it can be bound.
class UntakenScratch {
 public:
  Operand operator()(Dims dims) {
    return {.storage = next_--, .dtype = DType::f32, .view = View::contiguous(std::move(dims))};
  }

 private:
  int32_t next_ = std::numeric_limits<int32_t>::max();
};

}  // namespace rlx
