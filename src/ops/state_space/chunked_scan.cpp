#include "ops/state_space/chunked_scan.h"

#include <algorithm>

#include "kernels/scan_carry.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

void expect_input_shape(const InferArgs& in, int64_t input, std::string_view what, const Shape& wanted) {
  in.expect_float(input);
  if (!(in.shape(input) == wanted))
    fail("{}: {} is {}; it must be {}", in.op(), what, in.shape(input).text(), wanted.text());
}

void expect_state(const InferArgs& in, int64_t input, const Shape& wanted) {
  if (!in.has(input)) return;
  in.expect_dtype(input, in.dtype(input) == DType::f32, "f32, as all states");
  expect_input_shape(in, input, "the initial state", wanted);
}

std::array<uint32_t, 4> strides_of(const Operand& o, std::array<int64_t, 4> axes) {
  std::array<uint32_t, 4> out{};
  for (size_t i = 0; i < axes.size() && o.present(); ++i) {
    if (axes[i] < 0) continue;
    out[i] = static_cast<uint32_t>(to_i32(o.view.strides[static_cast<size_t>(axes[i])]));
  }
  return out;
}

bool reads_fours(const Operand& o) {
  const View& v = o.view;
  if (v.strides.back() != 1 || v.dims.back() % 4 != 0 || v.offset % 4 != 0) return false;
  return std::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
}

void begin_state(Lowering& l, const Operand& initial, const Operand& state) {
  if (initial.present()) {
    lower_copy(l, initial, state);
  } else {
    lower_fill(l, state, 0);
  }
}

Dispatch carry_dispatch(const Lowering& l, const CarryProblem& p) {
  using Kernel = kernels::scan_carry;
  const Dims& dims = p.chunks.view.dims;
  return l.make<Kernel>({.rates = p.rates, .kept = p.kept, .chunks = p.chunks, .state = p.state},
                        {.rows = to_u32(dims[0]),
                         .count = to_u32(dims[1]),
                         .width = to_u32(dims[3]),
                         .height = to_u32(dims[2]),
                         .chunk_strides = strides_of(p.chunks, {0, 1, 2, 3}),
                         .kept_strides = strides_of(p.kept, {0, 1, 2, 3}),
                         .state_strides = strides_of(p.state, {0, -1, 1, 2}),
                         .rates_strides = strides_of(p.rates, {-1, -1, 0, 1})},
                        ceil_div(dims[0] * dims[2] * dims[3], int64_t{Kernel::GROUP}));
}

}  // namespace rlx
