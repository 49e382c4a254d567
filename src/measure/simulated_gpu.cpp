#include "measure/simulated_gpu.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/fail.h"
#include "base/format.h"

namespace rlx::measure {
namespace {

namespace fs = std::filesystem;

// The library's folder is one of a multiarch system, or that of others.
std::optional<std::string> find_library(const std::string& name) {
  std::error_code none;
  std::vector<fs::path> folders = {"/usr/lib64", "/usr/lib", "/usr/local/lib"};
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/lib", none)) {
    if (entry.path().filename().string().contains("-linux-")) folders.push_back(entry.path());
  }
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name, none)) return (folder / name).string();
  }
  return std::nullopt;
}

// radeon_icd.json, or radeon_icd.x86_64.json.
std::optional<std::string> find_icd(const std::string& name) {
  std::error_code none;
  for (const char* folder :
       {"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
      const std::string file = entry.path().filename();
      if (file.starts_with(name + ".") && file.ends_with(".json")) return entry.path().string();
    }
  }
  return std::nullopt;
}

SimulatedGpu radv(const char* name, const char* what, const char* chip) {
  // RDNA has 16 places for waves in a SIMD since its second generation, whatever their size.
  return {.name = name,
          .what = what,
          .driver = "radv",
          .shim = "libamdgpu_noop_drm_shim.so",
          .icd = "radeon_icd",
          .chip = {{"AMDGPU_GPU_ID", chip}},
          .statistics = {{"RADV_DEBUG", "shaderstats"}},
          .prints_code = false,
          .parse = parse_radv_statistics,
          .unit = "waves",
          .most_units = 16};
}

SimulatedGpu turnip(const char* name, const char* what, const char* chip) {
  return {.name = name,
          .what = what,
          .driver = "turnip",
          .shim = "libfreedreno_noop_drm_shim.so",
          .icd = "freedreno_icd",
          .chip = {{"FD_GPU_ID", chip}},
          .statistics = {{"IR3_SHADER_DEBUG", "cs"}},
          .prints_code = true,
          .parse = parse_ir3_statistics,
          .unit = "threads",
          .most_units = 2048};
}

}  // namespace

std::span<const SimulatedGpu> simulated_gpus() {
  static const std::vector<SimulatedGpu> all = {
      radv("rdna3", "AMD RX 7900 XTX, RDNA 3", "navi31"),
      radv("rdna4", "AMD RX 9070 XT, RDNA 4", "gfx1201"),
      {.name = "ampere",
       .what = "NVIDIA GA102, Ampere",
       .driver = "nvk",
       .shim = "libnouveau_noop_drm_shim.so",
       .icd = "nouveau_icd",
       .chip = {{"NOUVEAU_CHIPSET", "172"}},
       .statistics = {{"NAK_DEBUG", "print"}},
       .prints_code = true,
       .parse = parse_nak_statistics,
       .unit = "warps",
       .most_units = 48},
      {.name = "m1",
       .what = "Apple M1",
       .driver = "honeykrisp",
       .shim = "libasahi_noop_drm_shim.so",
       .icd = "asahi_icd",
       .chip = {},
       .statistics = {{"AGX_MESA_DEBUG", "shaderdb"}},
       .prints_code = false,
       .parse = parse_agx_statistics,
       .unit = "threads",
       .most_units = 1024},
      turnip("adreno630", "Qualcomm Adreno 630", "630"),
      turnip("adreno730", "Qualcomm Adreno 730", "730"),
      turnip("adreno750", "Qualcomm Adreno 750", "750"),
  };
  return all;
}

const SimulatedGpu* find_simulated_gpu(std::string_view name) {
  const auto it = std::ranges::find(simulated_gpus(), name, &SimulatedGpu::name);
  return it == simulated_gpus().end() ? nullptr : &*it;
}

std::map<std::string, std::string> environment_of(const SimulatedGpu& gpu) {
  const std::optional<std::string> shim = find_library(gpu.shim);
  if (!shim)
    fail(ErrorKind::unsupported, "{} is not installed: it is in Debian's package mesa-drm-shim", gpu.shim);
  const std::optional<std::string> icd = find_icd(gpu.icd);
  if (!icd)
    fail(ErrorKind::unsupported,
         "Mesa's Vulkan driver {} is not installed: it is in Debian's package mesa-vulkan-drivers",
         gpu.driver);
  std::map<std::string, std::string> out = gpu.chip;
  out.insert({{"LD_PRELOAD", *shim},
              {"VK_DRIVER_FILES", *icd},
              {"MESA_SHADER_CACHE_DISABLE", "true"},
              {"WGPU_BACKEND", "vulkan"},
              {"WGPU_ADAPTER_NAME", ""}});
  return out;
}

std::optional<int64_t> occupancy(const SimulatedGpu& gpu, const ShaderStatistics& statistics) {
  if (!statistics.room) return std::nullopt;
  return std::min(*statistics.room, gpu.most_units);
}

}  // namespace rlx::measure
