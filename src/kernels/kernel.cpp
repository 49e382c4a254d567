#include "kernels/kernel.h"

#include <algorithm>
#include <cctype>

#include "kernels/fragment.h"

namespace rlx {

std::string_view wgsl_type(DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::i64:
    case DType::i8:
      return "i32";
    case DType::u32:
    case DType::u8:
      return "u32";
    case DType::bool_:
      return "bool";
    case DType::c64:
      return "vec2f";
    default:
      return "f32";
  }
}

namespace {

bool calls(std::string_view text, const std::string& call) {
  for (size_t at = text.find(call); at != std::string_view::npos; at = text.find(call, at + 1)) {
    // k_base( also occurs inside mask_base(.
    const char before = at == 0 ? ' ' : text[at - 1];
    if (std::isalnum(static_cast<unsigned char>(before)) || before == '_') continue;
    const size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    if (!text.substr(line, at - line).contains("//")) return true;
  }
  return false;
}

}  // namespace

bool contains_word(const Kernel& kernel, std::string_view function) {
  const std::string call = std::string(function) + "(";
  return calls(kernel.source, call) || std::ranges::any_of(kernel.libs, [&](const std::string& lib) {
           return std::ranges::any_of(
               fragment(lib), [&](const Declaration& d) { return std::ranges::contains(d.uses, function); });
         });
}

}  // namespace rlx
