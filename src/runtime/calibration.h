// Stored calibrations, and what lowering takes from them.
#pragma once

#include "gpu/device.h"
#include "rlx/calibration.h"

namespace rlx {

MeasuredSpeed speed_of(const Calibration& calibration);
// An error unless the calibration is of this adapter.
void check_adapter(const Calibration& calibration, const std::string& adapter);

// Gives a device that was just opened what is stored about it, if there is something and the options want
// it. Whatever is wrong with a file, the device is as it would be without.
void take_stored_calibration(gpu::Device& device, const DeviceOptions& options);

}  // namespace rlx
