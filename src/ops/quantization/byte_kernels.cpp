#include "ops/quantization/byte_kernels.h"

#include <algorithm>

#include "base/format.h"
#include "kernels/binder.h"

namespace rlx {

std::string ByteProblem::key() const {
  const Dims& x = conv.x.view.dims;
  const Dims& y = conv.y.view.dims;
  const products::WindowAxis& a = conv.axes[1];
  const products::WindowAxis& b = conv.axes[2];
  return formatted("{} {} kernel {}x{} strides {}x{} channels {} of {} to {} image {}x{}",
                   to_string(conv.x.dtype),
                   conv.layout == ConvLayout::channels_last ? "channels-last" : "channels-first", a.kernel,
                   b.kernel, a.stride, b.stride, size_class(y[1]), size_class(x[2]), size_class(y[2]),
                   size_class(a.out), size_class(b.out));
}

View with_channels_last(const View& v) { return v.permute({0, 2, 3, 4, 5, 1}); }

bool is_per_channel(const View& v) {
  for (const size_t axis : {0u, 3u, 4u, 5u}) {
    if (v.strides[axis] != 0 && v.dims[axis] != 1) return false;
  }
  return true;
}

void ByteParts::add(const std::string& name, const Operand& o, bool out, bool x4) {
  kernel.operands.push_back({.name = name, .kind = OperandDecl::Kind::any, .out = out, .x4 = x4});
  operands.push_back(o);
}

Dispatch ByteParts::dispatch(const Lowering& l, int64_t groups) {
  return l.make(make_kernel(kernel), std::move(operands), std::as_bytes(std::span(params)), groups);
}

}  // namespace rlx
