// A value of an ONNX graph while it is imported.
#pragma once

#include <optional>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/graph.h"

namespace rlx::onnx {

// Integers or bools (0 and 1) that are known while importing: shapes, axes, and what is computed from them.
// They may depend on symbols.
struct Ints {
  std::vector<int64_t> shape;
  std::vector<Dim> values;  // in row-major order

  static Ints scalar(Dim value) { return {{}, {std::move(value)}}; }
  static Ints vector(std::vector<Dim> values) {
    return {{static_cast<int64_t>(values.size())}, std::move(values)};
  }
  bool is_static() const;
  std::vector<int64_t> numbers() const;  // an error when one is symbolic
};
// What does not fit is computed on the device like any other tensor.
inline constexpr int64_t kMaxInts = 4096;

struct Imported {
  ElementType type = ElementType::undefined;
  std::optional<Ints> ints = {};
  Value value = {};     // on the device; of known integers it is made when it is first needed
  bool failed = false;  // the node that makes it could not be imported
};

}  // namespace rlx::onnx
