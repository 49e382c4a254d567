// A kernel: WGSL with `//@` lines, parsed once. What it declares and which accessors it calls is recorded
// here, so that nothing searches its text later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

// Which accessors of an operand (kernels/binder.h) are called by the kernel or a fragment that it uses. The
// others are not generated and need no words in the uniform `views`.
struct AccessorCalls {
  bool base = false, step = false, flat = false, at = false;
  bool get = false, put = false, has = false, from_bits = false;
  bool add = false, min = false, max = false, exchange = false;
  bool elsewhere = false;  // by `at` or `flat`, at another index than that of element(i)

  bool walks_flat() const { return at || flat; }
};

// `//@ in x float`, `//@ out y any`, `//@ in b float x4`, `//@ in w encoded`, `//@ out y any atomic`.
struct OperandDecl {
  enum class Kind : uint8_t { float_, int_, any, encoded };
  std::string name;
  Kind kind = Kind::any;
  bool out = false;
  bool x4 = false;      // also read or written four neighbours at a time
  bool atomic = false;  // changed by y_add, y_min, y_max and y_exchange, from any invocation
  AccessorCalls calls = {};
};

// `const TILE: u32 = 8u;  //@ spec` can be given another value when the module is written.
struct SpecDecl {
  std::string name;
  std::string type;
  std::string value;
  size_t begin = 0, end = 0;  // of the value in Kernel::source
};

// A member of struct Params: a 32-bit scalar (u32, i32, f32), a vector of them, or an array of scalars or
// vec4s.
struct ParamDecl {
  std::string name;
  std::string scalar;
  int64_t width = 1;  // of a vector
  int64_t count = 0;  // of an array; 0: none
  size_t offset = 0;  // in the uniform
};

// `const GROUP: u32 = 256u;`, which the host knows as kernels::NAME::GROUP.
struct ConstantDecl {
  std::string name;
  std::string value;
};

struct Kernel {
  std::string name;    // the file's, without .wgsl
  std::string text;    // what was parsed; kernels with the same text are the same object
  std::string source;  // the WGSL without `enable` lines, and with arrays in Params as uniforms need them
  std::vector<OperandDecl> operands;
  std::vector<SpecDecl> specs;
  std::vector<ParamDecl> params;
  size_t params_bytes = 0;
  std::vector<ConstantDecl> constants;
  std::vector<std::string> libs;     // fragments of kernels/lib that it uses, in order
  std::vector<std::string> enables;  // WGSL extensions, including those of its fragments
  bool flat = false;                 // uses lib/flat: whole words of the output are written at once
  bool invocation = false;           // its main takes the struct Invocation of lib/prelude
  bool owns = false;  // defines owns(i), whether a dispatch makes element i: inputs can be bound in pieces
};

using KernelPtr = std::shared_ptr<const Kernel>;

// The kernel with this text, whose first line is `//# FILE 1`: the same object for the same text while it is
// in use. An error names the file and the line.
KernelPtr parse_kernel(std::string text);

// A kernel from generated source: the parts' name, operands and libs become lines before their source.
KernelPtr make_kernel(const Kernel& parts);

// The kernel with fragment `to` in place of `from`, which it uses.
KernelPtr with_fragment(const Kernel& kernel, std::string_view from, std::string_view to);

}  // namespace rlx
