// Moving tensors between host and device: how elements are stored there, and where results lie in a readback.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "rlx/tensor.h"

namespace rlx {

// Memory for kernels; a buffer has some even if nothing is to be put there.
gpu::Buffer create_storage(gpu::Device& device, int64_t bytes, std::string_view label);

// Writes host bytes to a place on the device. i64 becomes i32 there: a number that does not fit is an error
// that names `what`. Blocks of encoded types get the form that they have there (encodings/encoding.h).
void upload(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype,
            std::span<const std::byte> host, std::string_view what);
// The same for a tensor, of which little is in memory at a time even if its elements have yet to be made. f32
// values are rounded where the device has f16 or bf16.
void upload(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype, const Tensor& value,
            std::string_view what);
// The two halves of the first: everything that can be wrong with the bytes, and the writing, in which only
// the device can fail.
void check_elements(DType dtype, std::span<const std::byte> host, std::string_view what);
void write_elements(gpu::Device& device, const gpu::Buffer& buffer, int64_t offset, DType dtype,
                    std::span<const std::byte> host);
// The same tensor, all of whose elements have been made and checked: when it is uploaded, only the device can
// fail.
Tensor ready_to_upload(const Tensor& value, std::string_view what);
// Converts elements from the device's form to the host's.
void from_device(DType dtype, std::span<const std::byte> device, std::span<std::byte> host);
// f32 values rounded to f16 or bf16.
std::vector<std::byte> rounded_to(DType dtype, std::span<const std::byte> f32_values);

// The room of a result in a readback: results follow one another, each at a multiple of four bytes.
constexpr uint64_t readback_bytes(uint64_t device_bytes) { return (device_bytes + 3) / 4 * 4; }

}  // namespace rlx
