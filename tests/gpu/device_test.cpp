// The device layer on the real device of this machine. No device is a failure, never a skip.
#include "gpu/device.h"

#include <gtest/gtest.h>
#include <format>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/flags.h"
#include "rlx/error.h"

namespace rlx::gpu {
namespace {

namespace fs = std::filesystem;

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

PipelineRequest scale_request() {
  return {.label = "scale",
          .wgsl = kScale,
          .bindings = {BindingKind::uniform, BindingKind::read, BindingKind::read_write}};
}
PipelineRequest slow_request() {
  return {.label = "slow", .wgsl = kSlow, .bindings = {BindingKind::read_write}};
}

DeviceOptions without_disk() { return {.disk_cache = false}; }

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
  Dispatch dispatch;
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
  Dispatch dispatch;
  Copy copy;
};

class TempFolder {
 public:
  TempFolder() : path_(fs::temp_directory_path() / std::format("rlx-gpu-{:08x}", std::random_device()())) {
    fs::create_directories(path_);
  }
  ~TempFolder() { fs::remove_all(path_); }
  std::string string() const { return path_.string(); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path_)) files.push_back(entry.path());
    return files;
  }

 private:
  fs::path path_;
};

// --- adapters ---

TEST(Adapter, ListDescribesEachAdapter) {
  const std::vector<AdapterInfo> adapters = list_adapters();
  ASSERT_FALSE(adapters.empty());
  for (const AdapterInfo& info : adapters) {
    EXPECT_GE(info.index, 0);
    EXPECT_FALSE(info.name.empty());
    EXPECT_NE(info.backend, "null");
    EXPECT_EQ(info.caps.adapter, info.name);
    EXPECT_GE(info.caps.max_binding_bytes, 128u << 20);
    EXPECT_GE(info.caps.max_storage_buffers, 8u);
    EXPECT_FALSE(info.limits.empty());
    EXPECT_EQ(info.caps.shader_f16, std::ranges::contains(info.features, "shader-f16"));
  }
}

TEST(Adapter, NothingThatFitsIsAnEmptyList) {
  EXPECT_TRUE(list_adapters({.adapter_name = "no such adapter"}).empty());
  EXPECT_TRUE(list_adapters({.adapter_index = 1000}).empty());
  EXPECT_TRUE(list_adapters({.backend = "metal,d3d12"}).empty() ||
              list_adapters({.backend = "vulkan"}).empty());
}

TEST(Adapter, FiltersMayBeCombined) {
  const AdapterInfo best = list_adapters().at(0);
  std::string part = best.name.substr(0, 5);
  std::ranges::transform(part, part.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto found = list_adapters({.backend = "null, " + best.backend,
                                    .adapter_name = part,
                                    .adapter_index = best.index,
                                    .software = best.caps.software});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, best.name);
  EXPECT_TRUE(list_adapters({.adapter_index = best.index, .software = !best.caps.software}).empty());
}

TEST(Adapter, UnknownBackendIsAnError) {
  expect_error(ErrorKind::invalid_argument, "the backend 'vulcan' is none of",
               [] { list_adapters({.backend = "vulcan"}); });
}

TEST(Device, OpenErrorListsTheAdapters) {
  const std::string existing = list_adapters().at(0).name;
  expect_error(ErrorKind::unsupported, existing, [] { Device::open({.adapter_name = "no such adapter"}); });
  expect_error(ErrorKind::unsupported, "with 'no such adapter' in its name",
               [] { Device::open({.adapter_name = "no such adapter"}); });
}

TEST(Device, ForcedLimitsAreOnlyNumbers) {
  DeviceOptions options = without_disk();
  options.limits = {
      .max_binding_bytes = 1u << 20, .max_buffer_bytes = 1u << 20, .no_f16 = true, .no_subgroups = true};
  const auto device = Device::open(options);
  EXPECT_EQ(device->caps().max_binding_bytes, 1u << 20);
  EXPECT_FALSE(device->caps().shader_f16);
  EXPECT_FALSE(device->caps().subgroups);
  EXPECT_GT(device->info().caps.max_binding_bytes, 1u << 20);
  EXPECT_EQ(device->create_buffer(BufferUse::storage, 2u << 20, "large").size(), 2u << 20);
}

