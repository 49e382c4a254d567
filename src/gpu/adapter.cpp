#include "gpu/adapter.h"

#include <dawn/native/DawnNative.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ranges>
#include <tuple>

#include "base/fail.h"
#include "base/flags.h"
#include "gpu/adapter_search.h"
#include "gpu/call_scope.h"

namespace rlx::gpu {

namespace {

struct BackendName {
  wgpu::BackendType type;
  const char* name;
  std::array<const char*, 2> aliases;  // what wgpu's WGPU_BACKEND also takes
};

// In order of preference: the platform's own API first. Usually only one of the first three exists on a
// platform.
constexpr BackendName kBackends[] = {
    {wgpu::BackendType::Metal, "metal", {"mtl"}},  {wgpu::BackendType::D3D12, "d3d12", {"dx12"}},
    {wgpu::BackendType::Vulkan, "vulkan", {"vk"}}, {wgpu::BackendType::D3D11, "d3d11", {"dx11"}},
    {wgpu::BackendType::OpenGL, "opengl", {"gl"}}, {wgpu::BackendType::OpenGLES, "opengles", {"gles"}},
};

int preference(wgpu::BackendType type) {
  const auto* row = std::ranges::find(kBackends, type, &BackendName::type);
  return static_cast<int>(row - std::begin(kBackends));
}

std::string backend_name(wgpu::BackendType type) {
  const auto* row = std::ranges::find(kBackends, type, &BackendName::type);
  return row == std::end(kBackends) ? "unknown" : row->name;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The canonical names in a comma-separated list; empty for "any".
std::vector<std::string> wanted_backends(const DeviceOptions& options) {
  const bool from_environment = options.backend.empty();
  const std::string list = from_environment ? env_text("WGPU_BACKEND") : options.backend;
  std::vector<std::string> names;
  for (const auto part : std::views::split(list, ',')) {
    const std::string name = lower_case(trim(std::string_view(part)));
    if (name.empty()) continue;
    const char* const origin = from_environment ? " in the environment variable WGPU_BACKEND" : "";
    if (name == "null" || name == "noop") {
      fail(ErrorKind::invalid_argument,
           "the backend '{}'{} computes nothing, and results would be whatever is in memory: it cannot be "
           "used",
           name, origin);
    }
    const auto* row = std::ranges::find_if(kBackends, [&](const BackendName& b) {
      return name == b.name || std::ranges::any_of(b.aliases, [&](const char* a) { return a && name == a; });
    });
    if (row == std::end(kBackends)) {
      fail(ErrorKind::invalid_argument,
           "the backend '{}'{} is not one of metal, d3d12 (dx12), vulkan (vk), d3d11 (dx11), opengl (gl) and "
           "opengles (gles)",
           name, origin);
    }
    names.emplace_back(row->name);
  }
  return names;
}

AdapterKind kind_of(wgpu::AdapterType type) {
  switch (type) {
    case wgpu::AdapterType::DiscreteGPU:
      return AdapterKind::discrete;
    case wgpu::AdapterType::IntegratedGPU:
      return AdapterKind::integrated;
    case wgpu::AdapterType::CPU:
      return AdapterKind::cpu;
    default:
      return AdapterKind::other;
  }
}

int kind_rank(AdapterKind kind) {
  if (kind == AdapterKind::discrete) return 0;
  if (kind == AdapterKind::integrated) return 1;
  return kind == AdapterKind::cpu ? 3 : 2;
}

struct LimitName {
  const char* name;
  uint64_t (*value)(const wgpu::Limits&);
};

#define RLX_LIMIT(field)                                              \
  LimitName {                                                         \
    #field, [](const wgpu::Limits& l) -> uint64_t { return l.field; } \
  }
// Those that matter for compute; textures and vertices are left out.
constexpr LimitName kLimits[] = {
    RLX_LIMIT(maxBufferSize),
    RLX_LIMIT(maxStorageBufferBindingSize),
    RLX_LIMIT(maxUniformBufferBindingSize),
    RLX_LIMIT(maxStorageBuffersPerShaderStage),
    RLX_LIMIT(maxUniformBuffersPerShaderStage),
    RLX_LIMIT(maxBindGroups),
    RLX_LIMIT(maxBindingsPerBindGroup),
    RLX_LIMIT(minUniformBufferOffsetAlignment),
    RLX_LIMIT(minStorageBufferOffsetAlignment),
    RLX_LIMIT(maxComputeWorkgroupStorageSize),
    RLX_LIMIT(maxComputeInvocationsPerWorkgroup),
    RLX_LIMIT(maxComputeWorkgroupSizeX),
    RLX_LIMIT(maxComputeWorkgroupSizeY),
    RLX_LIMIT(maxComputeWorkgroupSizeZ),
    RLX_LIMIT(maxComputeWorkgroupsPerDimension),
    RLX_LIMIT(maxImmediateSize),
};
#undef RLX_LIMIT

std::vector<std::string> feature_names(const wgpu::Adapter& adapter) {
  wgpu::SupportedFeatures features;
  adapter.GetFeatures(&features);
  std::vector<std::string> names;
  for (size_t i = 0; i < features.featureCount; ++i) {
    if (const auto* info = dawn::native::GetFeatureInfo(features.features[i])) names.emplace_back(info->name);
  }
  return names;
}

uint64_t memory_of(const wgpu::Adapter& adapter) {
  if (!adapter.HasFeature(wgpu::FeatureName::AdapterPropertiesMemoryHeaps)) return 0;
  wgpu::AdapterPropertiesMemoryHeaps heaps;
  wgpu::AdapterInfo info;
  info.nextInChain = &heaps;
  adapter.GetInfo(&info);
  uint64_t total = 0;
  for (size_t i = 0; i < heaps.heapCount; ++i) total += heaps.heapInfo[i].size;
  return total;
}

DType dtype_of(wgpu::SubgroupMatrixComponentType type) {
  switch (type) {
    case wgpu::SubgroupMatrixComponentType::F32:
      return DType::f32;
    case wgpu::SubgroupMatrixComponentType::F16:
      return DType::f16;
    case wgpu::SubgroupMatrixComponentType::U32:
      return DType::u32;
    case wgpu::SubgroupMatrixComponentType::I32:
      return DType::i32;
    case wgpu::SubgroupMatrixComponentType::U8:
      return DType::u8;
    case wgpu::SubgroupMatrixComponentType::I8:
      return DType::i8;
  }
  fail(ErrorKind::internal, "Dawn has a subgroup matrix of components {}", static_cast<uint32_t>(type));
}

std::vector<SubgroupMatrix> matrices_of(const wgpu::Adapter& adapter) {
  if (!adapter.HasFeature(wgpu::FeatureName::ChromiumExperimentalSubgroupMatrix)) return {};
  wgpu::AdapterPropertiesSubgroupMatrixConfigs configs;
  wgpu::AdapterInfo info;
  info.nextInChain = &configs;
  adapter.GetInfo(&info);
  std::vector<SubgroupMatrix> out;
  for (size_t i = 0; i < configs.configCount; ++i) {
    const wgpu::SubgroupMatrixConfig& c = configs.configs[i];
    out.push_back({dtype_of(c.componentType), dtype_of(c.resultComponentType), c.M, c.N, c.K});
  }
  return out;
}

// Some drivers, such as those of Mesa for Apple's GPUs, name themselves as the vendor.
GpuFamily family_of(std::string_view vendor, const std::string& name) {
  for (const GpuFamily family :
       {GpuFamily::amd, GpuFamily::nvidia, GpuFamily::apple, GpuFamily::qualcomm, GpuFamily::intel}) {
    if (vendor == to_string(family) || lower_case(name).starts_with(to_string(family))) return family;
  }
  return GpuFamily::other;
}

AdapterInfo describe(int index, const wgpu::Adapter& adapter) {
  wgpu::AdapterInfo raw;
  adapter.GetInfo(&raw);
  wgpu::Limits limits;
  adapter.GetLimits(&limits);

  AdapterInfo info;
  info.index = index;
  info.name = std::string_view(raw.device);
  info.backend = backend_name(raw.backendType);
  info.vendor = std::string_view(raw.vendor);
  info.architecture = std::string_view(raw.architecture);
  info.driver = std::string_view(raw.description);
  info.features = feature_names(adapter);
  for (const LimitName& limit : kLimits) info.limits.emplace_back(limit.name, limit.value(limits));
  info.caps = {
      .adapter = info.name,
      .kind = kind_of(raw.adapterType),
      .family = family_of(info.vendor, info.name),
      .memory_bytes = memory_of(adapter),
      .shader_f16 = static_cast<bool>(adapter.HasFeature(wgpu::FeatureName::ShaderF16)),
      .subgroups = static_cast<bool>(adapter.HasFeature(wgpu::FeatureName::Subgroups)),
      .timestamps = static_cast<bool>(adapter.HasFeature(wgpu::FeatureName::TimestampQuery)),
      .subgroup_min_size = raw.subgroupMinSize,
      .subgroup_max_size = raw.subgroupMaxSize,
      .subgroup_size_control = static_cast<bool>(adapter.HasFeature(wgpu::FeatureName::SubgroupSizeControl)),
      .subgroup_matrices = matrices_of(adapter),
      // Sizes of buffers and copies are multiples of 4; 4 GiB - 1 is what drivers with a 32-bit limit say.
      .max_buffer_bytes = limits.maxBufferSize / 4 * 4,
      .max_binding_bytes = limits.maxStorageBufferBindingSize / 4 * 4,
      .max_storage_buffers = limits.maxStorageBuffersPerShaderStage,
      .max_workgroups_per_dimension = limits.maxComputeWorkgroupsPerDimension,
      .max_invocations_per_workgroup = limits.maxComputeInvocationsPerWorkgroup,
      .max_workgroup_bytes = limits.maxComputeWorkgroupStorageSize,
      .max_uniform_bytes =
          static_cast<uint32_t>(std::min<uint64_t>(limits.maxUniformBufferBindingSize, 1u << 30)),
  };
  return info;
}

// Dawn offers a device that accepts all commands and computes nothing.
bool computes(const wgpu::Adapter& adapter) {
  wgpu::AdapterInfo raw;
  adapter.GetInfo(&raw);
  return raw.backendType != wgpu::BackendType::Null;
}

bool fits(const AdapterInfo& info, const DeviceOptions& options, const std::vector<std::string>& backends) {
  const bool named = options.adapter_index >= 0;
  if (named && info.index != options.adapter_index) return false;
  if (!backends.empty() && !std::ranges::contains(backends, info.backend)) return false;
  if (options.software.has_value() && *options.software != info.caps.software()) return false;
  const std::string part =
      lower_case(options.adapter_name.empty() ? env_text("WGPU_ADAPTER_NAME") : options.adapter_name);
  return lower_case(info.name).contains(part);
}

// Where Dawn's log goes while this thread searches: Dawn's default is stderr. The callback outlives the
// search.
thread_local std::string* search_log = nullptr;

struct LogScope {
  explicit LogScope(std::string& log) { search_log = &log; }
  ~LogScope() { search_log = nullptr; }
};

void keep_log(WGPULoggingType, WGPUStringView message, void*, void*) {
  if (search_log == nullptr) return;
  if (!search_log->empty()) *search_log += "; ";
  *search_log += std::string_view(wgpu::StringView(message));
}

template <class F>
void for_each_adapter(AdapterSearch& search, const wgpu::RequestAdapterOptions& request, F&& take) {
  const LogScope log_scope(search.log);
  dawn::native::DawnInstanceDescriptor dawn_descriptor;
  dawn_descriptor.loggingCallbackInfo.callback = keep_log;
  const wgpu::InstanceFeatureName features[] = {wgpu::InstanceFeatureName::TimedWaitAny};
  wgpu::InstanceDescriptor descriptor;
  descriptor.nextInChain = &dawn_descriptor;
  descriptor.requiredFeatureCount = std::size(features);
  descriptor.requiredFeatures = features;
  const dawn::native::Instance instance(&descriptor);
  search.instance = wgpu::Instance(instance.Get());
  for (const dawn::native::Adapter& native : instance.EnumerateAdapters(&request))
    take(wgpu::Adapter(native.Get()));
}

}  // namespace

AdapterSearch search_adapters(const DeviceOptions& options) {
  const std::vector<std::string> backends = wanted_backends(options);
  // Dawn hides its unfinished extensions unless this is set before the adapter is made.
  const char* const unsafe = "allow_unsafe_apis";
  wgpu::DawnTogglesDescriptor toggles;
  toggles.enabledToggleCount = options.experimental ? 1 : 0;
  toggles.enabledToggles = &unsafe;
  wgpu::RequestAdapterOptions request;
  request.nextInChain = &toggles;
  AdapterSearch search;
  for_each_adapter(search, request, [&](const wgpu::Adapter& adapter) {
    if (!computes(adapter)) return;
    const AdapterInfo& info = search.all.emplace_back(describe(static_cast<int>(search.all.size()), adapter));
    if (fits(info, options, backends)) search.fitting.push_back({info, adapter});
  });

  std::ranges::stable_sort(search.fitting, {}, [](const FoundAdapter& found) {
    wgpu::AdapterInfo raw;
    found.adapter.GetInfo(&raw);
    return std::tuple(kind_rank(found.info.caps.kind), preference(raw.backendType));
  });
  return search;
}

AdapterSearch search_null_adapter() {
  wgpu::RequestAdapterOptions request;
  request.backendType = wgpu::BackendType::Null;
  AdapterSearch search;
  for_each_adapter(search, request, [&](const wgpu::Adapter& adapter) {
    search.fitting.push_back({describe(0, adapter), adapter});
  });
  return search;
}

std::vector<AdapterInfo> list_adapters(const DeviceOptions& options) {
  const CallScope scope;
  std::vector<AdapterInfo> infos;
  for (FoundAdapter& found : search_adapters(options).fitting) infos.push_back(std::move(found.info));
  return infos;
}

}  // namespace rlx::gpu
