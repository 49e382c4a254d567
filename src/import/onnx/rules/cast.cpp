// Cast and CastLike.
#include "import/onnx/rules.h"

namespace rlx::onnx {
namespace {

void cast_to(Call& c, ElementType to) {
  const ElementType from = c.type(0);
  const DType carrier = c.carried(to);
  if (from == to) return c.out(0, c.in(0), to);
  Value x = c.in(0);
  if (is_narrowed(to) && is_float(from)) {
    // Through 32 bits, so that the low bits are those of the whole number.
    x = cast(x, DType::i32);
  }
  x = value_dtype(x.dtype()) == carrier ? x
      : is_narrowed(to)                 ? cast(c.wrapped(cast(x, DType::i32), to), carrier)
                                        : cast(x, carrier);
  c.out(0, c.wrapped(x, to, c.flag("saturate", true)), to);
}

void cast_rule(Call& c) {
  c.expect_inputs(1, 1);
  cast_to(c, c.element_type("to"));
}

void cast_like_rule(Call& c) {
  c.expect_inputs(2, 2);
  cast_to(c, c.type(1));
}

}  // namespace

namespace rules {
void register_cast(RuleTable& table) {
  table.add("Cast", cast_rule);
  table.add("CastLike", cast_like_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
