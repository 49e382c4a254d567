// The fragments of kernels/lib.
#pragma once

#include <string>
#include <string_view>

#include "kernels/parse.h"

namespace rlx {

const Fragment& common_fragment();  // lib/prelude.wgsl and lib/math
// One of those that kernels `//@ use`; null if there is none of that name.
const Fragment* find_fragment(std::string_view name);

std::vector<std::string> fragment_names();

// The declarations of the kernel's fragments that `text`, its source with the accessors, needs directly or
// indirectly. Those of `instead`, if it is given, take the place of others with the same names.
std::string needed_declarations(const Kernel& kernel, std::string_view text, const Fragment* instead);

}  // namespace rlx
