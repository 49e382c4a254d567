// The nodes of a graph that compute nothing.
#pragma once

#include <cstdint>

namespace rlx {

enum class LeafKind : uint8_t { input, param, constant, state };

}  // namespace rlx
