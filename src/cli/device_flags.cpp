#include "cli/device_flags.h"

#include "base/limits.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/text.h"

namespace rlx::cli {

void DeviceFlags::add_to(CLI::App& command) {
  const char* const group = "Device";
  command
      .add_option("--backend", backend, "Only these: vulkan, metal, d3d12, opengl, ... (also $WGPU_BACKEND)")
      ->type_name("NAME,...")
      ->group(group);
  command
      .add_option("--adapter", adapter,
                  "An index of `rlx devices`, or a part of a name (also $WGPU_ADAPTER_NAME)")
      ->type_name("NAME")
      ->group(group);
  auto* yes = command.add_flag("--software", software, "Only a software device")->group(group);
  auto* no = command.add_flag("--no-software", no_software, "Never a software device")->group(group);
  yes->excludes(no);
  command
      .add_option(
          "--limit", limits,
          "Less than the device has, for experiments: binding=1M,buffer=64M,buffers=8,workgroups=64,no-f16,"
          "no-subgroups")
      ->type_name("LIMIT,...")
      ->group(group);
}

namespace {

uint64_t parse_bytes(std::string_view text, std::string_view what, uint64_t least) {
  const uint64_t number = parse_size(text, what);
  if (number < least) throw Misuse(formatted("{} is {}; the least is {}", what, number, least));
  return number;
}

uint32_t parse_count(std::string_view text, std::string_view what) {
  const uint64_t number = parse_bytes(text, what, 1);
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
      limits.max_storage_buffers = parse_count(value, what);
    } else if (name == "workgroups") {
      limits.max_workgroups_per_dimension = parse_count(value, what);
    } else {
      throw Misuse(formatted(
          "there is no limit '{}'; there are: binding=BYTES, buffer=BYTES, buffers=N, workgroups=N, "
          "no-f16, no-subgroups",
          item));
    }
  }
  return limits;
}

}  // namespace

DeviceOptions DeviceFlags::options() const {
  DeviceOptions options{.backend = backend};
  const bool is_index =
      !adapter.empty() && std::ranges::all_of(adapter, [](char c) { return c >= '0' && c <= '9'; });
  if (is_index) {
    options.adapter_index = static_cast<int>(std::min<uint32_t>(parse_count(adapter, "--adapter"), 1u << 20));
  } else {
    options.adapter_name = adapter;
  }
  if (software || no_software) options.software = software;
  options.limits = parse_limits(limits);
  return options;
}

}  // namespace rlx::cli
