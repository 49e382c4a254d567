// What tests of hostile ONNX files share: short names for tensors, and what the importer says of a model.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rlx/onnx.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing::hostile {

using Ints = std::vector<int64_t>;

inline constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

inline Tensor ints(const Ints& values) { return Tensor::of({std::ssize(values)}, values); }
inline Tensor whole(int64_t value) { return Tensor::scalar(value); }

inline std::string says(const OnnxModel& model) {
  return message([&] { static_cast<void>(onnx::parse(model.bytes())); });
}

}  // namespace rlx::testing::hostile

#define EXPECT_FILE_SAYS(model, text)                              \
  do {                                                             \
    const std::string said = ::rlx::testing::hostile::says(model); \
    EXPECT_TRUE(said.contains(text)) << said;                      \
  } while (false)

#define EXPECT_NODE_SAYS(said, text) EXPECT_TRUE(std::string(said).contains(text)) << (said)
