#include <numeric>

#include "import/onnx/rules.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

PadMode mode_of(const std::string& name) {
  if (name == "constant") return PadMode::constant;
  if (name == "reflect") return PadMode::reflect;
  if (name == "edge") return PadMode::edge;
  if (name == "wrap") return PadMode::wrap;
  fail("its mode is '{}'", excerpt(name));
}

void pad_rule(Call& c) {
  c.expect_inputs(1, 4);
  const int64_t rank = c.rank(0);
  const PadMode mode = mode_of(c.text("mode", "constant"));
  std::vector<int64_t> pads;
  double value = 0;
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.opset() < 11) {
    pads = c.integers("pads");
    value = c.real("value", 0);
  } else {
    pads = c.numbers(1, "the padding");
    if (c.has(2) && c.shape(2).elements().is(1)) value = c.real(2, "the padding value");
    if (c.has(3)) axes = *c.axes(3, rank);
  }
  // More is a mistake, and would not fit in a size.
  constexpr int64_t kMaxPad = 1LL << 40;
  for (const int64_t p : pads) {
    if (p < -kMaxPad || p > kMaxPad) fail("it pads by {}", p);
  }
  if (pads.size() != 2 * axes.size()) fail("it has {} pads for {} axes", pads.size(), axes.size());
  std::vector<int64_t> before(static_cast<size_t>(rank), 0);
  std::vector<int64_t> after = before;
  Value x = c.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
    // Negative padding cuts off.
    const int64_t cut = std::max<int64_t>(-before[axis], 0);
    const int64_t end = std::max<int64_t>(-after[axis], 0);
    if (cut > 0 || end > 0) x = slice(x, axes[i], cut, x.shape()[axes[i]] - Dim(cut + end));
    before[axis] = std::max<int64_t>(before[axis], 0);
    after[axis] = std::max<int64_t>(after[axis], 0);
  }
  c.out(pad(x, before, after, mode, value));
}

}  // namespace

namespace rules {
void register_pad(RuleTable& table) { table.add("Pad", pad_rule); }
}  // namespace rules

}  // namespace rlx::onnx
