// Something that ends by itself: work of the device, pipelines that are made, a device that opens.
#pragma once

#include "rlx/progress.h"

namespace rlx {

class Completion {
 public:
  Completion() = default;
  Completion(Completion&&) = default;
  Completion& operator=(Completion&&) = default;
  virtual ~Completion() = default;

  virtual bool ready() = 0;  // wait() would not block
  virtual void wait() = 0;   // until it has ended; throws if it failed
  // How far it is, if that can be counted.
  virtual ProgressReport progress() const { return {}; }
};

// Work that goes on when somebody asks for it.
class Polled {
 public:
  virtual ~Polled() = default;
  virtual bool poll() = 0;  // goes on as far as it can; true once it has ended
};

}  // namespace rlx
