// Colours for numbers.
#pragma once

#include "vision/draw.h"

namespace rlx::vision {

// From nearly black through violet and orange to pale yellow, t from 0 to 1. Equal steps of t look like equal
// steps: lightness grows evenly, also for those who do not see all colours, and in a print without any.
Colour scale_colour(double t);

}  // namespace rlx::vision
