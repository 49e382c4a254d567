// A 64-bit content hash for cache keys and common subexpressions (FNV-1a).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rlx {

class Hash {
 public:
  Hash& bytes(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      state_ = (state_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ull;
    }
    return *this;
  }
  Hash& text(std::string_view s) { return number(s.size()).bytes(s.data(), s.size()); }
  Hash& number(uint64_t n) { return bytes(&n, sizeof n); }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};

}  // namespace rlx
