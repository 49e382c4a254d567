// Sub-graphs that are put in place once for each element or iteration, as sequences need it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "import/onnx/call.h"
#include "import/onnx/importer.h"

namespace rlx::onnx {

// One integer or bool that depends on constants alone; nothing if it does not.
std::optional<int64_t> known_number(Call& c, const Imported& value);

// These tensors joined along an axis, or along a new one.
Imported joined_tensors(Call& c, const std::vector<Imported>& parts, int64_t axis, bool new_axis);

// At most so many times `proto` may be put in place: a small file could ask for any number.
int64_t most_copies(Call& c, const GraphProto& proto);
// Counts the work of putting a sub-graph in place with these inputs once, even if it has no nodes.
void spend_copy(Call& c, const std::vector<Imported>& inputs);

// The values that one is on the device: as many as a sequence has tensors, none for an optional that holds
// nothing.
std::vector<Value> device_values(const std::vector<Imported>& all);
// The same structure with other values; `next` is the first of them, and moves on.
Imported with_values(const Imported& like, const std::vector<Value>& values, size_t& next);
// For a body: what it takes in the place of an input of the node.
Importer::BodyInput body_input_like(Call& c, Imported value);

// The node is a Loop. Puts its body in place once for each iteration. False, and no outputs, if that cannot
// be done: the number of iterations depends on what only the run knows, or is too large.
bool unroll_loop(Call& c);

}  // namespace rlx::onnx
