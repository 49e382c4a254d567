// Results whose size only the run knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct FoundIndices {
  Value indices;  // i64[rank of x, n]
  Value count;    // n, an i32 scalar
};
// Of the elements that are not zero (NaN counts as not zero), in row-major order. `symbol` becomes the symbol
// for n in all shapes; more than `capacity` of them is an error of the run (0: as many as x has elements).
// Without a symbol, the indices have the dims of their upper bound, and zeros after the last.
FoundIndices nonzero(Value x, std::string symbol = "", int64_t capacity = 0);

struct Selected {
  Value values;
  Value count;  // of them, an i32 scalar
};
// The entries along `axis` for which the condition, a vector of bools, is true. As above.
Selected compress(Value x, Value condition, int64_t axis, std::string symbol = "", int64_t capacity = 0);
// The elements of x for which the mask, of the same shape, is true, in row-major order.
Selected masked_select(Value x, Value mask, std::string symbol = "", int64_t capacity = 0);
struct UniqueOptions {
  std::optional<int64_t> axis = {};  // of slices along it; otherwise of elements, and x counts as a vector
  bool sorted = true;                // in ascending order; otherwise by first occurrence
  std::string symbol = {};
  int64_t capacity = 0;
};
struct UniqueValues {
  Value values;
  Value first;    // i64: the index of the first of each in x
  Value inverse;  // i64: the index into values for each element of x
  Value counts;   // i64: how often each occurs
  Value count;    // how many there are, an i32 scalar
};
// The different elements of x. NaN equals NaN. `symbol` and `capacity` as above.
UniqueValues unique(Value x, const UniqueOptions& options = {});
struct SuppressionOptions {
  int64_t most = 0;    // boxes of each batch and class
  double overlap = 0;  // boxes that overlap a chosen one by more (intersection over union) are dropped
  std::optional<double> score = {};  // only boxes with a greater score
  bool centers = false;              // boxes are x, y of the center, width, height instead of y1, x1, y2, x2
  std::string symbol = {};
  int64_t capacity = 0;
};
struct ChosenBoxes {
  Value selected;  // i64[m, 3]: batch, class and box
  Value count;     // m, an i32 scalar
};
// Chooses boxes [batch, n, 4] by their scores [batch, classes, n].
ChosenBoxes non_max_suppression(Value boxes, Value scores, const SuppressionOptions& options);

}  // namespace rlx
RLX_EXPORT_END
