// Kernels that convolutions of bytes have besides those of products.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/lowering.h"
#include "kernels/variant.h"
#include "ops/convolution/conv_problem.h"

namespace rlx {

struct ByteProblem {
  const ConvProblem& conv;

  std::string key() const;
};
// `make` is false, and nothing emitted, if the problem cannot be bound as a whole.
using ByteKernel = Variant<ByteProblem, bool>;

// Channels that have one filter each, along at most two axes: by rows of words, one result after the other,
// or four channels of a pixel at a time.
std::span<const ByteKernel> byte_depthwise_kernels();
// One tap, or windows of few bytes, with channels last: for CPUs.
std::span<const ByteKernel> byte_pointwise_kernels();

// What those kernels have in common.

// The axes in memory, if channels come last: [batch, filters, 3 spatial axes, groups].
View with_channels_last(const View& v);
// Whether all of a channel has the same number, in an operand of the epilogue.
bool is_per_channel(const View& v);

struct ByteParts {
  Kernel kernel;
  OperandList operands;
  std::vector<uint32_t> params;

  void add(const std::string& name, const Operand& o, bool out = false, bool x4 = false);
  Dispatch dispatch(const Lowering& l, int64_t groups);
};

}  // namespace rlx
