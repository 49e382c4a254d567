// Lavapipe translates a pipeline to instructions when it is first dispatched, on the one thread of its queue,
// and keeps the result on disk. It does so for a dispatch without workgroups too, and devices do it at the
// same time: pipelines are ready before the first run, and those that are new are shared out among devices.
#pragma once

#include <memory>
#include <vector>

#include "gpu/core.h"

namespace rlx::gpu {

// Submits a dispatch without workgroups. Where that fails, the pipeline is compiled when it is used.
void dispatch_nothing(Core& core, const Pipeline::Impl& pipeline);

// Another device on the same adapter, where one thread has pipelines compiled for the disk cache of the
// driver.
class SideDevice {
 public:
  explicit SideDevice(Core& core) : core_(core) {}

  // False if there is no such device; the caller's own then has to compile it.
  bool compile(std::shared_ptr<const Pipeline::Impl> pipeline);
  // Closes the device, after which the driver has written everything, and has the caller's own device take
  // from the disk cache what was compiled here.
  void finish();

 private:
  Core& core_;
  std::shared_ptr<Device> device_;
  bool failed_ = false;
  std::vector<std::shared_ptr<const Pipeline::Impl>> compiled_;
};

}  // namespace rlx::gpu