TEST(Device, UnsafeAndExperimentalDevicesRun) {
  const auto device = Device::open({.safe = false, .experimental = true, .disk_cache = false});
  const bool matrices =
      std::ranges::contains(device->info().features, "chromium-experimental-subgroup-matrix");
  const auto plain = list_adapters().at(0);
  EXPECT_FALSE(std::ranges::contains(plain.features, "chromium-experimental-subgroup-matrix"));
  const std::string enable = matrices ? "enable chromium_experimental_subgroup_matrix;\n" : "";
  EXPECT_TRUE(
      device->pipeline({.label = "enable", .wgsl = enable + kSlow, .bindings = {BindingKind::read_write}}));
}

TEST(Device, NullBackendOpens) {
  const auto device = Device::open({.backend = "null", .disk_cache = false});
  EXPECT_EQ(device->info().backend, "null");
}

// --- buffers and runs ---

class DeviceTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device = Device::open(without_disk());
};

TEST_F(DeviceTest, WritesDispatchesAndReadsBack) {
  Scale scale(*device, 0.5f);
  scale.set_x(3);
  Readback readback = scale.start();
  EXPECT_EQ(values_in<float>(readback.wait()), std::vector<float>(Scale::kCount, 6.5f));
  EXPECT_TRUE(readback.ready());
  EXPECT_EQ(values_in<float>(readback.wait()), std::vector<float>(Scale::kCount, 6.5f)) << "a second wait";
}

TEST_F(DeviceTest, CopiesRunBeforeAndAfterTheDispatches) {
  Scale scale(*device, 1);
  scale.set_x(1);
  const Buffer source = device->create_buffer(BufferUse::storage, 64, "source");
  const Buffer kept = device->create_buffer(BufferUse::storage, 64, "kept");
  device->write(source, 0, bytes_of(std::vector<float>(16, 10)));
  const Copy before{.from = &source, .to = &scale.x, .bytes = 64};
  const Copy after[] = {scale.copy, {.from = &scale.y, .to = &kept, .bytes = 64}};
  Readback readback = device->readback(64);
  device->submit(
      {.before = {&before, 1}, .dispatches = {&scale.dispatch, 1}, .after = after, .readback = &readback});
  EXPECT_EQ(values_in<float>(readback.wait())[0], 21);
  float value = 0;
  device->read(kept, 60, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 21);
}

TEST_F(DeviceTest, NewMemoryIsZeroAndSizesAreRoundedUp) {
  const Buffer buffer = device->create_buffer(BufferUse::storage, 5, "odd");
  EXPECT_EQ(buffer.size(), 8u);
  EXPECT_EQ(device->create_buffer(BufferUse::storage, 0, "none").size(), 4u);
  std::vector<std::byte> bytes(8, std::byte{1});
  device->read(buffer, 0, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(8));
}

TEST_F(DeviceTest, WriteOfOddLengthPadsWithZeros) {
  const Buffer buffer = device->create_buffer(BufferUse::storage, 16, "bytes");
  device->write(buffer, 0, bytes_of(std::vector<uint8_t>(16, 0xff)));
  device->write(buffer, 4, bytes_of(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7}));
  std::vector<uint8_t> bytes(16);
  device->read(buffer, 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, (std::vector<uint8_t>{255, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 0, 255, 255, 255, 255}));

  std::vector<uint8_t> middle(3);
  device->read(buffer, 5, std::as_writable_bytes(std::span(middle)));
  EXPECT_EQ(middle, (std::vector<uint8_t>{2, 3, 4})) << "a read may begin anywhere";
}

