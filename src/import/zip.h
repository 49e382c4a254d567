// The members of a zip file, as npz files have them: stored or deflated, also beyond 4 GiB (zip64). Encrypted
// ones, and files in several parts, are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <format>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "import/file_bytes.h"

namespace rlx {

class ZipFile {
 public:
  struct Member {
    std::string name;
    uint16_t method = 0;
    uint32_t checksum = 0;      // of the contents
    uint64_t packed_bytes = 0;  // in the file
    uint64_t bytes = 0;
    uint64_t header = 0;  // where its own header is
  };

  // `name` is for messages. ErrorKind::invalid_file says what is wrong.
  ZipFile(std::shared_ptr<const FileBytes> file, std::string name);

  const std::vector<Member>& members() const { return members_; }

  struct Contents {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // keeps them alive: the file, or memory of their own
  };
  // A view of the file if the member is stored. The checksum is checked.
  Contents contents(const Member& member) const;

 private:
  struct Directory {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t members = 0;
  };
  template <class... Args>
  [[noreturn]] void wrong(std::format_string<Args...> message, Args&&... args) const;
  std::span<const std::byte> at(uint64_t offset, uint64_t bytes, std::string_view what) const;
  Directory find_directory() const;
  void read_wide_sizes(Member& member, std::span<const std::byte> extra) const;
  void check_apart() const;
  std::span<const std::byte> packed(const Member& member) const;
  std::vector<std::byte> inflated(const Member& member, std::span<const std::byte> packed) const;

  std::shared_ptr<const FileBytes> file_;
  std::string name_;
  std::vector<Member> members_;
};

}  // namespace rlx
