// The choice of an adapter, and how a device is opened on it.
#include <algorithm>
#include <cstdlib>

#include "base/flags.h"
#include "tests/gpu/device_harness.h"

namespace rlx::gpu {
namespace {

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
  const auto found = list_adapters({.backend = "d3d11, " + best.backend,
                                    .adapter_name = part,
                                    .adapter_index = best.index,
                                    .software = best.caps.software()});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, best.name);
  EXPECT_TRUE(list_adapters({.adapter_index = best.index, .software = !best.caps.software()}).empty());
}

TEST(Adapter, UnknownBackendIsAnError) {
  expect_error(ErrorKind::invalid_argument, "the backend 'vulcan' is not one of",
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
  EXPECT_TRUE(plain.caps.subgroup_matrices.empty());
  EXPECT_EQ(device->caps().subgroup_matrices.empty(), !matrices);
  for (const SubgroupMatrix& s : device->caps().subgroup_matrices) EXPECT_GT(s.m * s.n * s.k, 0u);
  const std::string enable = matrices ? "enable chromium_experimental_subgroup_matrix;\n" : "";
  EXPECT_TRUE(
      device->pipeline({.label = "enable", .wgsl = enable + kSlow, .bindings = {BindingKind::read_write}}));
}

// What Mesa 26 says of vectors of 256 bits.
TEST(Device, ListsTheSubgroupMatricesOfLavapipe) {
  DeviceOptions options = without_disk();
  options.experimental = true;
  const auto device = Device::open(options);
  if (!device->info().name.contains("llvmpipe") || device->caps().subgroup_matrices.empty())
    GTEST_SKIP() << "another driver";
  const std::vector<SubgroupMatrix>& all = device->caps().subgroup_matrices;
  for (const auto& [component, result] :
       {std::pair(DType::f16, DType::f16), std::pair(DType::f16, DType::f32),
        std::pair(DType::i8, DType::i32)})
    EXPECT_TRUE(std::ranges::contains(all, SubgroupMatrix{component, result, 8, 8, 8}))
        << to_string(component) << " to " << to_string(result);
  options.limits = {.no_f16 = true};
  for (const SubgroupMatrix& s : Device::open(options)->caps().subgroup_matrices)
    EXPECT_NE(s.component, DType::f16);
  options.limits = {.no_subgroups = true};
  EXPECT_TRUE(Device::open(options)->caps().subgroup_matrices.empty());
}

// It would return memory that nobody has written.
TEST(Device, TheBackendThatComputesNothingIsRefusedAndNotOffered) {
  for (const char* name : {"null", "noop", "vulkan,null"}) {
    expect_error(ErrorKind::invalid_argument, "computes nothing",
                 [&] { Device::open({.backend = name, .disk_cache = false}); });
  }
  try {
    Device::open({.adapter_name = "no such adapter", .disk_cache = false});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_FALSE(std::string_view(e.what()).contains("ull backend")) << e.what();
  }
}

}  // namespace
}  // namespace rlx::gpu