TEST_F(DeviceTest, LargeWriteAndReadGoInPieces) {
  std::vector<uint32_t> values((100u << 20) / 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i * 2654435761u);
  const Buffer buffer = device->create_buffer(BufferUse::storage, values.size() * 4, "large");
  device->write(buffer, 0, bytes_of(values));
  std::vector<uint32_t> back(values.size());
  device->read(buffer, 0, std::as_writable_bytes(std::span(back)));
  EXPECT_TRUE(values == back);
}

TEST_F(DeviceTest, ClearSetsZeros) {
  const Buffer buffer = device->create_buffer(BufferUse::storage, 16, "words");
  device->write(buffer, 0, bytes_of(std::vector<uint32_t>{1, 2, 3, 4}));
  device->clear(buffer, 4, 8);
  std::vector<uint32_t> words(4);
  device->read(buffer, 0, std::as_writable_bytes(std::span(words)));
  EXPECT_EQ(words, (std::vector<uint32_t>{1, 0, 0, 4}));
}

TEST_F(DeviceTest, SeveralSubmitsInFlightKeepTheirResults) {
  Scale scale(*device, 0);
  std::vector<Readback> pending;
  for (int i = 0; i < 20; ++i) {
    scale.set_x(static_cast<float>(i));
    pending.push_back(scale.start());
  }
  for (int i = 19; i >= 0; --i) EXPECT_EQ(values_in<float>(pending[i].wait())[7], 2.0f * i);
}

TEST_F(DeviceTest, AbandonedReadbacksAndTicketsAreHarmless) {
  Scale scale(*device, 0);
  Slow slow(*device);
  for (int i = 0; i < 200; ++i) {
    scale.set_x(static_cast<float>(i));
    if (i % 50 == 0) device->submit({.dispatches = {&slow.dispatch, 1}});
    Readback abandoned = scale.start();
    const Ticket ticket = device->ticket();
    if (i % 2 == 0) abandoned = Readback();
  }
  const Readback never_submitted = device->readback(64);
  scale.set_x(1000);
  EXPECT_EQ(values_in<float>(scale.start().wait())[0], 2000);
}

TEST_F(DeviceTest, TicketWaitsForWorkWithoutReadback) {
  Slow slow(*device);
  const std::vector<Dispatch> many(4, slow.dispatch);
  device->submit({.dispatches = many});
  Ticket ticket = device->ticket();
  EXPECT_FALSE(ticket.ready());
  ticket.wait();
  EXPECT_TRUE(ticket.ready());
}

TEST_F(DeviceTest, AWaitingThreadDoesNotHoldUpAnother) {
  Slow slow(*device);
  Readback readback = device->readback(8);
  const std::vector<Dispatch> many(4, slow.dispatch);
  device->submit({.dispatches = many, .after = {&slow.copy, 1}, .readback = &readback});
  std::atomic<bool> waited = false;
  std::thread waiter([&] {
    readback.wait();
    waited = true;
  });
  const Buffer buffer = device->create_buffer(BufferUse::storage, 64, "meanwhile");
  device->write(buffer, 0, bytes_of(std::vector<uint32_t>(16, 1)));
  device->submit({});
  EXPECT_FALSE(waited) << "the slow kernel was over before anything else could be done";
  waiter.join();
}

