// Lines drawn into pictures.
#pragma once

#include <array>

#include "vision/image.h"
#include "vision/text_boxes.h"

namespace rlx::vision {

// The outline of the box; what lies outside the picture is left out.
void draw_box(Image& image, const TextBox& box, std::array<uint8_t, 3> colour, double thickness);

}  // namespace rlx::vision
