// What the build embeds (tools/embed_kernels.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace rlx::kernels {

// All kernels that have a .wgsl file, as opposed to generated ones.
const std::vector<KernelPtr>& all();

// Of the texts of all kernels and of what is in kernels/lib: another one if any of them changes.
uint64_t texts_hash();

// The files of kernels/lib: "lib/flat.wgsl" and its text.
std::span<const std::pair<std::string_view, std::string_view>> fragment_texts();

}  // namespace rlx::kernels
