// Encodings: tensor types that store several elements together in a block of bytes, as GGUF files do. Each is
// one file in this folder and one enumerator of DType; docs/encodings.md says what the file has to contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rlx/dtype.h"

namespace rlx {

struct Encoding {
  DType dtype;
  std::string_view name;  // in texts
  int64_t block_elements;
  int64_t block_bytes;  // in files and on the host; not 4n + 3
  // Shaders read whole words. So blocks of 4n + 2 bytes lie on the device in pairs, and those of 4n + 1 bytes
  // in fours: a word with two bytes, or one, of each, those at this byte of the block, then the other bytes
  // of the first block, of the second, and so on. Last blocks without partners lie as if they had them.
  int64_t apart = 0;
  // Neighbours that share what the shader decodes once (the struct x_Group): a multiple of four that divides
  // block_elements, and x_GROUP in the shader.
  int64_t group_elements;
  void (*decode)(const std::byte* block, float* values);
  // With a small sum of squared errors. Null for those with code books, whose good encoders are long.
  void (*encode)(const float* values, std::byte* block) = nullptr;
  // WGSL for an operand named x: struct x_Group, x_group_at(i) for group i of the storage, and
  // x_group_four(g, i) for elements 4i to 4i+3 of a group, by x_word, x_block, x_half and x_byte. The
  // binder (kernels/accessors_read.cpp) provides these and puts the operand's own name in place of x.
  std::string_view wgsl;

  int64_t apart_bytes() const { return block_bytes % 4; }  // of a block
  // Those that must be bound together.
  int64_t device_blocks() const { return apart_bytes() == 0 ? 1 : 4 / apart_bytes(); }
  // Of a number of blocks on the device, from the first of those that lie together on.
  int64_t device_bytes(int64_t blocks) const {
    const int64_t words = (blocks + device_blocks() - 1) / device_blocks();  // of what lies apart
    return apart_bytes() == 0 ? blocks * block_bytes : words * 4 + blocks * (block_bytes - apart_bytes());
  }
};

// Copies blocks from the form that files have to that of the device, and back.
void blocks_to_device(const Encoding& encoding, const std::byte* blocks, int64_t count, std::byte* device);
void blocks_from_device(const Encoding& encoding, const std::byte* device, int64_t count, std::byte* blocks);

class EncodingTable {
 public:
  void add(const Encoding& encoding);
  const std::vector<Encoding>& all() const { return encodings_; }  // in the order of DType

 private:
  std::vector<Encoding> encodings_;
};

const EncodingTable& encoding_table();
// Of an encoded type.
const Encoding& encoding_of(DType type);

namespace encodings {
// Generated: calls register_NAME of every file in this folder.
void register_all(EncodingTable& table);
}  // namespace encodings

}  // namespace rlx
