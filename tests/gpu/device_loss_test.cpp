// Devices that are lost, and what outlives them.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/gpu/device_harness.h"

namespace rlx::gpu {
namespace {

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
  const std::vector<DispatchCommand> many(4, slow.dispatch);
  device->submit({.dispatches = many, .after = {&slow.copy, 1}, .readback = &readback});
  std::thread waiter([&] { expect_error(ErrorKind::device_lost, "forced", [&] { readback.wait(); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  device->force_loss();
  waiter.join();
}

TEST_F(DeviceTest, LossAfterTheRunKeepsNothingBack) {
  Scale scale(*device, 0);
  scale.set_x(4);
  EXPECT_EQ(values_in<float>(scale.start().bytes())[0], 8);
  device->force_loss();
  device->force_loss();
  expect_error(ErrorKind::device_lost, "forced", [&] { scale.start(); });

  const auto second = Device::open(without_disk());
  Scale again(*second, 0);
  again.set_x(4);
  EXPECT_EQ(values_in<float>(again.start().bytes())[0], 8);
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
  EXPECT_EQ(values_in<float>(a.start().bytes())[0], 3);
  Readback outlives = c.start();
  third.reset();
  EXPECT_EQ(values_in<float>(outlives.bytes())[0], 5) << "a readback keeps its device";
  EXPECT_EQ(values_in<float>(a.start().bytes())[0], 3);
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
  EXPECT_EQ(pending.bytes().size(), 8u);
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

}  // namespace
}  // namespace rlx::gpu
