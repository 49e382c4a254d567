#include "gpu/call_scope.h"

namespace rlx::gpu {

namespace {
thread_local int depth = 0;
}

bool inside_call() { return depth > 0; }

CallScope::CallScope() { ++depth; }
CallScope::~CallScope() { --depth; }

}  // namespace rlx::gpu
