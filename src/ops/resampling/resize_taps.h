// Which elements of x a resized axis takes, and with which weights.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/ops/resampling.h"

namespace rlx {

// A scale of numerator / denominator. Scales are fractions, so that 10 elements scaled by 0.7 are 7, and
// places that are whole numbers are found to be such.
struct Fraction {
  int64_t numerator = 1, denominator = 1;
};
// The one that the number stands for in single precision: 0.7 is 7/10.
Fraction as_fraction(double scale);

struct ResizeAxis {
  int64_t in = 1, out = 1;
  Fraction scale;                     // about out / in
  bool scaled = false;                // by a scale that was given, not a size
  double roi_begin = 0, roi_end = 1;  // the part of x that is resized, for tf_crop_and_resize
};

// `count` of them for each element of y.
struct Taps {
  static constexpr int64_t kOutside = -1;  // as an index, all taps of an element: it is not made of x

  int64_t count = 1;
  std::vector<int64_t> index;  // of x
  std::vector<double> weight;

  // Whether y is x along this axis.
  bool copies(int64_t length) const;
  // Those of elements [begin, end) of y.
  Taps part(int64_t begin, int64_t end) const;
};
Taps resize_taps(const ResizeOptions& options, const ResizeAxis& axis);

}  // namespace rlx
