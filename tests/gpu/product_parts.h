// The parts of a product in tests of the engine: what the device is given, and the same on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/lowering.h"
#include "ops/products/load_by_table.h"
#include "ops/products/product.h"
#include "rlx/tensor.h"

namespace rlx::testing::product {

using namespace products;

// What the op has to read, in order.
struct Inputs {
  std::vector<Tensor> tensors;
  size_t add(Tensor t) {
    tensors.push_back(std::move(t));
    return tensors.size() - 1;
  }
};
using Operands = OperandList;

// A matrix [batch, lines, k] and how it is loaded.
struct Source {
  std::string name;
  int64_t batch = 1, lines = 0, k = 0;
  int64_t run = 0;
  std::function<LoadPtr(const Operands& in)> load;
  std::function<double(int64_t batch, int64_t line, int64_t k)> at;
  std::function<bool(int64_t batch)> skips = [](int64_t) { return false; };
};

std::mt19937& numbers();
// Small whole numbers: sums are exact in whatever order.
Tensor whole_numbers(DType type, const std::vector<int64_t>& dims);

// --- Sources ---

// A strided source: `view` of a tensor with `elements`, its axes in three groups.
Source strided(Inputs& inputs, std::string name, Tensor tensor, View view, int64_t first, int64_t second,
               int64_t run = 0);

enum class Kind { along_k, along_lines, fours_along_k, fours_along_lines, axes, runs, backwards };
// One of the ways in which a strided matrix can lie in memory.
Source matrix(Inputs& inputs, Kind kind, int64_t batch, int64_t lines, int64_t k, DType type = DType::f32);

// Windows of an image [batch, 1, 5, 4, channels]: three by two taps, twelve pixels.
Source window(Inputs& inputs, int64_t batch, int64_t channels);

Source blocks(Inputs& inputs, DType type, int64_t batch, int64_t lines);

// Codes of four bits with a sign, a scale and a zero point for every eight of k.
Source packed(Inputs& inputs, bool along_k, int64_t lines, int64_t k);

// Batches or lines of another source, chosen by a table; of `inner`, the batches from `first` on exist.
Source by_table(Inputs& inputs, Source inner, LoadByTable::Picks picks, std::vector<int32_t> chosen,
                int64_t batch, LoadByTable::Outside outside = LoadByTable::Outside::zero, int64_t first = 0);

// --- Sinks ---

// Where the results go: outputs, all of whose elements hold kUntouched before.
struct Sink {
  std::string name;
  std::vector<std::vector<int64_t>> outputs;
  DType type = DType::f32;
  std::function<StorePtr(const Lowering& l, const Operands& in)> store;
  // The output and the position in it, -1 if the result is not stored.
  std::function<std::pair<size_t, int64_t>(int64_t batch, int64_t row, int64_t col)> place;
};
inline constexpr double kUntouched = 77;

Sink contiguous(int64_t batch, int64_t m, int64_t n, DType type = DType::f32);
Sink with_gaps(int64_t batch, int64_t m, int64_t n);
Sink swapped(int64_t batch, int64_t m, int64_t n);
// Columns in two axes that cannot be joined.
Sink in_axes(int64_t batch, int64_t m, int64_t n);
// The rows in another order, one of them nowhere.
Sink by_table(Inputs& inputs, int64_t batch, int64_t m, int64_t n);
// Columns in several outputs.
Sink split(int64_t batch, int64_t m, const std::vector<int64_t>& widths);

}  // namespace rlx::testing::product
