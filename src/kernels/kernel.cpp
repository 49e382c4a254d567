#include "kernels/kernel.h"

#include <algorithm>

namespace rlx {

bool mentions(const Kernel& kernel, std::string_view function) {
  const std::string call = std::string(function) + "(";
  if (kernel.source.find(call) != std::string::npos) return true;
  return std::ranges::any_of(kernel.libs, [&](const std::string& lib) {
    return library_source(lib).find(call) != std::string_view::npos;
  });
}

}  // namespace rlx
