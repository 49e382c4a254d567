// How fast a device is, measured once and kept: what estimates of times start from.
//
//   const rlx::Device device = rlx::Device::open();
//   const auto speed = rlx::Calibration::load_or_measure(device);   // half a second the first time
//   rlx::Executable exe = rlx::compile(graph, device, {.calibration = speed});
//
// A device that is opened after that is calibrated from the start (DeviceOptions::calibrated).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rlx/device.h"
#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct CalibrationOptions {
  // Where files are kept; "" is the folder of the device (DeviceOptions::cache_dir).
  std::string cache_dir = {};
  // Measures even if there is a file.
  bool again = false;
  // Told why a file is passed over, and why none could be written. Nothing is said if it is empty.
  std::function<void(const std::string& text)> log = {};

  // How much is measured. Less takes less time and says less.
  int64_t product_size = 512;       // rows, columns and sums of the product
  int64_t copy_bytes = 64ll << 20;  // of the large copy; the small one has a 32nd of them
  int64_t warm_up = 3;              // runs that do not count
  int64_t repeats = 20;             // runs of which the fastest counts
};

// Times are the device's own, between timestamps before and after a dispatch: nothing of the way to the
// device and back is in them. Those of whole runs are the host's. Always the least of several, since what
// other programs do at the same time can only add to them.
struct Calibration {
  std::string device_name;  // AdapterInfo::name
  std::string backend;
  std::string driver;
  double sgemm_gflops = 0;           // of a product of f32 matrices: 10^9 additions and products a second
  double memory_bw_gbps = 0;         // 10^9 bytes a second, read and written, of a copy beyond the caches
  double cache_bw_gbps = 0;          // of a small one
  double dispatch_ns = 0;            // of a dispatch that computes next to nothing
  double submit_ns = 0;              // of handing the device a run that nobody waits for
  double roundtrip_overhead_ns = 0;  // of such a run with its inputs and outputs

  // An error where the device has no timestamps.
  static Calibration measure(const Device& device, const CalibrationOptions& options = {});
  // The one that is stored, if it is of this adapter with this driver and whole.
  static std::optional<Calibration> load(const Device& device, const CalibrationOptions& options = {});
  // The one that is stored, or else measured now and stored. A file that cannot be written is no error.
  static Calibration load_or_measure(const Device& device, const CalibrationOptions& options = {});

  // Writes wgpu-calib-NAME.json, whole or not at all; returns its path. "" is the usual folder.
  std::string save(const std::string& cache_dir = {}) const;
  static std::string file_name(std::string_view device_name);

  std::string to_json() const;
  // An error that says what is wrong with the text.
  static Calibration from_json(std::string_view text);

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

}  // namespace rlx
RLX_EXPORT_END
