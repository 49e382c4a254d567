// The fragments of kernels/lib: WGSL that kernels share, taken apart into declarations, so that a module has
// only those that it needs. (All of the functions together would take a compiler 30 ms for each module.)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace rlx {

// The names in a text, without those in comments.
std::vector<std::string_view> identifiers(std::string_view wgsl);

struct Declaration {
  Declaration(std::string_view name, std::string_view text)
      : name(name), text(text), uses(identifiers(text)), entry_point(text.contains("@compute")) {}

  std::string_view name;
  std::string_view text;
  std::vector<std::string_view> uses;
  bool entry_point;
};

using Fragment = std::vector<Declaration>;

const Fragment& common_fragment();                // lib/prelude.wgsl and lib/math
const Fragment& fragment(std::string_view name);  // of those that kernels `//@ use`

// The declarations of the kernel's fragments that its own text, with the accessors, needs directly or through
// others.
std::string needed_declarations(const Kernel& kernel, std::string_view text);

}  // namespace rlx
