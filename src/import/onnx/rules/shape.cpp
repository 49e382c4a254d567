// Shape and Size are always known while importing (shape_arithmetic.cpp).
#include "import/onnx/rules.h"

namespace rlx::onnx {
namespace {

void known_rule(Call&) { check(false, "shapes are known while importing"); }

}  // namespace

namespace rules {
void register_shape(RuleTable& table) {
  table.add("Shape", known_rule);
  table.add("Size", known_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
