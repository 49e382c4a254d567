// Pipelines: compiled once, kept in memory within bounds, and on disk.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string_view>

#include "base/format.h"
#include "gpu/disk_cache.h"
#include "tests/gpu/device_harness.h"

namespace rlx::gpu {
namespace {

namespace fs = std::filesystem;

TEST_F(DeviceTest, PipelinesAreCachedByContent) {
  PipelineRequest other = scale_request();
  other.wgsl += "// another text\n";
  PipelineRequest renamed = scale_request();
  renamed.label = "another label";
  const std::vector<PipelineRequest> requests = {scale_request(), other, scale_request()};
  const std::vector<Pipeline> first = device->pipelines(requests);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(first[0], device->pipeline(renamed));
  EXPECT_EQ(device->stats().pipelines_created, 2u);
  EXPECT_EQ(device->stats().memory_hits, 2u);
}

TEST_F(DeviceTest, PipelinesThatNobodyUsesAreForgotten) {
  const auto request = [](int i) {
    return PipelineRequest{.label = "fill",
                           .wgsl = formatted("@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
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
  EXPECT_EQ(device->stats().pipelines_created, created + 1) << "not asked for in a long time: made again";
}

TEST_F(DeviceTest, WrongWgslIsAnErrorWithLabelAndLine) {
  PipelineRequest wrong = scale_request();
  wrong.label = "broken";
  wrong.wgsl = "\n\n@compute @workgroup_size(1) fn main() { let a: f32 = 1u; }";
  const std::vector<PipelineRequest> requests = {scale_request(), wrong};
  expect_error(ErrorKind::invalid_argument, "the kernel 'broken' does not compile",
               [&] { device->pipelines(requests); });
  expect_error(ErrorKind::invalid_argument, ":3:", [&] { device->pipelines(requests); });
  wrong.wgsl = "//# lib/a.wgsl 1\n//# b.wgsl 7\n@compute @workgroup_size(1)\nfn main() { let a: f32 = 1u; }";
  expect_error(ErrorKind::invalid_argument, "b.wgsl:8:17 error", [&] { device->pipeline(wrong); });
  Scale scale(*device, 0);
  scale.set_x(1);
  EXPECT_EQ(values_in<float>(scale.start().bytes())[0], 2) << "the device goes on after a wrong shader";
}

TEST_F(DeviceTest, BindingsThatDifferFromTheShaderAreAnError) {
  PipelineRequest wrong = scale_request();
  wrong.bindings[2] = BindingKind::read;
  expect_error(ErrorKind::invalid_argument, "the kernel 'scale' does not compile",
               [&] { device->pipeline(wrong); });
  expect_error(ErrorKind::invalid_argument, "has 3 bindings, but 0 buffers",
               [&] { device->bind_group(device->pipeline(scale_request()), {}); });
}

class TempFolder {
 public:
  TempFolder() : path_(fs::temp_directory_path() / formatted("rlx-gpu-{:08x}", std::random_device()())) {
    fs::create_directories(path_);
  }
  ~TempFolder() { fs::remove_all(path_); }
  std::string string() const { return path_.string(); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

 private:
  fs::path path_;
};

float run_scale(Device& device) {
  Scale scale(device, 1);
  scale.set_x(2);
  return values_in<float>(scale.start().bytes())[0];
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

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string loaded(DiskCache& cache, std::string_view key) {
  std::vector<std::byte> value(cache.load(bytes_of(key), {}));
  if (!value.empty()) cache.load(bytes_of(key), value);
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

// Files are named by a hash, which two keys may share.
TEST(DeviceDiskCache, AnEntryOfAnotherKeyIsNone) {
  const TempFolder folder;
  DiskCache cache(folder.string());
  cache.store(bytes_of("first key"), bytes_of("first"));
  const fs::path first = folder.files().at(0);
  EXPECT_EQ(loaded(cache, "first key"), "first");
  cache.store(bytes_of("other key"), bytes_of("other"));
  for (const fs::path& file : folder.files()) {
    if (file != first) fs::copy_file(first, file, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(loaded(cache, "other key"), "");
  EXPECT_EQ(loaded(cache, "first key"), "first");
}

// Half of the folder's bound is left, the newest, and what is not of the cache is nobody's to remove.
TEST(DeviceDiskCache, TheOldestEntriesMakeRoom) {
  const TempFolder folder;
  const auto now = fs::file_time_type::clock::now();
  const auto make = [&](const std::string& name, uintmax_t mebibytes, int hours) {
    const fs::path path = fs::path(folder.string()) / name;
    std::ofstream(path).close();
    fs::resize_file(path, mebibytes << 20);  // takes no space
    fs::last_write_time(path, now - std::chrono::hours(hours));
  };
  make("0000000000000001.bin", 100, 1);
  make("0000000000000002.bin", 300, 3);
  make("0000000000000003.bin", 150, 2);
  make("a picture.bin", 1000, 4);
  make("0000000000000004.txt", 1000, 4);
  {
    DiskCache(folder.string()).load(bytes_of("key"), {});
  }
  EXPECT_EQ(folder.files().size(), 5u) << "only a process that stored something looks";
  {
    DiskCache(folder.string()).store(bytes_of("key"), bytes_of("value"));
  }
  std::vector<std::string> left;
  for (const fs::path& file : folder.files()) left.push_back(file.filename());
  std::ranges::sort(left);
  EXPECT_EQ(left.size(), 5u);
  for (const char* name :
       {"0000000000000001.bin", "0000000000000003.bin", "a picture.bin", "0000000000000004.txt"})
    EXPECT_TRUE(std::ranges::contains(left, name)) << name;
  DiskCache again(folder.string());
  EXPECT_EQ(loaded(again, "key"), "value");
}

TEST(DeviceDiskCache, UnusableFolderIsNoCache) {
  const TempFolder folder;
  const std::string file = folder.string() + "/a file";
  std::ofstream(file) << "in the way";
  const auto device = Device::open({.cache_dir = file + "/below"});
  EXPECT_EQ(run_scale(*device), 5);
  EXPECT_EQ(device->stats().disk_stores, 0u);
}

}  // namespace
}  // namespace rlx::gpu
