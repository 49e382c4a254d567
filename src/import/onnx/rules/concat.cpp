// Concat and Split.
#include <numeric>

#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

void concat_rule(Call& c) {
  c.expect_inputs(1, 1 << 20);
  const std::vector<Value> parts = c.all();
  const int64_t axis = c.axis("axis", 1, parts[0].shape().rank());
  c.out(parts.size() == 1 ? parts[0] : concat(parts, axis));
}

void split_rule(Call& c) {
  c.expect_inputs(1, 2);
  Value x = c.in(0);
  const int64_t axis = c.axis("axis", 0, x.shape().rank());
  const Dim size = x.shape()[axis];
  const int64_t parts = c.has_attribute("num_outputs") ? c.integer("num_outputs") : c.output_count();
  std::vector<Dim> sizes;
  if (c.opset() >= 13 && c.has(1)) {
    sizes = c.dims(1, "the list of sizes");
  } else if (c.has_attribute("split")) {
    for (const int64_t n : c.integers("split")) sizes.emplace_back(n);
  } else if (parts > 0 && parts <= 1 << 20) {
    // Equal parts; the last is smaller if the size is not a multiple.
    const Dim each = size.ceil_div(parts);
    sizes.assign(static_cast<size_t>(parts), each);
    sizes.back() = size - each * Dim(parts - 1);
  }
  if (std::ssize(sizes) != c.output_count())
    fail("it has {} outputs, but {} sizes", c.output_count(), sizes.size());
  const Dim sum = std::accumulate(sizes.begin(), sizes.end(), Dim(0));
  if (sum.is_static() && size.is_static() && !(sum == size))
    fail("its sizes add up to {}, but axis {} has {}", sum.text(), axis, size.text());
  if (!(sum == size)) {  // the sizes of the run may fit
    Shape whole = x.shape();
    whole[axis] = sum;
    x = reshape(x, whole);
  }
  Dim start(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (c.wants(static_cast<int64_t>(i)))
      c.out(static_cast<int64_t>(i), slice(x, axis, start, sizes[i]), c.type(0));
    start += sizes[i];
  }
}

}  // namespace

namespace rules {
void register_concat(RuleTable& table) {
  table.add("Concat", concat_rule);
  table.add("Split", split_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
