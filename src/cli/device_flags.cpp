#include "cli/device_flags.h"

#include "base/limits.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "rlx/error.h"

namespace rlx::cli {

void DeviceFlags::add_to(Command& command) {
  const std::string group = "Device";
  command.text("--backend", backend, "Only these: vulkan, metal, d3d12, opengl, ... (also $WGPU_BACKEND)",
               {.value = "NAME,...", .group = group});
  command.text("--adapter", adapter,
               "An index from `rlx devices`, or part of a name (also $WGPU_ADAPTER_NAME)",
               {.value = "NAME", .group = group});
  command.flag("--software", software, "Only a software device", {.group = group});
  command.flag("--no-software", no_software, "Never a software device", {.group = group});
  command.exclude("--software", "--no-software");
  command.flag("--experimental", experimental, "Extensions that are not finished, such as subgroup matrices",
               {.group = group});
  command.text("--limit", limits,
               "Less than the device has, for experiments: binding=1M,buffer=64M,buffers=8,workgroups=64,"
               "no-f16,no-subgroups",
               {.value = "LIMIT,...", .group = group});
}

std::vector<std::string> DeviceFlags::words() const {
  std::vector<std::string> out;
  if (!backend.empty()) out.insert(out.end(), {"--backend", backend});
  if (!adapter.empty()) out.insert(out.end(), {"--adapter", adapter});
  if (software) out.emplace_back("--software");
  if (no_software) out.emplace_back("--no-software");
  if (experimental) out.emplace_back("--experimental");
  if (!limits.empty()) out.insert(out.end(), {"--limit", limits});
  return out;
}

namespace {

uint64_t parse_bytes(std::string_view text, std::string_view what, uint64_t least) {
  const uint64_t number = parse_size(text, what);
  if (number < least) throw Misuse(formatted("{} is {}; the minimum is {}", what, number, least));
  return number;
}

uint32_t parse_count(std::string_view text, std::string_view what, uint64_t least) {
  const uint64_t number = parse_bytes(text, what, least);
  if (number > UINT32_MAX) throw Misuse(formatted("{} is {}, which is too large", what, number));
  return static_cast<uint32_t>(number);
}

CapsOverride parse_limits(const std::string& text) {
  CapsOverride limits;
  for (const std::string& item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const std::string what = "the limit '" + name + "'";
    if (item == "no-f16") {
      limits.no_f16 = true;
    } else if (item == "no-subgroups") {
      limits.no_subgroups = true;
    } else if (name == "binding") {
      limits.max_binding_bytes = parse_bytes(value, what, kLeastBindingBytes);
    } else if (name == "buffer") {
      limits.max_buffer_bytes = parse_bytes(value, what, kLeastBindingBytes);
    } else if (name == "buffers") {
      limits.max_storage_buffers = parse_count(value, what, 1);
    } else if (name == "workgroups") {
      limits.max_workgroups_per_dimension = parse_count(value, what, 1);
    } else {
      throw Misuse(formatted(
          "there is no limit '{}'; the limits are: binding=BYTES, buffer=BYTES, buffers=N, workgroups=N, "
          "no-f16, no-subgroups",
          item));
    }
  }
  return limits;
}

}  // namespace

DeviceOptions DeviceFlags::options() const {
  DeviceOptions options{.backend = backend, .experimental = experimental};
  const bool is_index =
      !adapter.empty() && std::ranges::all_of(adapter, [](char c) { return c >= '0' && c <= '9'; });
  if (is_index) {
    options.adapter_index =
        static_cast<int>(std::min<uint32_t>(parse_count(adapter, "--adapter", 0), 1u << 20));
  } else {
    options.adapter_name = adapter;
  }
  if (software || no_software) options.software = software;
  options.limits = parse_limits(limits);
  return options;
}

namespace {

// The name of a backend that does not exist is a wrong argument only if it came as an argument: it may also
// come from the environment.
template <class F>
auto with_options(const DeviceFlags& flags, F use) {
  const DeviceOptions options = flags.options();
  try {
    return use(options);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument || flags.backend.empty()) throw;
    throw Misuse(formatted("--backend: {}", e.what()));
  }
}

}  // namespace

Device DeviceFlags::open() const {
  const Progress progress("opening the device");
  return with_options(*this, [](DeviceOptions options) {
    options.progress = progress_listener();
    return Device::open(options);
  });
}

std::vector<AdapterInfo> DeviceFlags::adapters() const {
  return with_options(*this, [](const DeviceOptions& options) { return list_adapters(options); });
}

}  // namespace rlx::cli
