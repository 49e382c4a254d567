// Which elements of a row have a given part of its probability together.
#pragma once

#include <vector>

#include "rlx/value.h"

namespace rlx {

// {threshold, count} [.., 1] of rows of x <= 0 with the probabilities softmax(x): as few of the most probable
// as have the probability top_p together are those above the threshold, and the first `count` of those that
// equal it.
std::vector<Value> nucleus(Value x, double top_p);

}  // namespace rlx
