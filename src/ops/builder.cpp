#include "ops/elementwise.h"
#include "rlx/ops.h"

namespace rlx {

Value operator+(Value a, Value b) { return a.graph().add_value(elementwise("add"), {a, b}); }
Value operator-(Value a, Value b) { return a.graph().add_value(elementwise("sub"), {a, b}); }
Value operator*(Value a, Value b) { return a.graph().add_value(elementwise("mul"), {a, b}); }
Value operator/(Value a, Value b) { return a.graph().add_value(elementwise("div"), {a, b}); }

}  // namespace rlx
