// What tests do to the inside of devices, executables and stores, and count there.
#pragma once

#include <cstdint>

#include "rlx/device.h"
#include "rlx/executable.h"
#include "rlx/store.h"

namespace rlx {

// As if the driver had lost the device.
void force_loss(const Device& device);

// Of all runs so far.
int64_t submit_count(const Executable& executable);
// How many nodes were lowered again so far because a symbol had another value.
int64_t relowered_count(const Executable& executable);
// How many times a tensor was sent from the host.
uint64_t upload_count(const Store& store);

}  // namespace rlx
