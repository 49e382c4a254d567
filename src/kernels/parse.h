// Reads kernel sources and fragments. The build's generator (tools/embed_kernels.cpp) uses the same
// functions, so that `//@` lines have one meaning.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace rlx {

// The text that parse_kernel takes: lines `//# FILE LINE` say where the next line comes from, for messages,
// and `//@ include NAME` is replaced by what `include(NAME)` returns.
std::string kernel_text(const std::string& file, std::string_view source,
                        const std::function<std::string(std::string_view)>& include);

// Without the fragments that the kernel uses: Kernel::enables and OperandDecl::calls are those of its own
// text.
Kernel parse_kernel_alone(std::string text);
// Records the accessors among these called functions.
void add_calls(Kernel& kernel, const std::vector<std::string_view>& calls);

// The names in a text, except in comments; and those of them that are called, or defined as functions, once
// each.
std::vector<std::string_view> identifiers(std::string_view wgsl);
std::vector<std::string_view> called_functions(std::string_view wgsl);

// The constants `const NAME: u32 = 256u;` of a kernel or a fragment, except spec constants.
std::vector<ConstantDecl> host_constants(std::string_view text);

// A top-level declaration of a fragment.
struct Declaration {
  std::string name;
  std::string text;  // with its place in front
  std::vector<std::string> uses;
  bool entry_point = false;
};

// WGSL that kernels share, split into declarations, so that a module has only those it needs. (Compiling all
// of them would add 30 ms to each module.)
struct Fragment {
  std::vector<Declaration> declarations;
  std::vector<std::string> enables;
  std::vector<std::string> calls;
};

// `place` is the file's name for messages; each declaration starts in the first column and ends where its
// braces do.
Fragment parse_fragment(const std::string& place, std::string_view text);

}  // namespace rlx
