// Cast, CastLike and BitCast.
#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {
namespace {

// A float8e8m0, with the names that Cast has for ways of rounding.
Value rounded_to_power(const Call& c, Value x) {
  const std::string mode = c.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") fail("its round_mode is '{}'", excerpt(mode));
  const int format = mode == "up" ? 5 : mode == "down" ? 6 : 7;
  return round_to_format(x, format, c.flag("saturate", true));
}

void cast_to(Call& c, ElementType to) {
  c.ignores("saturate round_mode");  // of other types
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
  if (to == ElementType::float8e8m0) return c.out(0, rounded_to_power(c, x), to);
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

// Integers of 16 and fewer bits are carried in wider ones, where only their sign changes.
void bitcast_rule(Call& c) {
  c.expect_inputs(1, 1);
  const ElementType from = c.type(0);
  const ElementType to = c.element_type("to");
  if (from == to) return c.out(0, c.in(0), to);
  if (bits_of(from) != bits_of(to))
    fail("a {} of {} bits cannot be read as a {} of {}", to_string(from), bits_of(from), to_string(to),
         bits_of(to));
  if (is_integer(from) && is_narrowed(to)) return c.out(0, c.wrapped(c.in(0), to), to);
  if (bits_of(to) != 32 && bits_of(to) != 8) {
    c.refuse(Refusal::element_type, "the bits of a {} cannot be read as a {}", to_string(from),
             to_string(to));
  }
  c.out(0, bitcast(c.in(0), c.carried(to)), to);
}

}  // namespace

namespace rules {
void register_cast(RuleTable& table) {
  table.add("Cast", cast_rule);
  table.add("CastLike", cast_like_rule);
  table.add("BitCast", bitcast_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
