// Writing pictures.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rlx/image.h"

namespace rlx::vision {

std::vector<std::byte> encode_png(const Image& image);
// The file appears only when it is complete.
void write_png(const std::string& path, const Image& image);

}  // namespace rlx::vision
