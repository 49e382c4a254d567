// The border of the public API: what leaves it is an rlx::Error, whatever happened inside.
//
//   Tensor read_npy(const std::string& path) try {
//     ...
//   } catch (...) {
//     throw_as_error("reading an npy file");
//   }
#pragma once

namespace rlx {

// In a handler only: throws what was caught again, as an Error that says what was being done unless it is one
// already.
[[noreturn]] void throw_as_error(const char* doing);

}  // namespace rlx
