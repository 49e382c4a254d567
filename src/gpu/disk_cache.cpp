#include "gpu/disk_cache.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/hash.h"

namespace rlx::gpu {

namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<std::byte>;

// A file is this header, the key, the value.
struct Header {
  char magic[8] = {'r', 'l', 'x', 'b', 'l', 'o', 'b', '1'};
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
  uint64_t checksum = 0;  // of key and value
};

// A compiled shader takes a few kilobytes; anything that claims more than this is not ours.
constexpr uint64_t kMaxFileBytes = 256u << 20;
constexpr uint64_t kMaxFolderBytes = 512u << 20;

uint64_t checksum(std::span<const std::byte> key, std::span<const std::byte> value) {
  return Hash().bytes(key.data(), key.size()).bytes(value.data(), value.size()).value();
}

Bytes read_file(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size < sizeof(Header) || size > kMaxFileBytes) return {};
  Bytes bytes(size);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  return in ? bytes : Bytes{};
}

// The value in a file, empty unless it is whole and holds exactly this key (two keys may share a hash).
Bytes value_in(const Bytes& file, std::span<const std::byte> key) {
  Header header;
  if (file.size() < sizeof header) return {};
  std::memcpy(&header, file.data(), sizeof header);
  const uint64_t rest = file.size() - sizeof header;
  if (std::memcmp(header.magic, Header().magic, sizeof header.magic) != 0) return {};
  if (header.key_bytes != key.size() || header.key_bytes > rest ||
      header.value_bytes != rest - header.key_bytes) {
    return {};
  }
  const auto stored_key = std::span(file).subspan(sizeof header, header.key_bytes);
  const auto value = std::span(file).subspan(sizeof header + header.key_bytes);
  if (!std::ranges::equal(stored_key, key) || checksum(key, value) != header.checksum) return {};
  return Bytes(value.begin(), value.end());
}

// Dawn keeps three kinds of entries: parsed modules, translated shaders, and the driver's own pipeline data.
// The second is the one that means a translation; its key holds the name of the request
// (SpirvCompilationRequest, MslCompilationRequest ...).
bool is_translation(std::span<const std::byte> key) {
  const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
  return text.contains("CompilationRequest");
}

// The folder is the user's choice, so only our own files may be removed from it: 16 hex digits and ".bin...".
bool is_our_name(std::string_view name) {
  return name.find_first_not_of("0123456789abcdef") == 16 && name.substr(16).starts_with(".bin");
}

struct Answer {
  Bytes key;
  Bytes value;
};
thread_local Answer last_answer;
thread_local uint64_t translated_here = 0;

}  // namespace

DiskCache::DiskCache(fs::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  writer_ = formatted("{:08x}", std::random_device()());
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) folder_.clear();
}

uint64_t DiskCache::shaders_translated_here() { return translated_here; }

// Only a process that added entries pays for looking at them all.
DiskCache::~DiskCache() {
  if (stores_ > 0) drop_oldest();
}

fs::path DiskCache::file_of(std::span<const std::byte> key) const {
  return folder_ / formatted("{:016x}.bin", Hash().bytes(key.data(), key.size()).value());
}

size_t DiskCache::load(std::span<const std::byte> key, std::span<std::byte> value) try {
  const bool asks_for_size = value.empty();
  if (asks_for_size) {
    last_answer = {Bytes(key.begin(), key.end()),
                   folder_.empty() ? Bytes{} : value_in(read_file(file_of(key)), key)};
    const bool found = !last_answer.value.empty();
    ++(found ? hits_ : misses_);
    if (!found && is_translation(key)) {
      ++shaders_translated_;
      ++translated_here;
    }
  }
  if (!std::ranges::equal(last_answer.key, key)) return 0;
  const size_t size = last_answer.value.size();
  if (!asks_for_size && value.size() == size) {
    std::ranges::copy(last_answer.value, value.begin());
    last_answer = {};
  }
  return size;
} catch (const std::exception&) {
  return 0;  // no memory, a path the system refuses: the same as no entry
}

void DiskCache::store(std::span<const std::byte> key, std::span<const std::byte> value) try {
  if (folder_.empty() || value.empty() || sizeof(Header) + key.size() + value.size() > kMaxFileBytes) return;
  Header header;
  header.key_bytes = key.size();
  header.value_bytes = value.size();
  header.checksum = checksum(key, value);

  // Renamed into place when complete: another process never sees half a file.
  const fs::path path = file_of(key);
  fs::path temporary = path;
  temporary += formatted(".{}-{}.tmp", writer_, temporaries_++);
  std::ofstream out(temporary, std::ios::binary | std::ios::noreplace);
  const auto put = [&](const void* data, size_t size) {
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  };
  put(&header, sizeof header);
  put(key.data(), key.size());
  put(value.data(), value.size());
  out.close();

  std::error_code error;
  if (out) fs::rename(temporary, path, error);
  if (!out || error) {
    fs::remove(temporary, error);
    return;
  }
  ++stores_;
} catch (const std::exception&) {
  // The entry is not kept; the next start translates again.
}

// New drivers and new versions leave entries behind that nobody asks for again.
void DiskCache::drop_oldest() const try {
  struct File {
    fs::file_time_type written;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (!entry.is_regular_file(error) || !is_our_name(entry.path().filename().string())) continue;
    files.push_back({entry.last_write_time(error), entry.file_size(error), entry.path()});
    total += files.back().bytes;
  }
  if (total <= kMaxFolderBytes) return;
  std::ranges::sort(files, {}, &File::written);
  for (const File& file : files) {
    if (total <= kMaxFolderBytes / 2) break;
    if (fs::remove(file.path, error)) total -= file.bytes;
  }
} catch (const std::exception&) {
  // Another process may be doing the same; the next one tries again.
}

}  // namespace rlx::gpu