TEST_F(DeviceTest, SeveralThreadsRunAtOnce) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Scale scale(*device, static_cast<float>(t));
      for (int i = 0; i < 200; ++i) {
        scale.set_x(static_cast<float>(i));
        Readback readback = scale.start();
        if (i % 3 == 0) device->ticket().wait();
        if (values_in<float>(readback.wait()) != std::vector<float>(Scale::kCount, 2.0f * i + t)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(DeviceTest, CallsAreMarked) {
  EXPECT_FALSE(inside_call());
  Scale scale(*device, 0);
  scale.start().wait();
  EXPECT_FALSE(inside_call());
  EXPECT_THROW(device->create_buffer(BufferUse::storage, UINT64_MAX, "x"), Error);
  EXPECT_FALSE(inside_call());
}

// --- pipelines ---

TEST_F(DeviceTest, PipelinesAreCachedByContent) {
  PipelineRequest other = scale_request();
  other.wgsl += "// another text\n";
  PipelineRequest renamed = scale_request();
  renamed.label = "another label";
  const PipelineRequest requests[] = {scale_request(), other, scale_request()};
  const std::vector<Pipeline> first = device->pipelines(requests);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(first[0], device->pipeline(renamed));
  EXPECT_EQ(device->stats().pipelines_created, 2u);
  EXPECT_EQ(device->stats().memory_hits, 2u);
}

TEST_F(DeviceTest, PipelinesThatNobodyUsesAreForgotten) {
  const auto request = [](int i) {
    return PipelineRequest{
        .label = "fill",
        .wgsl = std::format("@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                            "@compute @workgroup_size(1) fn main() {{ y[0] = {}u; }}",
                            i),
        .bindings = {BindingKind::read_write}};
  };
  const Pipeline held = device->pipeline(request(0));
  for (int i = 1; i <= 300; ++i) device->pipeline(request(i));
  const uint64_t created = device->stats().pipelines_created;
  EXPECT_EQ(device->pipeline(request(0)), held);
  device->pipeline(request(300));
  EXPECT_EQ(device->stats().pipelines_created, created) << "used, or asked for lately: kept";
  device->pipeline(request(1));
  EXPECT_EQ(device->stats().pipelines_created, created + 1) << "not asked for in a long time: made anew";
}

TEST_F(DeviceTest, WrongWgslIsAnErrorWithLabelAndLine) {
  PipelineRequest wrong = scale_request();
  wrong.label = "broken";
  wrong.wgsl = "\n\n@compute @workgroup_size(1) fn main() { let a: f32 = 1u; }";
  const PipelineRequest requests[] = {scale_request(), wrong};
  expect_error(ErrorKind::internal, "the kernel 'broken' does not compile",
               [&] { device->pipelines(requests); });
  expect_error(ErrorKind::internal, ":3:", [&] { device->pipelines(requests); });
  wrong.wgsl = "//# lib/a.wgsl 1\n//# b.wgsl 7\n@compute @workgroup_size(1)\nfn main() { let a: f32 = 1u; }";
  expect_error(ErrorKind::internal, "b.wgsl:8:17 error", [&] { device->pipeline(wrong); });
  Scale scale(*device, 0);
  scale.set_x(1);
  EXPECT_EQ(values_in<float>(scale.start().wait())[0], 2) << "the device goes on after a wrong shader";
}

TEST_F(DeviceTest, BindingsThatDifferFromTheShaderAreAnError) {
  PipelineRequest wrong = scale_request();
  wrong.bindings[2] = BindingKind::read;
  expect_error(ErrorKind::internal, "the kernel 'scale' does not compile", [&] { device->pipeline(wrong); });
  expect_error(ErrorKind::invalid_argument, "has 3 bindings, and 0 buffers",
               [&] { device->bind_group(device->pipeline(scale_request()), {}); });
}

// --- errors ---

TEST_F(DeviceTest, TooLargeBufferIsOutOfMemory) {
  expect_error(ErrorKind::out_of_memory, "the buffer 'huge' needs 1099511627776 bytes",
               [&] { device->create_buffer(BufferUse::storage, 1ull << 40, "huge"); });
}

TEST_F(DeviceTest, MoreMemoryThanThereIsIsAnError) {
  // Untouched memory costs nothing on a software device, so this may take all that is promised.
  const uint64_t piece = device->caps().max_buffer_bytes;
  std::vector<Buffer> taken;
  ASSERT_GT(device->info().memory_bytes, 0u);
  // Some drivers promise more than they give.
  expect_error(ErrorKind::out_of_memory, "the buffer 'many'", [&] {
    for (uint64_t sum = 0; sum <= device->info().memory_bytes; sum += piece) {
      taken.push_back(device->create_buffer(BufferUse::storage, piece, "many"));
    }
  });
  taken.clear();
  EXPECT_TRUE(device->create_buffer(BufferUse::storage, 64, "after"));
}

TEST_F(DeviceTest, OutOfRangeAccessIsAnError) {
  const Buffer buffer = device->create_buffer(BufferUse::storage, 16, "small");
  std::vector<std::byte> bytes(32);
  expect_error(ErrorKind::invalid_argument,
               "writing 32 bytes at offset 0 is outside the 16 bytes of the buffer 'small'",
               [&] { device->write(buffer, 0, bytes); });
  expect_error(ErrorKind::invalid_argument, "is not a multiple of 4",
               [&] { device->write(buffer, 2, std::span(bytes).first(4)); });
  const Copy copy{.from = &buffer, .to = &buffer, .bytes = 32};
  expect_error(ErrorKind::internal, "small", [&] { device->submit({.after = {&copy, 1}}); });
}

TEST_F(DeviceTest, AnErrorBelongsToTheThreadThatMadeIt) {
  std::atomic<bool> stop = false;
  std::atomic<int> foreign_errors = 0;
  std::thread other([&] {
    Scale scale(*device, 0);
    while (!stop) {
      try {
        scale.start().wait();
      } catch (const Error&) {
        ++foreign_errors;
      }
    }
  });
  const Buffer buffer = device->create_buffer(BufferUse::storage, 16, "small");
  const Copy copy{.from = &buffer, .to = &buffer, .bytes = 32};
  for (int i = 0; i < 50; ++i) EXPECT_THROW(device->submit({.after = {&copy, 1}}), Error);
  stop = true;
  other.join();
  EXPECT_EQ(foreign_errors, 0);
}

TEST_F(DeviceTest, AReadbackServesOneSubmit) {
  Scale scale(*device, 0);
  Readback readback = device->readback(64);
  expect_error(ErrorKind::invalid_argument, "no submit was given", [&] { readback.wait(); });
  device->submit({.after = {&scale.copy, 1}, .readback = &readback});
  expect_error(ErrorKind::invalid_argument, "serves one submit",
               [&] { device->submit({.after = {&scale.copy, 1}, .readback = &readback}); });
  readback.wait();
}

// --- loss ---

TEST_F(DeviceTest, LossBeforeAnyCall) {
  EXPECT_FALSE(device->lost());
  device->force_loss();
  EXPECT_TRUE(device->lost());
  const auto lost = [](auto action) { expect_error(ErrorKind::device_lost, "forced", action); };
  lost([&] { device->create_buffer(BufferUse::storage, 4, "x"); });
  lost([&] { device->pipeline(scale_request()); });
  lost([&] { device->readback(4); });
  lost([&] { device->submit({}); });
  lost([&] { device->ticket(); });
}

TEST_F(DeviceTest, LossWithWorkInFlight) {
  Scale scale(*device, 0);
  Slow slow(*device);
  device->submit({.dispatches = {&slow.dispatch, 1}});
  Readback waited_for = scale.start();
  Readback abandoned = scale.start();
  Ticket ticket = device->ticket();
  device->force_loss();
  expect_error(ErrorKind::device_lost, "forced", [&] { waited_for.wait(); });
  expect_error(ErrorKind::device_lost, "forced",
               [&] { device->submit({.dispatches = {&scale.dispatch, 1}}); });
  EXPECT_TRUE(ticket.ready());
}

TEST_F(DeviceTest, LossEndsAWaitOnAnotherThread) {
  Slow slow(*device);
  Readback readback = device->readback(8);
  const std::vector<Dispatch> many(4, slow.dispatch);
  device->submit({.dispatches = many, .after = {&slow.copy, 1}, .readback = &readback});
  std::thread waiter([&] { expect_error(ErrorKind::device_lost, "forced", [&] { readback.wait(); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  device->force_loss();
  waiter.join();
}

TEST_F(DeviceTest, LossAfterTheRunKeepsNothingBack) {
  Scale scale(*device, 0);
  scale.set_x(4);
  EXPECT_EQ(values_in<float>(scale.start().wait())[0], 8);
  device->force_loss();
  device->force_loss();
  expect_error(ErrorKind::device_lost, "forced", [&] { scale.start(); });

  const auto second = Device::open(without_disk());
  Scale again(*second, 0);
  again.set_x(4);
  EXPECT_EQ(values_in<float>(again.start().wait())[0], 8);
}

// --- lifetimes ---

TEST(DeviceLifetime, SeveralDevicesAreReleasedInAnyOrder) {
  auto first = Device::open(without_disk());
  auto second = Device::open(without_disk());
  auto third = Device::open(without_disk());
  Scale a(*first, 1), c(*third, 3);
  second.reset();
  a.set_x(1);
  c.set_x(1);
  EXPECT_EQ(values_in<float>(a.start().wait())[0], 3);
  Readback outlives = c.start();
  third.reset();
  EXPECT_EQ(values_in<float>(outlives.wait())[0], 5) << "a readback keeps its device";
  EXPECT_EQ(values_in<float>(a.start().wait())[0], 3);
}

TEST(DeviceLifetime, HandlesOutliveTheDevice) {
  Buffer buffer;
  Pipeline pipeline;
  BindGroup group;
  Readback pending, finished;
  Ticket ticket;
  {
    const auto device = Device::open(without_disk());
    Slow slow(*device);
    buffer = device->create_buffer(BufferUse::storage, 64, "buffer");
    pipeline = slow.pipeline;
    const BufferRange range{&buffer};
    group = device->bind_group(pipeline, {&range, 1});
    finished = device->readback(8);
    device->submit({.after = {&slow.copy, 1}, .readback = &finished});
    finished.wait();
    pending = device->readback(8);
    device->submit({.dispatches = {&slow.dispatch, 1}, .after = {&slow.copy, 1}, .readback = &pending});
    ticket = device->ticket();
  }
  ticket.wait();
  EXPECT_EQ(pending.wait().size(), 8u);
  pending = Readback();
  finished = Readback();
  ticket = Ticket();
  EXPECT_EQ(pipeline.label(), "slow");
}

// The memory of this process in bytes; 0 where the system does not say. A software device allocates there.
uint64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6)) << 10;
  }
  return 0;
}

TEST(DeviceLifetime, BuffersAreFreed) {
  const auto device = Device::open(without_disk());
  constexpr uint64_t kBytes = 64u << 20;
  const uint64_t before = resident_bytes();
  for (int i = 0; i < 30; ++i) {
    const Buffer buffer = device->create_buffer(BufferUse::storage, kBytes, "transient");
    device->clear(buffer, 0, kBytes);
    device->ticket().wait();
  }
  EXPECT_LT(resident_bytes(), before + 4 * kBytes);
}

// --- the disk cache ---

float run_scale(Device& device) {
  Scale scale(device, 1);
  scale.set_x(2);
  return values_in<float>(scale.start().wait())[0];
}

TEST(DeviceDiskCache, SecondStartTranslatesNothing) {
  const TempFolder folder;
  const DeviceOptions options{.cache_dir = folder.string()};
  CacheStats cold, warm;
  {
    const auto device = Device::open(options);
    EXPECT_EQ(run_scale(*device), 5);
    cold = device->stats();
  }
  {
    const auto device = Device::open(options);
    EXPECT_EQ(run_scale(*device), 5);
    warm = device->stats();
  }
  EXPECT_EQ(cold.pipelines_created, 1u);
  EXPECT_EQ(cold.shaders_translated, 1u);
  EXPECT_EQ(cold.disk_hits, 0u);
  EXPECT_GT(cold.disk_stores, 0u);
  EXPECT_EQ(warm.pipelines_created, 1u);
  EXPECT_EQ(warm.shaders_translated, 0u);
  EXPECT_EQ(warm.disk_misses, 0u);
  EXPECT_EQ(warm.disk_stores, 0u);
  EXPECT_EQ(warm.disk_hits, cold.disk_stores);
}

TEST(DeviceDiskCache, SwitchedOffItStillCounts) {
  const TempFolder folder;
  const auto device = Device::open({.disk_cache = false, .cache_dir = folder.string()});
  EXPECT_EQ(run_scale(*device), 5);
  EXPECT_EQ(device->stats().shaders_translated, 1u);
  EXPECT_EQ(device->stats().disk_stores, 0u);
  EXPECT_TRUE(folder.files().empty());
}

TEST(DeviceDiskCache, DamagedFilesAreReplaced) {
  const TempFolder folder;
  const DeviceOptions options{.cache_dir = folder.string()};
  EXPECT_EQ(run_scale(*Device::open(options)), 5);
  const std::vector<fs::path> files = folder.files();
  ASSERT_FALSE(files.empty());
  const auto damage = [&](auto action) {
    for (const fs::path& file : files) action(file);
    const auto device = Device::open(options);
    EXPECT_EQ(run_scale(*device), 5);
    EXPECT_EQ(device->stats().disk_hits, 0u);
    EXPECT_EQ(device->stats().disk_stores, files.size());
  };
  damage([](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); });
  damage([](const fs::path& file) { fs::resize_file(file, 0); });
  damage([](const fs::path& file) {
    std::ofstream(file) << "a foreign file, long enough to hold a header of ours";
  });
  damage([](const fs::path& file) {
    std::fstream io(file, std::ios::in | std::ios::out | std::ios::binary);
    io.seekp(-1, std::ios::end);
    io.put('\x5a');
  });
  EXPECT_EQ(Device::open(options)->stats().disk_misses, 0u);
}

TEST(DeviceDiskCache, UnusableFolderIsNoCache) {
  const TempFolder folder;
  const std::string file = folder.string() + "/a file";
  std::ofstream(file) << "in the way";
  const auto device = Device::open({.cache_dir = file + "/below"});
  EXPECT_EQ(run_scale(*device), 5);
  EXPECT_EQ(device->stats().disk_stores, 0u);
}

// --- timing ---

TEST_F(DeviceTest, DispatchesAreTimed) {
  ASSERT_TRUE(device->caps().timestamps);
  Scale scale(*device, 1);
  Slow slow(*device);
  scale.set_x(1);
  const Dispatch dispatches[] = {scale.dispatch, slow.dispatch, scale.dispatch};
  Readback readback = device->readback(64);
  const std::vector<DispatchTime> times =
      device->submit_timed({.dispatches = dispatches, .after = {&scale.copy, 1}, .readback = &readback});
  ASSERT_EQ(times.size(), 3u);
  for (const DispatchTime& time : times) EXPECT_LE(time.begin_ns, time.end_ns);
  EXPECT_GT(times[1].end_ns - times[1].begin_ns, 10 * (times[0].end_ns - times[0].begin_ns));
  EXPECT_EQ(values_in<float>(readback.wait())[0], 3);
}

TEST_F(DeviceTest, MoreDispatchesThanAQuerySetHolds) {
  Scale scale(*device, 1);
  const std::vector<Dispatch> many(5000, scale.dispatch);
  const std::vector<DispatchTime> times = device->submit_timed({.dispatches = many});
  ASSERT_EQ(times.size(), many.size());
  for (size_t i = 0; i < times.size(); ++i) {
    ASSERT_GT(times[i].begin_ns, 0u) << i;
    ASSERT_LE(times[i].begin_ns, times[i].end_ns) << i;
    ASSERT_TRUE(i == 0 || times[i - 1].begin_ns <= times[i].begin_ns) << i;
  }
}

}  // namespace
}  // namespace rlx::gpu
