// Lines of text cut out of a picture, as upright strips.
#pragma once

#include <cstdint>
#include <span>

#include "rlx/image.h"
#include "vision/text_boxes.h"

namespace rlx::vision {

// The box with some of what is around it, in parts of its height: the recogniser knows letters that do not
// touch the edges of a strip.
TextBox with_margins(const TextBox& box);

// What a line begins with, if it is longer than so many of its heights.
TextBox beginning(const TextBox& box, double heights);

// How wide a strip of this height is if letters keep their proportions.
double strip_width(const TextBox& box, int64_t height);

// Writes the box as a strip of that size into channels of rows of `stride` floats each: blue, green, red,
// from -1 (black) to 1 (white). Where the box leaves the picture, its edge goes on.
void cut_strip(const Image& image, const TextBox& box, int64_t width, int64_t height, int64_t stride,
               std::span<float> into);

}  // namespace rlx::vision
