// Compiled shaders on disk: the store behind Dawn's cache interface. One file per entry, named by the hash
// of its key. A cache may fail in any way (no folder, no permission to write, a torn or foreign file): then
// it has no entry.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace rlx::gpu {

class DiskCache {
 public:
  // Part of every key: entries of another format are not found.
  static constexpr const char* kFormat = "rlx-1";

  // An empty folder keeps nothing but still counts.
  explicit DiskCache(std::filesystem::path folder);
  ~DiskCache();

  // The size of the entry, 0 if there is none. When `value` has exactly that size it is filled. Dawn asks
  // twice: for the size, then for the bytes; the second question is answered from memory.
  size_t load(std::span<const std::byte> key, std::span<std::byte> value);
  void store(std::span<const std::byte> key, std::span<const std::byte> value);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  uint64_t stores() const { return stores_; }
  uint64_t shaders_translated() const { return shaders_translated_; }
  // The same, of all caches, on this thread.
  static uint64_t shaders_translated_here();

 private:
  std::filesystem::path file_of(std::span<const std::byte> key) const;
  void drop_oldest() const;

  std::filesystem::path folder_;
  std::string writer_;  // distinguishes the temporary files of processes
  std::atomic<uint64_t> hits_ = 0, misses_ = 0, stores_ = 0, shaders_translated_ = 0, temporaries_ = 0;
};

}  // namespace rlx::gpu
