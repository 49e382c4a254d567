// How a camera was held: a tag of JPEG files.
#pragma once

#include <cstddef>
#include <span>

#include "rlx/image.h"

namespace rlx::vision {

// 1 to 8 as Exif numbers them; 1, which is upright, where a file does not say.
int exif_orientation(std::span<const std::byte> jpeg);

// The picture as it is meant to be seen.
Image turned(Image image, int orientation);

}  // namespace rlx::vision
