// The flags that choose a device, the same for every command that needs one.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "rlx/device.h"

namespace rlx::cli {

struct DeviceFlags {
  std::string backend;
  std::string adapter;
  bool software = false;
  bool no_software = false;
  std::string limits;

  void add_to(CLI::App& command);
  DeviceOptions options() const;
  Device open() const { return Device::open(options()); }
};

}  // namespace rlx::cli
