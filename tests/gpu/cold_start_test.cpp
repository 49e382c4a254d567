// Pipelines are ready before the first run, new ones through other devices.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/format.h"
#include "tests/gpu/device_harness.h"

namespace rlx::gpu {
namespace {

namespace fs = std::filesystem;

// y[0] = number, in a kernel of its own.
PipelineRequest fill_request(int number) {
  return {.label = "fill",
          .wgsl = formatted("@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                            "@compute @workgroup_size(1) fn main() {{ y[0] = {}u; }}",
                            number),
          .bindings = {BindingKind::read_write}};
}

std::vector<uint32_t> results_of(Device& device, const std::vector<Pipeline>& pipelines) {
  std::vector<uint32_t> out;
  const Buffer y = device.create_buffer(BufferUse::storage, 4, "y");
  for (const Pipeline& pipeline : pipelines) {
    const BufferRange range{&y};
    const BindGroup group = device.bind_group(pipeline, {&range, 1});
    const DispatchCommand dispatch{.pipeline = &pipeline, .group = &group};
    device.submit({.dispatches = {&dispatch, 1}});
    out.push_back(values_in<uint32_t>(device.read_later(y, 0, 4).bytes()).at(0));
  }
  return out;
}

class ColdStart : public testing::Test {
 protected:
  ~ColdStart() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_ = fs::temp_directory_path() / formatted("rlx-cold-start-{}", getpid());
};

TEST_F(ColdStart, ManyNewPipelinesComeOutRight) {
  const DeviceOptions options{.cache_dir = path("cache")};
  constexpr int kCount = 20;
  std::vector<PipelineRequest> requests;
  std::vector<uint32_t> want;
  for (int i = 0; i < kCount; ++i) {
    requests.push_back(fill_request(i));
    want.push_back(static_cast<uint32_t>(i));
  }
  for (const uint64_t new_ones : {kCount, 0}) {
    const auto device = Device::open(options);
    EXPECT_EQ(results_of(*device, device->pipelines(requests)), want);
    EXPECT_EQ(device->stats().pipelines_created, uint64_t{kCount});
    EXPECT_EQ(device->stats().shaders_translated, new_ones);
  }
}

TEST_F(ColdStart, ABatchThatIsAskedGetsReady) {
  for (const bool threads : {true, false}) {
    const auto device =
        Device::open({.cache_dir = path(threads ? "with" : "without"), .worker_threads = threads});
    std::vector<PipelineRequest> requests;
    for (int i = 0; i < 20; ++i) requests.push_back(fill_request(i));
    PipelineBatch batch = device->start_pipelines(requests);
    while (!batch.ready()) std::this_thread::yield();
    const std::vector<uint32_t> results = results_of(*device, batch.take());
    for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(results[i], i);
  }
}

// What a dispatch of nothing binds is smaller than this.
TEST_F(ColdStart, AKernelThatCannotBeWarmedUpRuns) {
  const auto device = Device::open(without_disk());
  PipelineRequest request = fill_request(7);
  request.wgsl.replace(request.wgsl.find("array<u32>"), 10, "array<u32, 65536>");
  const Pipeline pipeline = device->pipeline(request);
  const Buffer y = device->create_buffer(BufferUse::storage, 65536 * 4, "y");
  const BufferRange range{&y};
  const BindGroup group = device->bind_group(pipeline, {&range, 1});
  const DispatchCommand dispatch{.pipeline = &pipeline, .group = &group};
  device->submit({.dispatches = {&dispatch, 1}});
  EXPECT_EQ(values_in<uint32_t>(device->read_later(y, 0, 4).bytes()).at(0), 7U);
}

TEST_F(ColdStart, ALostDeviceIsAnErrorOfTheBatch) {
  const auto device = Device::open({.cache_dir = path("cache")});
  std::vector<PipelineRequest> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(fill_request(i));
  PipelineBatch batch = device->start_pipelines(requests);
  device->force_loss();
  expect_error(ErrorKind::device_lost, "was lost", [&] { results_of(*device, batch.take()); });
}

}  // namespace
}  // namespace rlx::gpu
