// Copies of views: one by one, four at a time, and in blocks of four by four, by which part of a view lies
// side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "tests/support/devices.h"

namespace rlx::testing {
namespace {

using Ints = std::vector<int64_t>;

struct Copied {
  Ints dims;
  int64_t skipped;  // along the first axis
  Ints perm;
  std::string_view kernel;  // for types of four bytes, on a device that binds all of it
};

// The elements of the transpose, by counting: element e of x is e modulo 113, which every type holds.
Ints wanted(const Copied& c) {
  const size_t rank = c.dims.size();
  Ints strides(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * c.dims[i + 1];
  Ints kept = c.dims;
  kept[0] -= c.skipped;
  Ints out;
  Ints index(rank, 0);  // in the transpose
  for (int64_t left = std::accumulate(kept.begin(), kept.end(), int64_t{1}, std::multiplies{}); left > 0;
       --left) {
    int64_t at = c.skipped * strides[0];
    for (size_t i = 0; i < rank; ++i) at += index[i] * strides[static_cast<size_t>(c.perm[i])];
    out.push_back(at % 113);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < kept[static_cast<size_t>(c.perm[i])]) break;
      index[i] = 0;
    }
  }
  return out;
}

const Copied kCopies[] = {
    {{8, 12}, 0, {1, 0}, "copy_blocks"},
    {{64, 96}, 0, {1, 0}, "copy_blocks"},
    {{4, 4}, 0, {1, 0}, "copy_blocks"},
    {{36, 32}, 4, {1, 0}, "copy_blocks"},
    {{33, 32}, 1, {1, 0}, "copy_blocks"},
    {{64, 32}, 1, {1, 0}, "copy"},  // 63 rows
    {{3, 8, 12}, 0, {0, 2, 1}, "copy_blocks"},
    {{3, 8, 12}, 1, {2, 0, 1}, "copy_blocks"},  // the two first axes are one
    {{3, 8, 12}, 0, {1, 2, 0}, "copy"},         // three neighbours
    {{8, 3, 12}, 0, {2, 1, 0}, "copy_blocks"},
    {{3, 8, 12}, 0, {1, 0, 2}, "copy_fours"},
    {{3, 8, 12}, 2, {1, 0, 2}, "copy_fours"},
    {{3, 8, 13}, 0, {1, 0, 2}, "copy"},
    {{4, 6, 10}, 0, {0, 2, 1}, "copy"},
    {{2, 3, 4, 5, 8}, 0, {4, 2, 0, 3, 1}, "copy"},
    {{2, 3, 5, 4, 8}, 1, {1, 0, 4, 2, 3}, "copy_blocks"},
    {{1, 300, 4}, 0, {2, 0, 1}, "copy_blocks"},
    {{260, 516}, 0, {1, 0}, "copy_blocks"},  // 64 KiB do not hold it
    {{6, 130, 64}, 0, {1, 0, 2}, "copy_fours"},
};

TEST(Copies, AreWhatTheViewSays) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i64, DType::u8, DType::bool_}) {
    for (const Copied& c : kCopies) {
      Ints values(
          static_cast<size_t>(std::accumulate(c.dims.begin(), c.dims.end(), int64_t{1}, std::multiplies{})));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i % 113);
      Ints want = wanted(c);
      if (type == DType::bool_) {
        for (Ints* all : {&values, &want}) {
          for (int64_t& v : *all) v %= 2;
        }
      }
      Graph g;
      const Value x = g.input("x", type, Shape(c.dims));
      g.output("y", transpose(slice(x, 0, c.skipped, c.dims[0] - c.skipped), c.perm));
      const bool real = is_float(type);
      const Tensor given =
          real ? Tensor::from_doubles(type, c.dims, std::vector<double>(values.begin(), values.end()))
               : Tensor::from_ints(type, c.dims, values);
      for (const Device* device : {&full_device(), &small_device()}) {
        Executable exe = rlx::compile(g, *device);
        const Tensor y = exe.run({{"x", given}}).at("y");
        const std::vector<double> got = y.doubles();
        EXPECT_EQ(Ints(got.begin(), got.end()), want) << to_string(type) << Shape(c.dims).text() << " from "
                                                      << c.skipped << " for {" << joined(c.perm) << "}";
      }
    }
  }
}

TEST(Copies, TakeFoursWhereTheyLieSideBySide) {
  for (const Copied& c : kCopies) {
    Graph g;
    const Value x = g.input("x", DType::f32, Shape(c.dims));
    g.output("y", transpose(slice(x, 0, c.skipped, c.dims[0] - c.skipped), c.perm));
    const PlanReport plan = rlx::compile(g, full_device()).plan_report();
    ASSERT_EQ(plan.run.size(), 1u);
    EXPECT_EQ(plan.run[0].kernel, c.kernel) << Shape(c.dims).text() << joined(c.perm);
  }
}

// Kernels find a row by a product with an f32 (quotient in kernels/lib/prelude.wgsl): short rows and long
// ones, and positions above 2^24, which an f32 does not hold.
TEST(Copies, FindTheRowOfEachElement) {
  constexpr int64_t kMany = int64_t{1} << 20;
  struct Rows {
    int64_t count;
    Ints lengths;
  };
  for (const auto& [count, lengths] :
       {Rows{1, {4, 8}}, Rows{3, {16, 24}}, Rows{kMany - 1, {4, 8}}, Rows{kMany - 1, {1, 2}},
        Rows{kMany - 1, {16, 24}}, Rows{kMany + 1, {4, 4}}, Rows{257, {65532, 4}}}) {
    Graph g;
    NamedTensors inputs;
    std::vector<Value> parts;
    std::vector<std::vector<uint8_t>> values;
    for (const int64_t length : lengths) {
      const std::string name = "x" + std::to_string(parts.size());
      parts.push_back(g.input(name, DType::u8, {count, length}));
      std::vector<uint8_t>& v = values.emplace_back(static_cast<size_t>(count * length));
      for (size_t i = 0; i < v.size(); ++i)
        v[i] = static_cast<uint8_t>((i * 2654435761u + values.size()) >> 13);
      inputs.emplace(name, Tensor::of({count, length}, v));
    }
    g.output("y", concat(parts, 1));
    std::vector<uint8_t> want;
    for (int64_t row = 0; row < count; ++row) {
      for (size_t i = 0; i < lengths.size(); ++i) {
        want.insert(want.end(), values[i].begin() + row * lengths[i],
                    values[i].begin() + (row + 1) * lengths[i]);
      }
    }
    const Tensor y = rlx::compile(g, full_device()).run(inputs).at("y");
    EXPECT_TRUE(std::ranges::equal(y.span<uint8_t>(), want))
        << count << " rows of {" << joined(lengths) << "}";
  }
}

}  // namespace
}  // namespace rlx::testing
