// The adapters of this machine (each a GPU seen through one API, or a software one) and how a device is
// chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlx/caps.h"
#include "rlx/export.h"
#include "rlx/progress.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct AdapterInfo {
  int index = -1;       // position among all adapters of the machine, whatever the filters: a stable name
  std::string name;     // "llvmpipe (LLVM 21.1.8, 256 bits)"
  std::string backend;  // "vulkan", "metal", "d3d12", "d3d11", "opengl", "opengles"
  std::string vendor;
  std::string architecture;
  std::string driver;
  Caps caps;                          // what the adapter offers, without overrides
  std::vector<std::string> features;  // names as WebGPU spells them: "shader-f16"
  std::vector<std::pair<std::string, uint64_t>> limits;
};

// Which adapter, and how the device on it is set up. Empty options choose the best adapter there is:
// discrete before integrated before software, and the platform's own API before OpenGL.
struct DeviceOptions {
  // One backend or a comma-separated list of those allowed ("vulkan,dx12"); "" reads $WGPU_BACKEND, which has
  // the same form, and failing that allows every backend. Names are as in AdapterInfo::backend, or wgpu's:
  // dx12, gl.
  std::string backend = {};
  // Part of the name, case-insensitive; "" reads $WGPU_ADAPTER_NAME, and failing that allows any.
  std::string adapter_name = {};
  // AdapterInfo::index; -1 allows any.
  int adapter_index = -1;
  // True: only software adapters; false: never one; unset: one only if nothing else fits.
  std::optional<bool> software = {};

  // Limits that lowering sees (Device::caps); the device itself is opened with all that the adapter has.
  CapsOverride limits = {};

  // Bytes of its memory that the device may use for us; 0: all that the adapter tells of, or half of the
  // host's if it tells nothing. What does not fit is an ErrorKind::out_of_memory, after what can be had
  // again has been let go of (docs/sharing.md).
  uint64_t memory_budget = 0;

  // Keeps Dawn's bounds checks in shaders and its zeroing of workgroup memory. Kernels that check their own
  // indices and write before they read may run without them. (No difference was measured on lavapipe: a naive
  // and a tiled 256 x 256 matmul took 33 and 8 ms either way.)
  bool safe = true;

  // Also offers Dawn's unfinished extensions: subgroup matrices.
  bool experimental = false;

  // Keeps compiled shaders on disk, so that a second start does not translate them again.
  bool disk_cache = true;
  // They are kept in its folder `pipelines`; "" reads $RLX_CACHE_DIR, which has the same meaning, and
  // failing that is $XDG_CACHE_HOME/rlx or ~/.cache/rlx.
  std::string cache_dir = {};

  // Kernels are chosen by what Calibration::load_or_measure has stored about this adapter in that folder, if
  // it has. Off: by estimates. Also $RLX_NO_CALIBRATION.
  bool calibrated = true;

  // The directory to which the WGSL of every compiled kernel is written, one file per kernel; "" reads
  // $RLX_WGPU_DUMP_WGSL, and failing that nothing is written.
  std::string wgsl_dir = {};

  // Told about what takes long the first time. Work with pipelines that have not run before is then submitted
  // in pieces and waited for, so that there is something to tell; later runs are as without it.
  ProgressListener progress = {};

  // Kernels are compiled on threads of the device. Off: in the calls that wait, and one in each call that
  // looks whether something is ready.
  bool worker_threads = true;
};

// The adapters that fit the options, best first. If there are none, the list is empty; that is not an error.
std::vector<AdapterInfo> list_adapters(const DeviceOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
