// A value of an ONNX graph while it is imported.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/onnx/element_type.h"
#include "rlx/value.h"

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

// The elements of a sequence are inputs, nodes and outputs of the graph: one cannot have as many as it likes.
inline constexpr int64_t kMaxSequence = 4096;

// A tensor, or a sequence: a list of tensors whose length is known while importing, and which the device
// never sees. An optional is what it holds.
struct Imported {
  ElementType type = ElementType::undefined;  // of a sequence: that of its elements
  std::optional<Ints> ints = {};
  Value value = {};  // on the device; of known integers it is made when it is first needed
  std::shared_ptr<const std::vector<Imported>> elements = {};  // of a sequence
  bool absent = false;                                         // an optional that holds nothing
  bool failed = false;                                         // the node that makes it could not be imported

  static Imported sequence(std::vector<Imported> elements, ElementType type) {
    return {.type = type, .elements = std::make_shared<const std::vector<Imported>>(std::move(elements))};
  }
  bool is_tensor() const { return !elements && !absent; }
  // What it is if it is no tensor, as part of a sentence.
  std::string what() const;
};

// The name of an element of a sequence that is an input or an output of the model.
std::string element_name(std::string_view sequence, int64_t index);

}  // namespace rlx::onnx
