// A layer of a transformer with a symbol for its length, products of bytes as in quantised networks, and
// products of floats.
#pragma once

#include <string_view>

namespace rlx::testing {

inline constexpr std::string_view kLengthsModel = R"(graph layer {
  %x = input : f32[1, n, 64]
  %g = param : f32[64]
  %wq = param : f32[64, 64]
  %wk = param : f32[64, 64]
  %wv = param : f32[64, 64]
  %w1 = param : i8[64, 192]
  %w2 = param : i8[192, 64]
  %h = layer_norm(%x, %g)
  %q = matmul(%h, %wq)
  %k = matmul(%h, %wk)
  %v = matmul(%h, %wv)
  %kt = transpose(%k) {perm=[0, 2, 1]}
  %scores = matmul(%q, %kt)
  %masked = tril(%scores)
  %shares = softmax(%masked)
  %mixed = matmul(%shares, %v)
  %b = add(%x, %mixed)
  %c64 = constant {value=tensor f32[] fill 64.0} : f32[]
  %t1 = tanh(%b)
  %m1 = mul(%t1, %c64)
  %i1 = cast(%m1) {to=i8}
  %p1 = matmul(%i1, %w1)
  %f1 = cast(%p1) {to=f32}
  %c4096 = constant {value=tensor f32[] fill 4096.0} : f32[]
  %d1 = div(%f1, %c4096)
  %t2 = tanh(%d1)
  %m2 = mul(%t2, %c64)
  %i2 = cast(%m2) {to=i8}
  %p2 = matmul(%i2, %w2)
  %f2 = cast(%p2) {to=f32}
  %d2 = div(%f2, %c4096)
  %y = add(%b, %d2)
  output y = %y
}
)";

}  // namespace rlx::testing
