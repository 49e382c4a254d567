#include "kernels/variant.h"

#include <bit>

#include "base/format.h"

namespace rlx {

uint32_t Candidate::at(std::string_view name) const {
  for (const Constant& c : constants) {
    if (c.name == name) return c.value;
  }
  fail(ErrorKind::internal, "the candidate '{}' has no constant {}", text(), name);
}

std::string Candidate::text() const {
  std::string out;
  for (const Constant& c : constants) out += formatted("{}{}={}", out.empty() ? "" : " ", c.name, c.value);
  return out;
}

std::vector<Candidate> one_candidate(double ns) { return {Candidate{.ns = ns}}; }

std::string size_class(int64_t size) {
  return size <= 0 ? "=0" : formatted("<={}", std::bit_ceil(static_cast<uint64_t>(size)));
}

}  // namespace rlx
