// Functions that add ops to the graph of their inputs. `rlx ops` lists all ops with their formulas.
#pragma once

#include "rlx/graph.h"

namespace rlx {

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);

}  // namespace rlx
