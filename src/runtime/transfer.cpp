#include "runtime/transfer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/fail.h"
#include "base/half.h"
#include "encodings/encoding.h"

namespace rlx {
namespace {

int64_t wide_element(std::span<const std::byte> host, size_t i) {
  int64_t wide;
  std::memcpy(&wide, host.data() + 8 * i, 8);
  return wide;
}

// `first` is the number of the first element in its tensor.
void check_i64(std::span<const std::byte> host, size_t first, std::string_view what) {
  for (size_t i = 0; i < host.size() / 8; ++i) {
    const int64_t wide = wide_element(host, i);
    if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
      fail(ErrorKind::invalid_argument, "{}: element {} is {}; i64 tensors are 32 bits wide on the device",
           what, first + i, wide);
    }
  }
}

// In pieces on the stack, since token ids are uploaded in every run, which allocates nothing.
void write_i64(gpu::Device& device, const gpu::Buffer& buffer, uint64_t offset,
               std::span<const std::byte> host) {
  const size_t count = host.size() / 8;
  std::array<int32_t, 4096> piece;
  for (size_t done = 0; done < count; done += piece.size()) {
    const size_t length = std::min(piece.size(), count - done);
    for (size_t i = 0; i < length; ++i) piece[i] = static_cast<int32_t>(wide_element(host, done + i));
    device.write(buffer, offset + 4 * done, std::as_bytes(std::span(piece).first(length)));
  }
}

// A large tensor is converted in pieces, so that it is not held twice.
constexpr int64_t kPieceBytes = 1 << 22;

void upload_blocks(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, const Encoding& e,
                   std::span<const std::byte> host) {
  const int64_t count = std::ssize(host) / e.block_bytes;
  const int64_t most = std::min(count, kPieceBytes / e.block_bytes / 4 * 4);  // whole pairs or fours
  std::vector<std::byte> piece(static_cast<size_t>(e.device_bytes(most)));
  for (int64_t first = 0; first < count; first += most) {
    const int64_t blocks = std::min(most, count - first);
    blocks_to_device(e, host.data() + first * e.block_bytes, blocks, piece.data());
    device.write(buffer, static_cast<uint64_t>(offset + e.device_bytes(first)),
                 std::span(piece).first(static_cast<size_t>(e.device_bytes(blocks))));
  }
}

}  // namespace

gpu::Buffer create_storage(gpu::Device& device, int64_t bytes, std::string_view label) {
  return device.create_buffer(gpu::BufferUse::storage, static_cast<uint64_t>(std::max<int64_t>(bytes, 256)),
                              label);
}

void check_elements(DType dtype, std::span<const std::byte> host, std::string_view what) {
  if (dtype == DType::i64) check_i64(host, 0, what);
}

void write_elements(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype,
                    std::span<const std::byte> host) {
  if (host.empty()) return;
  const auto at = static_cast<uint64_t>(offset);
  if (dtype == DType::i64) {
    write_i64(device, buffer, at, host);
  } else if (is_encoded(dtype) && encoding_of(dtype).apart_bytes() != 0) {
    upload_blocks(device, buffer, offset, encoding_of(dtype), host);
  } else {
    device.write(buffer, at, host);
  }
}

void upload(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype,
            std::span<const std::byte> host, std::string_view what) {
  check_elements(dtype, host, what);
  write_elements(device, buffer, offset, dtype, host);
}

void upload(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype, const Tensor& value,
            std::string_view what) {
  const bool rounds = value.dtype() != dtype;
  if (is_encoded(dtype) || (value.is_stored() && !rounds))
    return upload(device, buffer, offset, dtype, value.bytes(), what);
  const size_t width = host_bytes(value.dtype());
  const auto most = static_cast<size_t>(kPieceBytes) / width;
  const auto count = static_cast<size_t>(value.elements());
  std::vector<std::byte> piece(std::min(most, count) * width);
  for (size_t first = 0; first < count; first += most) {
    const std::span<std::byte> part = std::span(piece).first(std::min(most, count - first) * width);
    value.read(first * width, part);
    const int64_t at = offset + static_cast<int64_t>(first * device_bytes(dtype));
    if (rounds) {
      write_elements(device, buffer, at, dtype, rounded_to(dtype, part));
    } else {
      if (dtype == DType::i64) check_i64(part, first, what);
      write_elements(device, buffer, at, dtype, part);
    }
  }
}

Tensor ready_to_upload(const Tensor& value, std::string_view what) {
  Tensor out = value;
  if (!value.is_stored() && !value.is_uniform()) {
    std::vector<std::byte> all(value.byte_size());
    value.read(0, all);
    out = Tensor(value.dtype(), value.shape(), std::move(all));
  }
  if (value.dtype() != DType::i64 || value.elements() == 0) return out;
  if (out.is_stored()) {
    check_i64(out.bytes(), 0, what);
  } else {
    std::array<std::byte, 8> one;
    out.read(0, one);
    check_i64(one, 0, what);
  }
  return out;
}

void from_device(DType dtype, std::span<const std::byte> device, std::span<std::byte> host) {
  if (host.empty()) return;
  if (is_encoded(dtype)) {
    const Encoding& e = encoding_of(dtype);
    blocks_from_device(e, device.data(), std::ssize(host) / e.block_bytes, host.data());
    return;
  }
  if (dtype != DType::i64) {
    std::memcpy(host.data(), device.data(), host.size());
    return;
  }
  for (size_t i = 0; i < host.size() / 8; ++i) {
    int32_t short_form;
    std::memcpy(&short_form, device.data() + 4 * i, 4);
    const int64_t wide = short_form;
    std::memcpy(host.data() + 8 * i, &wide, 8);
  }
}

std::vector<std::byte> rounded_to(DType dtype, std::span<const std::byte> f32_values) {
  const size_t count = f32_values.size() / 4;
  std::vector<std::byte> out(2 * count);
  for (size_t i = 0; i < count; ++i) {
    float f;
    std::memcpy(&f, f32_values.data() + 4 * i, 4);
    const uint16_t bits = dtype == DType::f16 ? f16_from_float(f) : bf16_from_float(f);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

}  // namespace rlx
