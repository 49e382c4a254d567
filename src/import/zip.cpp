// The layout: each member is a header and its bytes; at the end of the file are the directory, which has the
// sizes and offsets of all members, and a record that says where the directory is. Numbers are little-endian.
#include "import/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/fail.h"

namespace rlx {
namespace {

constexpr uint32_t kMemberMark = 0x04034b50;
constexpr uint32_t kDirectoryMark = 0x02014b50;
constexpr uint32_t kEndMark = 0x06054b50;
constexpr uint32_t kWideEndMark = 0x06064b50;
constexpr uint32_t kWideLocatorMark = 0x07064b50;
constexpr size_t kMemberBytes = 30;     // of a member's header, without its name
constexpr size_t kDirectoryBytes = 46;  // of a directory's entry, without its name
constexpr size_t kEndBytes = 22;        // without the comment
constexpr size_t kWideEndBytes = 56;
constexpr size_t kWideLocatorBytes = 20;
constexpr size_t kMaxComment = 0xffff;
// In a field of 32 or 16 bits: the number is in a wider field elsewhere.
constexpr uint32_t kElsewhere = 0xffffffff;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
// No deflated byte stands for more.
constexpr uint64_t kMaxInflation = 1032;

// zlib's state, freed however the work ends.
struct Inflation {
  z_stream stream = {};

