// Lines drawn into pictures.
#pragma once

#include <array>
#include <cstdint>

#include "rlx/image.h"

namespace rlx::vision {

using Colour = std::array<uint8_t, 3>;

// What lies outside the picture is left out, here and below.
void draw_line(Image& image, Point from, Point to, Colour colour, double thickness);
// How far a place is from a line.
double distance_to_line(Point place, Point from, Point to);
// A pixel's colour, covered by another one from 0 to 1.
void cover_pixel(uint8_t* pixel, Colour colour, double cover);
// The outline around four corners.
void draw_box(Image& image, const std::array<Point, 4>& corners, Colour colour, double thickness);

}  // namespace rlx::vision
