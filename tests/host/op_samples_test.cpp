// Samples of custom ops are written by users: one that cannot be read is an error with its text.
#include <gtest/gtest.h>

#include "runtime/op_samples.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

TEST(OpSamples, SayWhatCannotBeRead) {
  const auto made = [](const std::string& sample) {
    return make_sample(op_table().at("softmax"), sample, DType::f32, Reach::direct, 1);
  };
  EXPECT_EQ(made("softmax(T[3,17] in 0..9) {axis=0}").inputs.size(), 1u);
  EXPECT_SAYS(made("softmax"), "the sample 'softmax' of the op 'softmax' is not 'softmax(...)'");
  EXPECT_SAYS(made("softmax(T[3"), "is not 'softmax(...)'");
  EXPECT_SAYS(made("exp(T[3])"), "is not 'softmax(...)'");
  EXPECT_SAYS(made("softmax(T[3)"), "the operand 'T[3' of a sample is not a number, or a type");
  EXPECT_SAYS(made("softmax(f31[3])"), "the operand 'f31[3]' of a sample is not a number, or a type");
  EXPECT_SAYS(made("softmax(T[3,n])"), "the operand 'T[3,n]' of a sample: 'n' is not a number");
  EXPECT_SAYS(made("softmax(T[3] in 0)"), "the operand 'T[3] in 0' of a sample has no range such as 0..5");
  EXPECT_SAYS(made("softmax(T[3] in 0..x)"), "'x' is not a number");
  EXPECT_SAYS(made("softmax(T[3] in 1..2..3)"), "'2..3' is not a number");
  EXPECT_SAYS(made("softmax(T[3] in 5..-5)"), "5 is more than -5");
  EXPECT_SAYS(made("softmax(T[-3])"), "has the negative size -3");
}

}  // namespace
}  // namespace rlx::testing
