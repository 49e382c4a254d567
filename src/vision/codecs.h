// The formats that image.cpp knows, each in its own file.
#pragma once

#include <cstddef>
#include <span>

#include "rlx/image.h"

namespace rlx::vision {

// Errors say what is wrong, without the name of the file.
Image decode_png(std::span<const std::byte> bytes);
Image decode_jpeg(std::span<const std::byte> bytes);

// Fails for a picture without pixels, or with more than kMaxPixels.
void check_size(int64_t width, int64_t height);

}  // namespace rlx::vision
