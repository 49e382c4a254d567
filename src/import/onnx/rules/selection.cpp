// Ops whose sizes only the run knows: NonZero, Compress, Unique and NonMaxSuppression.
#include <algorithm>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/run_sizes.h"

namespace rlx::onnx {
namespace {

// Of a scalar, ONNX has indices [1, n] as NumPy has for a vector of one element.
void nonzero_rule(Call& c) {
  c.expect_inputs(1, 1);
  Value x = c.in(0);
  if (x.shape().rank() == 0) x = reshape(x, {1});
  c.out(0, nonzero(x, c.importer().fresh_symbol("nonzero")).indices, ElementType::int64);
}

// Without an axis, of all elements in one row.
void compress_rule(Call& c) {
  c.expect_inputs(2, 2);
  Value x = c.in(0);
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    axis = c.axis("axis", 0, x.shape().rank());
  } else {
    x = reshape(x, {x.shape().elements()});
  }
  c.out(compress(x, c.in(1), axis, c.importer().fresh_symbol("compressed")).values);
}

void unique_rule(Call& c) {
  c.expect_inputs(1, 1);
  const Value given = c.in(0);
  UniqueOptions options{.sorted = c.flag("sorted", true), .symbol = c.importer().fresh_symbol("unique")};
  if (c.has_attribute("axis")) options.axis = c.axis("axis", 0, given.shape().rank());
  const bool flags = given.dtype() == DType::bool_;
  const UniqueValues found = unique(flags ? cast(given, DType::u8) : given, options);
  c.out(0, flags ? cast(found.values, DType::bool_) : found.values, c.type(0));
  const Value* const numbers[] = {&found.first, &found.inverse, &found.counts};
  for (int64_t i = 1; i < std::min<int64_t>(4, c.output_count()); ++i)
    c.out(i, *numbers[i - 1], ElementType::int64);
}

void non_max_suppression_rule(Call& c) {
  c.expect_inputs(2, 5);
  SuppressionOptions options{.centers = c.flag("center_point_box", false),
                             .symbol = c.importer().fresh_symbol("selected")};
  if (c.has(2)) options.most = c.number(2, "the number of boxes of a class");
  if (c.has(3)) options.overlap = c.real(3, "the threshold of overlaps");
  if (c.has(4)) options.score = c.real(4, "the threshold of scores");
  c.out(0, non_max_suppression(c.in(0), c.in(1), options).selected, ElementType::int64);
}

}  // namespace

namespace rules {
void register_selection(RuleTable& table) {
  table.add("NonZero", nonzero_rule);
  table.add("Compress", compress_rule);
  table.add("Unique", unique_rule);
  table.add("NonMaxSuppression", non_max_suppression_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
