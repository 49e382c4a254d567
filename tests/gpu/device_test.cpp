// Buffers, submits, errors and times on the real device of this machine. A missing device is a
// failure, never a skip.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gpu/device_harness.h"

namespace rlx::gpu {
namespace {

TEST_F(DeviceTest, WritesDispatchesAndReadsBack) {
  Scale scale(*device, 0.5f);
  scale.set_x(3);
  Readback readback = scale.start();
  EXPECT_EQ(values_in<float>(readback.bytes()), std::vector<float>(Scale::kCount, 6.5f));
  EXPECT_TRUE(readback.ready());
  EXPECT_EQ(values_in<float>(readback.bytes()), std::vector<float>(Scale::kCount, 6.5f)) << "a second wait";
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
  EXPECT_EQ(values_in<float>(readback.bytes())[0], 21);
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
  for (int i = 19; i >= 0; --i) EXPECT_EQ(values_in<float>(pending[i].bytes())[7], 2.0f * i);
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
  EXPECT_EQ(values_in<float>(scale.start().bytes())[0], 2000);
}

TEST_F(DeviceTest, TicketWaitsForWorkWithoutReadback) {
  Slow slow(*device);
  const std::vector<DispatchCommand> many(4, slow.dispatch);
  device->submit({.dispatches = many});
  Ticket ticket = device->ticket();
  EXPECT_FALSE(ticket.ready());
  ticket.wait();
  EXPECT_TRUE(ticket.ready());
}

TEST_F(DeviceTest, AWaitingThreadDoesNotHoldUpAnother) {
  Slow slow(*device);
  Readback readback = device->readback(8);
  const std::vector<DispatchCommand> many(4, slow.dispatch);
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
        if (values_in<float>(readback.bytes()) != std::vector<float>(Scale::kCount, 2.0f * i + t)) ++wrong;
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

TEST_F(DeviceTest, TooLargeBufferIsOutOfMemory) {
  expect_error(ErrorKind::out_of_memory, "the buffer 'huge' needs 1099511627776 bytes",
               [&] { device->create_buffer(BufferUse::storage, 1ull << 40, "huge"); });
}

TEST_F(DeviceTest, MoreMemoryThanThereIsIsAnError) {
  // Untouched memory costs nothing on a software device, so this may take all that is promised.
  const uint64_t piece = device->caps().max_buffer_bytes;
  std::vector<Buffer> taken;
  ASSERT_GT(device->info().caps.memory_bytes, 0u);
  // Some drivers promise more than they deliver.
  expect_error(ErrorKind::out_of_memory, "the buffer 'many'", [&] {
    for (uint64_t sum = 0; sum <= device->info().caps.memory_bytes; sum += piece) {
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
  expect_error(ErrorKind::invalid_argument, "not given to any submit", [&] { readback.wait(); });
  device->submit({.after = {&scale.copy, 1}, .readback = &readback});
  expect_error(ErrorKind::invalid_argument, "serves one submit",
               [&] { device->submit({.after = {&scale.copy, 1}, .readback = &readback}); });
  readback.wait();
}

TEST_F(DeviceTest, DispatchesAreTimed) {
  ASSERT_TRUE(device->caps().timestamps);
  Scale scale(*device, 1);
  Slow slow(*device);
  scale.set_x(1);
  const DispatchCommand dispatches[] = {scale.dispatch, slow.dispatch, scale.dispatch};
  Readback readback = device->readback(64);
  const std::vector<DispatchTime> times =
      device->submit_timed({.dispatches = dispatches, .after = {&scale.copy, 1}, .readback = &readback});
  ASSERT_EQ(times.size(), 3u);
  for (const DispatchTime& time : times) EXPECT_LE(time.begin_ns, time.end_ns);
  EXPECT_GT(times[1].end_ns - times[1].begin_ns, 10 * (times[0].end_ns - times[0].begin_ns));
  EXPECT_EQ(values_in<float>(readback.bytes())[0], 3);
}

TEST_F(DeviceTest, MoreDispatchesThanAQuerySetHolds) {
  Scale scale(*device, 1);
  const std::vector<DispatchCommand> many(5000, scale.dispatch);
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
