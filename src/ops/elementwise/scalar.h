// The scalar functions that element-wise ops are made of: one table row says everything about a function.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string_view>

#include "rlx/dtype.h"

namespace rlx {

struct ScalarFn {
  std::string_view name;
  int arity = 1;
  std::string_view operands = "";  // as in OpInfo; "": x, or a and b
  std::string_view formula;        // for people
  // The ONNX op that it is. Operands that are attributes there follow with their defaults: "Elu alpha=1".
  std::string_view onnx = "";
  enum class Result { same, boolean } result = Result::same;  // `same`: the type of the last argument

  // WGSL for each kind of value, with $0, $1, $2 for the arguments; empty where the function is not defined.
  // Functions that are called are in kernels/lib/math. f16 and bf16 are computed as f32; i64 and i8 as
  // i32; u8 as u32.
  std::string_view f32 = "", i32 = "", u32 = "", boolean = "", c64 = "";
  // Where a result of i64 may need more than the 32 bits it has on the device (kernels/lib/math/i64.wgsl).
  std::string_view i64 = "";

  // The same on the host. Where a pointer is null the function is not defined for that kind.
  double (*real)(const double* a) = nullptr;
  int64_t (*integer)(const int64_t* a) =
      nullptr;  // also for bool; the result is wrapped to the type by the caller
  std::complex<double> (*complex)(const std::complex<double>* a) = nullptr;  // Result::boolean: 1 or 0
  bool (*compare_real)(const double* a) = nullptr;                           // Result::boolean on floats

  int cost = 1;               // of the WGSL, for a compiler: roughly how many additions make as much text
  double ulps = 4;            // error of the f32 form against the exact value, in f32 units in the last place
  double low = -4, high = 4;  // where the sweep samples it (floats)
  double int_low = -50, int_high = 50;  // (integers; clamped to the type)
};

std::span<const ScalarFn> scalar_functions();
// Null when there is none of that name.
const ScalarFn* find_scalar(std::string_view name);
// Whether it is defined for values of that type.
bool defined_for(const ScalarFn& fn, DType dtype);

}  // namespace rlx
