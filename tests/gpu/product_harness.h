// Runs a product of given parts on a device, through the engine or a part of it, and compares with the sums
// of the same numbers on the host.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/report.h"
#include "tests/gpu/product_parts.h"
#include "tests/support/devices.h"

namespace rlx::testing::product {

struct Case {
  Inputs inputs;
  Source a, b;
  Sink y;
  // The epilogue: an expression of the product and of inputs, and the same on the host.
  std::string expr = {};
  std::vector<std::pair<size_t, Grouped>> extra = {};  // inputs and their views, in y's groups of axes
  std::function<double(double v, int64_t b, int64_t row, int64_t col)> tail = {};
  DType sum = DType::f32;
  int64_t run = 0;  // instead of that of the sources
};

class Products : public ::testing::Test {
 protected:
  // Where products run unless they are told.
  virtual const Device& device() const { return full_device(); }

  // A product through products::lower.
  void run(const Case& c, std::string_view loop) { run(c, loop, device()); }
  void run(const Case& c, std::string_view loop, const Device& device);
  // One dispatch for each of these regions.
  void run_regions(const Case& c, std::string_view loop, const std::vector<Region>& regions);
  // The sums over parts of k, each stored on its own, and their sum.
  void run_parts(const Case& c, std::string_view loop, int64_t parts);

  std::vector<StepReport> steps_;  // of the last run

 private:
  void check_case(const Case& c, std::string_view loop, const Device& device,
                  const std::function<void(Lowering&, const Product&)>& lower_product);
};

}  // namespace rlx::testing::product
