// What ops that draw random numbers share.
#pragma once

#include "ir/op.h"
#include "ir/reference.h"
#include "ops/random/threefry.h"

namespace rlx {

// An error unless that input is an integer tensor of one or two elements, and the stream is a u32.
void expect_seed(const InferArgs& in, int64_t input, int64_t stream);

// The words of a seed and a stream, on the host.
class Draws {
 public:
  Draws(const RefTensor& seed, int64_t stream);
  Words words(int64_t row, int64_t number) const {
    return threefry(key_, {static_cast<uint32_t>(row), static_cast<uint32_t>(number)});
  }
  // In [0, 1), a multiple of 2^-24.
  double uniform(int64_t i) const { return static_cast<double>(words(0, i)[0] >> 8) * 0x1p-24; }
  double gumbel(int64_t row, int64_t number) const { return gumbel_of(words(row, number)[0]); }

 private:
  Words key_;
};

}  // namespace rlx
