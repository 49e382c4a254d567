// Short labels in pictures: digits and the letters of units, drawn as strokes.
#pragma once

#include <string_view>

#include "vision/draw.h"

namespace rlx::vision {

// How wide a text is whose digits are `height` pixels tall.
double text_width(std::string_view text, double height);

enum class Anchor { left, centre, right };
// `at` is a place on the base line. Characters without strokes are left out.
void draw_text(Image& image, Point at, std::string_view text, double height, Colour colour,
               Anchor anchor = Anchor::left);

}  // namespace rlx::vision