  Inflation() = default;
  ~Inflation() { inflateEnd(&stream); }
  Inflation(const Inflation&) = delete;
};

template <class T>
T number(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

template <class... Args>
void ZipFile::wrong(std::format_string<Args...> message, Args&&... args) const {
  fail(ErrorKind::invalid_file, "{}: {}", name_, formatted(message, std::forward<Args>(args)...));
}

// These bytes of the file, all of them.
std::span<const std::byte> ZipFile::at(uint64_t offset, uint64_t bytes, std::string_view what) const {
  const auto all = file_->bytes();
  if (offset > all.size() || bytes > all.size() - offset)
    wrong("{} is said to be {} bytes at {}, but the file has only {}", what, bytes, offset, all.size());
  return all.subspan(offset, bytes);
}

ZipFile::ZipFile(std::shared_ptr<const FileBytes> file, std::string name)
    : file_(std::move(file)), name_(std::move(name)) {
  const Directory directory = find_directory();
  auto rest = at(directory.offset, directory.bytes, "the directory");
  for (uint64_t i = 0; i < directory.members; ++i) {
    const auto incomplete = [&] { wrong("the directory ends within the entry of member {}", i); };
    if (rest.size() < kDirectoryBytes || number<uint32_t>(rest, 0) != kDirectoryMark) incomplete();
    const size_t name_bytes = number<uint16_t>(rest, 28);
    const size_t extra_bytes = number<uint16_t>(rest, 30);
    const size_t entry_bytes = kDirectoryBytes + name_bytes + extra_bytes + number<uint16_t>(rest, 32);
    if (rest.size() < entry_bytes) incomplete();
    Member member{
        .name = std::string(reinterpret_cast<const char*>(rest.data()) + kDirectoryBytes, name_bytes),
        .method = number<uint16_t>(rest, 10),
        .checksum = number<uint32_t>(rest, 16),
        .packed_bytes = number<uint32_t>(rest, 20),
        .bytes = number<uint32_t>(rest, 24),
        .header = number<uint32_t>(rest, 42)};
    if (number<uint16_t>(rest, 8) & 1) wrong("the member '{}' is encrypted", excerpt(member.name));
    read_wide_sizes(member, rest.subspan(kDirectoryBytes + name_bytes, extra_bytes));
    members_.push_back(std::move(member));
    rest = rest.subspan(entry_bytes);
  }
  check_apart();
}

// Members that share bytes could claim any size between them. Apart, all of them together are at most
// kMaxInflation times as large as the file.
void ZipFile::check_apart() const {
  std::vector<std::pair<uint64_t, const Member*>> order;  // by where they begin
  for (const Member& member : members_) order.emplace_back(member.header, &member);
  std::ranges::sort(order, {}, &decltype(order)::value_type::first);
  uint64_t end = 0;
  const Member* before = nullptr;
  for (const auto& [begin, member] : order) {
    if (begin < end)
      wrong("the members '{}' and '{}' overlap: one ends at {}, the other begins at {}",
            excerpt(before->name), excerpt(member->name), end, begin);
    const auto bytes = packed(*member);
    end = static_cast<uint64_t>(bytes.data() - file_->bytes().data()) + bytes.size();
    before = member;
  }
}

ZipFile::Directory ZipFile::find_directory() const {
  const auto all = file_->bytes();
  // A comment of unknown length may follow the record.
  for (size_t back = kEndBytes; back <= std::min(all.size(), kEndBytes + kMaxComment); ++back) {
    const auto end = all.last(back);
    if (number<uint32_t>(end, 0) != kEndMark) continue;
    const Directory narrow{number<uint32_t>(end, 16), number<uint32_t>(end, 12), number<uint16_t>(end, 10)};
    const bool has_wide = all.size() - back >= kWideLocatorBytes &&
                          number<uint32_t>(all, all.size() - back - kWideLocatorBytes) == kWideLocatorMark;
    if (!has_wide) return narrow;
    const uint64_t offset = number<uint64_t>(all, all.size() - back - kWideLocatorBytes + 8);
    const auto wide = at(offset, kWideEndBytes, "the record of the directory");
    if (number<uint32_t>(wide, 0) != kWideEndMark) wrong("there is no record of the directory at {}", offset);
    return {number<uint64_t>(wide, 48), number<uint64_t>(wide, 40), number<uint64_t>(wide, 32)};
  }
  wrong("it is not a whole zip file: it has no directory at its end");
}

// Extra fields are pairs of a number that says what they are and a length; 1 has the sizes of 64 bits.
void ZipFile::read_wide_sizes(Member& member, std::span<const std::byte> extra) const {
  while (extra.size() >= 4) {
    const size_t bytes = number<uint16_t>(extra, 2);
    if (extra.size() - 4 < bytes) break;
    if (number<uint16_t>(extra, 0) == 1) {
      auto wide = extra.subspan(4, bytes);
      for (uint64_t* field : {&member.bytes, &member.packed_bytes, &member.header}) {
        if (*field != kElsewhere || wide.size() < 8) continue;
        *field = number<uint64_t>(wide, 0);
        wide = wide.subspan(8);
      }
    }
    extra = extra.subspan(4 + bytes);
  }
}

std::span<const std::byte> ZipFile::packed(const Member& member) const {
  const std::string what = formatted("the member '{}'", excerpt(member.name));
  const auto header = at(member.header, kMemberBytes, what);
  if (number<uint32_t>(header, 0) != kMemberMark) wrong("{} is not at {}", what, member.header);
  const uint64_t skipped = kMemberBytes + number<uint16_t>(header, 26) + number<uint16_t>(header, 28);
  return at(member.header + skipped, member.packed_bytes, what);
}

std::vector<std::byte> ZipFile::inflated(const Member& member, std::span<const std::byte> from) const {
  if (member.bytes / kMaxInflation > from.size())
    wrong("the member '{}' cannot have {} bytes: it is {} in the file", excerpt(member.name), member.bytes,
          from.size());
  // Memory for what has come out so far and as much again: what is claimed may not be there.
  constexpr uint64_t kFirst = 1 << 20;
  std::vector<std::byte> out(std::min(member.bytes, kFirst));
  Inflation inflation;
  z_stream& stream = inflation.stream;
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(ErrorKind::out_of_memory, "zlib has no memory");
  // zlib counts with 32 bits.
  constexpr size_t kMost = 1 << 30;
  size_t read = 0;
  size_t written = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    if (written == out.size()) out.resize(std::min<uint64_t>(member.bytes, 2 * out.size()));
    const size_t in = std::min(kMost, from.size() - read);
    const size_t to = std::min(kMost, out.size() - written);
    std::byte none{};
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data())) + read;
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(to ? out.data() + written : &none);
    stream.avail_out = static_cast<uInt>(to);
    result = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += to - stream.avail_out;
  }
  if (result != Z_STREAM_END || written != member.bytes)
    wrong("the member '{}' is damaged: {} of {} bytes could be inflated", excerpt(member.name), written,
          member.bytes);
  return out;
}

ZipFile::Contents ZipFile::contents(const Member& member) const {
  Contents out{packed(member), file_};
  if (member.method == kDeflated) {
    const auto memory = std::make_shared<const std::vector<std::byte>>(inflated(member, out.bytes));
    out = {*memory, memory};
  } else if (member.method != kStored) {
    wrong("the member '{}' is compressed with method {}; only 0 (stored) and 8 (deflated) are supported",
          excerpt(member.name), member.method);
  }
  if (out.bytes.size() != member.bytes)
    wrong("the member '{}' has {} bytes instead of {}", excerpt(member.name), out.bytes.size(), member.bytes);
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(out.bytes.data()), out.bytes.size());
  if (sum != member.checksum)
    wrong("the member '{}' is damaged: its checksum is wrong", excerpt(member.name));
  return out;
}

}  // namespace rlx
