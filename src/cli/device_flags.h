// The flags that choose a device, the same for every command that needs one.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "rlx/device.h"

namespace rlx::cli {

struct DeviceFlags {
  std::string backend;
  std::string adapter;
  bool software = false;
  bool no_software = false;
  bool experimental = false;
  std::string limits;

  void add_to(Command& command);
  DeviceOptions options() const;
  Device open() const;
  std::vector<std::string> words() const;     // the flags as they are given
  std::vector<AdapterInfo> adapters() const;  // those that the flags allow
};

}  // namespace rlx::cli
