// Marks calls into src/gpu, from entry to return. Two things depend on this: an
// error that Dawn reports during a call is thrown by that call, and a test that counts allocations leaves out
// those made inside (Dawn makes some 30 per run).
#pragma once

namespace rlx::gpu {

// Whether this thread is inside a call into src/gpu, or inside one of its callbacks.
bool inside_call();

class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

}  // namespace rlx::gpu
