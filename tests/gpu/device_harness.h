// Small runs on a gpu::Device, for the tests of that layer.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/error.h"

namespace rlx::gpu {

// y = 2 * x + add
constexpr const char* kScale = R"(
struct Params { count: u32, add: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < params.count) { y[id.x] = 2.0 * x[id.x] + params.add; }
}
)";

// About a hundred milliseconds of work for one invocation, whose result depends on every step.
constexpr const char* kSlow = R"(
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(1) fn main() {
  var state = x[0];
  for (var i = 0u; i < 10000000u; i++) { state = state * 1664525u + 1013904223u; }
  x[1] = state;
}
)";

inline PipelineRequest scale_request() {
  return {.label = "scale",
          .wgsl = kScale,
          .bindings = {BindingKind::uniform, BindingKind::read, BindingKind::read_write}};
}
inline PipelineRequest slow_request() {
  return {.label = "slow", .wgsl = kSlow, .bindings = {BindingKind::read_write}};
}

inline DeviceOptions without_disk() { return {.disk_cache = false}; }

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> values_in(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// The error that `action` throws, with its kind and text checked.
template <class Action>
void expect_error(ErrorKind kind, const std::string& part, Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_TRUE(std::string(error.what()).contains(part)) << error.what();
  }
}

// Everything that one small run needs.
struct Scale {
  static constexpr uint32_t kCount = 16;

  explicit Scale(Device& device, float add)
      : device(device),
        pipeline(device.pipeline(scale_request())),
        params(device.create_buffer(BufferUse::uniform, 8, "params")),
        x(device.create_buffer(BufferUse::storage, kCount * 4, "x")),
        y(device.create_buffer(BufferUse::storage, kCount * 4, "y")) {
    struct {
      uint32_t count;
      float add;
    } values{kCount, add};
    device.write(params, 0, std::as_bytes(std::span(&values, 1)));
    const BufferRange ranges[] = {{&params}, {&x}, {&y}};
    group = device.bind_group(pipeline, ranges);
    dispatch = {.pipeline = &pipeline, .group = &group};
    copy = {.from = &y, .bytes = kCount * 4};
  }
  Scale(const Scale&) = delete;

  void set_x(float value) { device.write(x, 0, bytes_of(std::vector<float>(kCount, value))); }

  Readback start() {
    Readback readback = device.readback(kCount * 4);
    device.submit({.dispatches = {&dispatch, 1}, .after = {&copy, 1}, .readback = &readback});
    return readback;
  }

  Device& device;
  Pipeline pipeline;
  Buffer params, x, y;
  BindGroup group;
  DispatchCommand dispatch;
  Copy copy;
};

struct Slow {
  explicit Slow(Device& device)
      : pipeline(device.pipeline(slow_request())), x(device.create_buffer(BufferUse::storage, 8, "x")) {
    const BufferRange range{&x};
    group = device.bind_group(pipeline, {&range, 1});
    dispatch = {.pipeline = &pipeline, .group = &group};
    copy = {.from = &x, .bytes = 8};
  }
  Slow(const Slow&) = delete;

  Pipeline pipeline;
  Buffer x;
  BindGroup group;
  DispatchCommand dispatch;
  Copy copy;
};

class DeviceTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device = Device::open(without_disk());
};

}  // namespace rlx::gpu
