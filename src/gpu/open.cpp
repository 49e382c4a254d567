// Opening a device: the choice of the adapter, the features and toggles, the callbacks.
#include <unistd.h>

#include <algorithm>

#include "base/flags.h"
#include "base/format.h"
#include "base/limits.h"
#include "gpu/adapter_search.h"
#include "gpu/core.h"

namespace rlx::gpu {

namespace {

std::string cache_folder_of(const DeviceOptions& options) {
  if (!options.disk_cache) return {};
  return options.cache_dir.empty() ? cache_folder() : options.cache_dir;
}

// "no adapter with 'nvidia' in its name on the backend 'vulkan'"
std::string request_text(const DeviceOptions& options) {
  const auto choice = [](const std::string& option, const char* variable) {
    return option.empty() ? env_text(variable) : option;
  };
  std::string text = "no ";
  if (options.software) text += *options.software ? "software " : "hardware ";
  text += "adapter";
  if (options.adapter_index >= 0) text += formatted(" of index {}", options.adapter_index);
  if (const std::string name = choice(options.adapter_name, "WGPU_ADAPTER_NAME"); !name.empty()) {
    text += formatted(" with '{}' in its name", name);
  }
  if (const std::string backend = choice(options.backend, "WGPU_BACKEND"); !backend.empty()) {
    text += formatted(" on the backend '{}'", backend);
  }
  return text;
}

[[noreturn]] void fail_without_adapter(const DeviceOptions& options, const AdapterSearch& search) {
  std::string existing;
  for (const AdapterInfo& info : search.all) {
    existing += formatted("{}[{}] '{}' ({}, {})", existing.empty() ? "" : ", ", info.index, info.name,
                          info.backend, to_string(info.caps.kind));
  }
  fail(ErrorKind::unsupported, "there is {}; this machine has {}{}", request_text(options),
       existing.empty() ? "no adapter at all (is a Vulkan driver installed?)" : existing,
       search.log.empty() ? "" : ". Dawn says: " + search.log);
}

// Everything that some kernel variant or the profiler can use, if the adapter has it.
std::vector<wgpu::FeatureName> useful_features(const wgpu::Adapter& adapter) {
  std::vector<wgpu::FeatureName> features = {
      wgpu::FeatureName::ImplicitDeviceSynchronization,  // calls from several threads
      wgpu::FeatureName::ShaderF16,
      wgpu::FeatureName::Subgroups,
      wgpu::FeatureName::SubgroupSizeControl,
      wgpu::FeatureName::TimestampQuery,
      wgpu::FeatureName::ChromiumExperimentalSubgroupMatrix,  // hidden without DeviceOptions::experimental
  };
  std::erase_if(features, [&](wgpu::FeatureName feature) { return !adapter.HasFeature(feature); });
  return features;
}

struct Toggles {
  std::vector<const char*> on, off;
};

Toggles toggles_for(const DeviceOptions& options) {
  // Quantised to 100 us, timestamps would say nothing about a dispatch of 10 us.
  Toggles toggles{.on = {}, .off = {"timestamp_quantization"}};
  if (!options.safe || options.experimental) toggles.on.push_back("allow_unsafe_apis");
  if (!options.safe) toggles.on.insert(toggles.on.end(), {"disable_robustness", "disable_workgroup_init"});
  return toggles;
}

std::span<const std::byte> as_bytes(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

size_t load_from_disk(size_t key_size, const uint8_t* key, size_t value_size, uint8_t* value, void* disk,
                      void*) {
  const CallScope scope;
  return static_cast<DiskCache*>(disk)->load(as_bytes(key, key_size),
                                             std::as_writable_bytes(std::span(value, value_size)));
}

void store_on_disk(size_t key_size, const uint8_t* key, size_t value_size, const uint8_t* value, void* disk,
                   void*) {
  const CallScope scope;
  static_cast<DiskCache*>(disk)->store(as_bytes(key, key_size), as_bytes(value, value_size));
}

void on_loss(const WGPUDevice*, WGPUDeviceLostReason, WGPUStringView message, void* core, void*) {
  const CallScope scope;
  static_cast<Core*>(core)->note_loss(std::string(std::string_view(wgpu::StringView(message))));
}

void on_error(const WGPUDevice*, WGPUErrorType type, WGPUStringView message, void* core, void*) {
  const CallScope scope;
  static_cast<Core*>(core)->note_error(static_cast<wgpu::ErrorType>(type), wgpu::StringView(message));
}

struct OpenResult {
  wgpu::Device device;
  std::string message;
};

// The C structures: the setters of Dawn's C++ wrapper for the cache do not compile with every compiler.
wgpu::Future request_device(Core& core, const wgpu::Adapter& adapter, const DeviceOptions& options,
                            OpenResult& result) {
  const std::vector<wgpu::FeatureName> features = useful_features(adapter);
  const Toggles toggles = toggles_for(options);
  wgpu::Limits limits;
  adapter.GetLimits(&limits);

  WGPUDawnTogglesDescriptor toggle_link = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  toggle_link.enabledToggleCount = toggles.on.size();
  toggle_link.enabledToggles = toggles.on.data();
  toggle_link.disabledToggleCount = toggles.off.size();
  toggle_link.disabledToggles = toggles.off.data();

  WGPUDawnCacheDeviceDescriptor cache_link = WGPU_DAWN_CACHE_DEVICE_DESCRIPTOR_INIT;
  cache_link.chain.next = &toggle_link.chain;
  cache_link.isolationKey = {DiskCache::kFormat, WGPU_STRLEN};
  cache_link.dawnLoadCacheDataCallbackInfo.callback = load_from_disk;
  cache_link.dawnLoadCacheDataCallbackInfo.userdata1 = &core.disk;
  cache_link.dawnStoreCacheDataCallbackInfo.callback = store_on_disk;
  cache_link.dawnStoreCacheDataCallbackInfo.userdata1 = &core.disk;

  WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
  descriptor.nextInChain = &cache_link.chain;
  descriptor.requiredFeatureCount = features.size();
  descriptor.requiredFeatures = reinterpret_cast<const WGPUFeatureName*>(features.data());
  descriptor.requiredLimits = reinterpret_cast<const WGPULimits*>(&limits);
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = on_loss;
  descriptor.deviceLostCallbackInfo.userdata1 = &core;
  descriptor.uncapturedErrorCallbackInfo.callback = on_error;
  descriptor.uncapturedErrorCallbackInfo.userdata1 = &core;

  return adapter.RequestDevice(
      reinterpret_cast<const wgpu::DeviceDescriptor*>(&descriptor), wgpu::CallbackMode::WaitAnyOnly,
      [](wgpu::RequestDeviceStatus, wgpu::Device device, wgpu::StringView message, OpenResult* opened) {
        opened->device = std::move(device);
        opened->message = std::string_view(message);
      },
      &result);
}

// 0 where it cannot be asked for.
uint64_t host_memory() {
#ifdef _SC_PHYS_PAGES
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0) return static_cast<uint64_t>(pages) * static_cast<uint64_t>(size);
#endif
  return 0;
}

}  // namespace

struct DeviceOpening::Impl {
  explicit Impl(std::shared_ptr<Core> with) : core(std::move(with)) {}
  ~Impl() {
    const CallScope scope;
    finish();
  }
  void finish() {
    if (is_pending) core->instance.WaitAny(future, UINT64_MAX);
    is_pending = false;
  }
  // The callback knows where the result is: this does not move, and outlives it.
  std::shared_ptr<Core> core;
  OpenResult result;
  wgpu::Future future;
  bool is_pending = false;
};

DeviceOpening::DeviceOpening(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceOpening::~DeviceOpening() = default;
DeviceOpening::DeviceOpening(DeviceOpening&&) noexcept = default;
DeviceOpening& DeviceOpening::operator=(DeviceOpening&&) noexcept = default;

bool DeviceOpening::ready() {
  const CallScope scope;
  if (impl_->is_pending && impl_->core->poll(impl_->future)) impl_->is_pending = false;
  return !impl_->is_pending;
}

void DeviceOpening::wait() {
  const CallScope scope;
  impl_->finish();
}

std::shared_ptr<Device> DeviceOpening::take() {
  const CallScope scope;
  impl_->finish();
  std::shared_ptr<Core> core = std::move(impl_->core);
  if (!impl_->result.device) {
    fail(ErrorKind::unsupported, "the adapter '{}' ({}) did not open: {}", core->info.name,
         core->info.backend, impl_->result.message);
  }
  core->device = std::move(impl_->result.device);
  core->queue = core->device.GetQueue();

  // Warnings would go to stderr; what is an error also arrives at on_error.
  WGPULoggingCallbackInfo logging = WGPU_LOGGING_CALLBACK_INFO_INIT;
  logging.callback = [](WGPULoggingType, WGPUStringView, void*, void*) {};
  wgpuDeviceSetLoggingCallback(core->device.Get(), logging);
  return std::shared_ptr<Device>(new Device(std::move(core)));
}

namespace {

DeviceOpening open_core(std::shared_ptr<Core> core, const wgpu::Adapter& adapter,
                        const DeviceOptions& options) {
  auto opening = std::make_unique<DeviceOpening::Impl>(std::move(core));
  opening->future = request_device(*opening->core, adapter, options, opening->result);
  opening->is_pending = true;
  return DeviceOpening(std::move(opening));
}

}  // namespace

DeviceOpening Device::start_opening(const DeviceOptions& options) {
  const CallScope scope;
  // Makes the folder of the cache, in which a driver that is told to may want one of its own when it is
  // loaded.
  auto core = std::make_shared<Core>(cache_folder_of(options));
  const AdapterSearch search = search_adapters(options);
  if (search.fitting.empty()) fail_without_adapter(options, search);
  const FoundAdapter& best = search.fitting.front();

  core->instance = search.instance;
  core->info = best.info;
  core->caps = lowered(best.info.caps, options.limits);
  core->wgsl_dir = options.wgsl_dir.empty() ? env_text("RLX_WGPU_DUMP_WGSL") : options.wgsl_dir;
  core->worker_threads = options.worker_threads;
  core->compiles_late = best.info.caps.software();
  core->side_options = options;
  core->side_options.worker_threads = false;
  core->side_options.progress = {};
  core->side_options.disk_cache &= !env_flag("MESA_SHADER_CACHE_DISABLE");
  core->progress = options.progress;
  core->budget = options.memory_budget != 0         ? options.memory_budget
                 : best.info.caps.memory_bytes != 0 ? best.info.caps.memory_bytes
                                                    : host_memory() / 2;
  return open_core(std::move(core), best.adapter, options);
}

std::shared_ptr<Device> Device::open(const DeviceOptions& options) { return start_opening(options).take(); }

std::shared_ptr<Device> Device::open_for_checks() {
  const CallScope scope;
  const AdapterSearch search = search_null_adapter();
  if (search.fitting.empty()) return nullptr;
  auto core = std::make_shared<Core>(std::string());
  core->instance = search.instance;
  core->info = search.fitting.front().info;
  core->caps = core->info.caps;
  return open_core(std::move(core), search.fitting.front().adapter, {}).take();
}

}  // namespace rlx::gpu
