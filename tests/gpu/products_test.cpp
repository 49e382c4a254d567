// The engine of all products (src/ops/products): every tile loop with every load and every store, without an
// op around it, against products of the same numbers on the host.
//
// Compiling shaders takes the time, so a load or a store meets each loop once, with a plain choice for the
// other parts, and only a few cases combine special ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "encodings/encoding.h"
#include "ops/products/load_by_table.h"
#include "ops/products/product.h"
#include "tests/gpu/gpu_compiler.h"
#include "tests/gpu/product_harness.h"
#include "tests/gpu/product_parts.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/full.h"

namespace rlx::testing::product {
namespace {

std::vector<std::string> loop_names() {
  std::vector<std::string> names;
  for (const Loop& loop : loops()) {
    // Only for blocks, and only for windows: tests/gpu/encoding_test.cpp, NeighbouringWindows.
    if (loop.name != "eighths" && loop.name != kSlide) names.emplace_back(loop.name);
  }
  return names;
}

class EveryLoop : public Products, public ::testing::WithParamInterface<std::string> {
 protected:
  // Units that any number is a factor of; few devices have them.
  const Device& device() const override {
    return GetParam() == "matrix" ? emulating_device() : full_device();
  }

  void run(const Case& c) {
    // In a short run each loop meets every other load and store, and its neighbour the rest of them.
    if (short_run() && (case_++ + loop_index()) % 2 == 1) return;
    Products::run(c, GetParam());
    if (only_compiles()) return;
    const bool ran = std::ranges::any_of(
        steps_, [&](const StepReport& step) { return has_words(step.variant, GetParam()); });
    EXPECT_TRUE(ran) << c.a.name << " x " << c.b.name;
  }

 private:
  static std::ptrdiff_t loop_index() {
    const std::vector<std::string> names = loop_names();
    return std::ranges::find(names, GetParam()) - names.begin();
  }

  std::ptrdiff_t case_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Loops, EveryLoop, ::testing::ValuesIn(loop_names()),
                         [](const auto& test) { return test.param; });

// A case of which `special` makes one side, the other being a plain matrix.
template <class F>
Case with_a(F&& special, int64_t n = 11) {
  Case c;
  c.a = special(c.inputs);
  c.b = matrix(c.inputs, n % 4 == 0 ? Kind::fours_along_lines : Kind::along_lines, c.a.batch, n, c.a.k);
  c.y = contiguous(c.a.batch, c.a.lines, n);
  return c;
}
template <class F>
Case with_b(F&& special, int64_t m = 5) {
  Case c;
  c.b = special(c.inputs);
  c.a = matrix(c.inputs, Kind::along_k, c.b.batch, m, c.b.k);
  c.y = contiguous(c.b.batch, m, c.b.lines);
  return c;
}
Case plain_with(const std::function<Sink(Inputs&)>& sink, int64_t m = 5, int64_t n = 11) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, m, 37);
  c.b = matrix(c.inputs, Kind::along_lines, 2, n, 37);
  c.y = sink(c.inputs);
  return c;
}

TEST_P(EveryLoop, LoadsAInEveryWay) {
  run(with_a([](Inputs& in) { return matrix(in, Kind::along_k, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::along_lines, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::fours_along_k, 2, 5, 36); }, 12));
  run(with_a([](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, 8, 37); }, 12));
  run(with_a([](Inputs& in) { return matrix(in, Kind::axes, 2, 5, 36); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::runs, 2, 5, 36); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::backwards, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return window(in, 2, 8); }));
  run(with_a([](Inputs& in) {
    return by_table(in, matrix(in, Kind::along_k, 1, 7, 37), LoadByTable::Picks::line,
                    {6, 0, 0, 3, 5, 1, 2, 4, 6, 6}, 2);
  }));
}

TEST_P(EveryLoop, LoadsBInEveryWay) {
  run(with_b([](Inputs& in) { return matrix(in, Kind::along_k, 2, 11, 37); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::fours_along_k, 2, 11, 36); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, 12, 37); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::axes, 2, 9, 36); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::runs, 2, 11, 36); }));
  run(with_b([](Inputs& in) { return window(in, 2, 3); }));
  run(with_b([](Inputs& in) { return packed(in, true, 11, 40); }));
  run(with_b([](Inputs& in) { return packed(in, false, 12, 40); }));
  const std::vector<int32_t> experts = {2, 0, -1, 7, 1};
  for (const auto outside : {LoadByTable::Outside::zero, LoadByTable::Outside::skipped_if_negative}) {
    run(with_b([&](Inputs& in) {
      return by_table(in, matrix(in, Kind::along_lines, 3, 11, 37), LoadByTable::Picks::batch, experts, 5,
                      outside);
    }));
  }
}

TEST_P(EveryLoop, LoadsBlocksOfEveryEncoding) {
  for (const Encoding& e : encoding_table().all()) {
    if (!is_quick(e.dtype)) continue;
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 11); }));
    run(with_a([&](Inputs& in) { return blocks(in, e.dtype, 1, 5); }));
  }
  const DType type = encoding_table().all().front().dtype;
  run(with_b([&](Inputs& in) {
    return by_table(in, blocks(in, type, 3, 11), LoadByTable::Picks::batch, {6, 5, 3, 7}, 4,
                    LoadByTable::Outside::zero, 5);
  }));
}

TEST_P(EveryLoop, StoresInEveryWay) {
  run(plain_with([](Inputs&) { return with_gaps(2, 5, 11); }));
  run(plain_with([](Inputs&) { return swapped(2, 5, 11); }));
  run(plain_with([](Inputs&) { return in_axes(2, 5, 24); }, 5, 24));
  // Also with an epilogue, which has no inputs here.
  const auto negated = [](Case c) {
    c.expr = "neg($0)";
    c.tail = [](double v, int64_t, int64_t, int64_t) { return -v; };
    return c;
  };
  run(negated(plain_with([](Inputs& in) { return by_table(in, 2, 5, 11); })));
  run(negated(plain_with([](Inputs&) { return split(2, 5, {3, 6, 2}); })));
  run(plain_with([](Inputs&) { return split(2, 5, {8, 4}); }, 5, 12));
  // Fours of columns, but not of all outputs: some would reach into the next one.
  run(plain_with([](Inputs&) { return split(2, 5, {4, 7, 1}); }, 5, 12));
}

// Tiles beyond the first, in all directions.
TEST_P(EveryLoop, MakesManyTiles) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 70, 50);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 530, 50);
  c.y = contiguous(2, 70, 530);
  run(c);
  // Few rows, and columns that fill the last of wide tiles in part.
  for (const auto& [m, n] : {std::pair{1, 1000}, {5, 300}, {16, 444}})
    run(with_b([n](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, n, 37); }, m));
}

TEST_P(EveryLoop, NothingToAddUpIsZero) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 0);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 0);
  c.y = contiguous(2, 5, 11);
  run(c);
}

TEST_P(EveryLoop, AppliesAnEpilogueWithInputs) {
  constexpr int64_t n = 12;
  Case c = plain_with([](Inputs&) { return contiguous(2, 5, n); }, 5, n);
  const Tensor bias = whole_numbers(DType::f32, {n});
  const Tensor residual = whole_numbers(DType::f32, {2, n, 5});
  c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({n}).broadcast_to({2, 5, n})}, 1, 1}},
             {c.inputs.add(residual), {{.view = View::contiguous({2, n, 5}).permute({0, 2, 1})}, 1, 1}}};
  c.expr = "t0=add($0,$1); t1=maximum(t0,0); sub($2,t1)";
  c.tail = [=](double v, int64_t b, int64_t row, int64_t col) {
    return residual.real((b * n + col) * 5 + row) - std::max(v + bias.real(col), 0.0);
  };
  run(c);
}

TEST_P(EveryLoop, AddsBytesUpExactly) {
  if (GetParam() == "matrix") return;  // which takes them in fours alone: tests/gpu/matrix_units_test.cpp
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 36, DType::i8);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 12, 36, DType::i8);
  c.y = contiguous(2, 5, 12, DType::i32);
  c.sum = DType::i32;
  run(c);
}

// As regions that limits lead to, and others that they only lead to for enormous products.
TEST_P(EveryLoop, ComputesRegions) {
  const auto regions = [](int64_t m, int64_t n, int64_t k, int64_t row, int64_t col) {
    const Extent both{0, 2};
    const Extent all{0, k};
    return std::vector<Region>{{both, {0, row}, {0, n}, all},
                               {{0, 1}, {row, m}, {0, col}, all},
                               {{1, 2}, {row, m}, {0, col}, all},
                               {both, {row, m}, {col, n}, all}};
  };
  for (const Kind kind : {Kind::fours_along_lines, Kind::fours_along_k}) {
    Case c;
    c.a = matrix(c.inputs, kind, 2, 8, 36);
    c.b = matrix(c.inputs, kind, 2, 12, 36);
    c.y = contiguous(2, 8, 12);
    run_regions(c, GetParam(), regions(8, 12, 36, 2, 6));
  }
  Case c;
  c.a = window(c.inputs, 2, 3);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 18);
  c.y = contiguous(2, 12, 11);
  run_regions(c, GetParam(), regions(12, 11, 18, 8, 4));
}

// Sums over a part of k, which may begin inside a run.
TEST_P(EveryLoop, SumsPartsOfK) {
  const std::pair<Extent, int64_t> cases[] = {{{16, 33}, 0}, {{2, 5}, 4}, {{8, 36}, 4}, {{8, 33}, 6}};
  for (const auto& [part, run] : cases) {
    Case c;
    c.a = matrix(c.inputs, Kind::fours_along_k, 2, 5, 36);
    c.b = matrix(c.inputs, Kind::fours_along_k, 2, 12, 36);
    c.y = contiguous(2, 5, 12);
    c.run = run;
    c.a.at = [whole = c.a.at, part](int64_t b, int64_t line, int64_t k) {
      return k >= part.begin && k < part.end ? whole(b, line, k) : 0;
    };
    run_regions(c, GetParam(), {{{0, 2}, {0, 5}, {0, 12}, part}});
  }
}

// --- combinations ---

TEST_F(Products, OfSpecialParts) {
  const DType type = encoding_table().all().back().dtype;
  for (const char* loop : {"staged", "dot"}) {
    // Rows grouped by expert, over quantised weights, back to where they came from.
    Case c;
    c.b = by_table(c.inputs, blocks(c.inputs, type, 3, 12), LoadByTable::Picks::batch, {2, 0, -1}, 3,
                   LoadByTable::Outside::skipped_if_negative);
    c.a = by_table(c.inputs, matrix(c.inputs, Kind::along_k, 1, 9, c.b.k), LoadByTable::Picks::line,
                   {8, 7, 6, 5, 0, 1, 2, 3, 4, 4, 4, 4}, 3);
    c.y = by_table(c.inputs, 3, 4, 12);
    run(c, loop);
  }
  for (const char* loop : {"rows", "tiled"}) {
    Case c;
    // Runs that divide those of both.
    c.a = matrix(c.inputs, Kind::runs, 2, 12, 36);
    c.b = matrix(c.inputs, Kind::axes, 2, 6, 36);
    c.y = swapped(2, 12, 12);
    c.run = 2;
    run(c, loop);
  }
  Case c;
  c.a = window(c.inputs, 2, 3);
  c.b = matrix(c.inputs, Kind::runs, 2, 11, 18);
  c.run = 3;
  c.y = split(2, 12, {4, 7});
  run(c, "plain");
  run(c, "staged");
}

TEST_F(Products, NeighbouringWindows) {
  Case c = with_b([](Inputs& in) { return window(in, 3, 1); });
  run(c, kSlide);
  run_regions(c, kSlide,
              {{{0, 3}, {0, 2}, {0, 12}, {0, 6}},
               {{0, 1}, {2, 5}, {0, 12}, {0, 6}},
               {{1, 3}, {2, 5}, {0, 12}, {0, 6}}});
  c.y = with_gaps(3, 5, 12);
  run(c, kSlide);
}

TEST_F(Products, Transposed) {
  for (const std::string& loop : loop_names()) {
    if (loop == "matrix") continue;  // tests/gpu/matrix_units_test.cpp
    Case c = plain_with([](Inputs&) { return with_gaps(2, 33, 3); }, 33, 3);
    const Tensor bias = whole_numbers(DType::f32, {3});
    c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({3}).broadcast_to({2, 33, 3})}, 1, 1}}};
    c.expr = "add($0,$1)";
    c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v + bias.real(col); };
    run(c, "transposed " + loop);
    EXPECT_TRUE(std::ranges::any_of(
        steps_, [&](const StepReport& s) { return has_words(s.variant, "transposed " + loop); }));
  }
  // By default with few columns and many rows.
  for (const Encoding& e : encoding_table().all()) {
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 1, 3); }, 33), "");
    EXPECT_TRUE(
        std::ranges::any_of(steps_, [](const StepReport& s) { return has_words(s.variant, "transposed"); }));
  }
}

// The sums over parts of k at the same time; the last parts may be empty.
TEST_F(Products, InPartsOfKAtTheSameTime) {
  for (const int64_t k : {37, 20, 4, 1, 0}) {
    Case c;
    c.a = matrix(c.inputs, Kind::along_k, 2, 5, k);
    c.b = matrix(c.inputs, Kind::along_lines, 2, 11, k);
    c.y = k == 20 ? with_gaps(2, 5, 11) : contiguous(2, 5, 11);
    if (k == 37) {
      const Tensor bias = whole_numbers(DType::f32, {11});
      c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({11}).broadcast_to({2, 5, 11})}, 1, 1}}};
      c.expr = "mul($0,$1)";
      c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v * bias.real(col); };
    }
    run(c, "split_k");
  }
  for (const Encoding& e : encoding_table().all()) {
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 11); }), "split_k");
    EXPECT_TRUE(
        std::ranges::any_of(steps_, [](const StepReport& s) { return has_words(s.variant, "split_k"); }));
  }
  run(with_b([](Inputs& in) { return window(in, 2, 3); }), "split_k");
  run(with_b([&](Inputs& in) {
        return by_table(in, matrix(in, Kind::along_lines, 3, 11, 37), LoadByTable::Picks::batch, {2, 0, -1},
                        3);
      }),
      "split_k");
}

// b copied into panels first: whole ones, a part of one, and in batches; not where it cannot be copied.
TEST_F(Products, InPanels) {
  const bool cpu = full_device().caps().software();
  const auto expect = [&](const Case& c, bool copied, const Device& device) {
    run(c, "paneled", device);
    EXPECT_EQ(copied && cpu, std::ranges::any_of(
                                 steps_, [](const StepReport& s) { return has_words(s.variant, "paneled"); }))
        << c.b.name << " " << c.b.lines << " x " << c.b.k;
  };
  for (const Kind kind : {Kind::along_lines, Kind::along_k}) {
    for (const int64_t n : {1, 31, 32, 33, 64, 97})
      expect(with_b([&](Inputs& in) { return matrix(in, kind, 1, n, 37); }, 33), n > 1, full_device());
    for (const int64_t n : {17, 64})
      expect(with_b([&](Inputs& in) { return matrix(in, kind, 3, n, 36); }, 9), true, full_device());
    expect(with_b([&](Inputs& in) { return matrix(in, kind, 2, 150, 300); }, 70), true, small_device());
  }
  expect(with_b([](Inputs& in) { return window(in, 2, 3); }), false, full_device());
}

// All loops leave parts beyond the end of k as zeros.
TEST_P(EveryLoop, PartsPastTheEndOfKAreZero) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 20);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 20);
  c.y = contiguous(2, 5, 11);
  run_parts(c, GetParam(), 4);
}

// --- limits ---

TEST_F(Products, AreCutToFitBindings) {
  // Past one binding of 64 KiB and past all eight of them, along each axis.
  const std::pair<Sizes, Kind> cases[] = {
      {{40, 20, 70, 64}, Kind::along_k}, {{2, 600, 50, 130}, Kind::along_lines},
      {{1, 5, 2100, 90}, Kind::along_k}, {{1, 5, 2100, 90}, Kind::along_lines},
      {{1, 2, 3, 60000}, Kind::along_k}, {{1, 3, 12, 12000}, Kind::along_lines},
      {{1, 700, 300, 0}, Kind::along_k},
  };
  for (const auto& [s, kind] : cases) {
    Case c;
    c.a = matrix(c.inputs, kind, s.batch, s.m, s.k);
    c.b = matrix(c.inputs, kind, s.batch, s.n, s.k);
    c.y = contiguous(s.batch, s.m, s.n);
    const Tensor bias = whole_numbers(DType::f32, {s.n});
    c.extra = {
        {c.inputs.add(bias), {{.view = View::contiguous({s.n}).broadcast_to({s.batch, s.m, s.n})}, 1, 1}}};
    c.expr = "add($0,$1)";
    c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v + bias.real(col); };
    run(c, "", small_device());
  }
}

// Windows whose image is past all bindings, and what they are multiplied with.
TEST_F(Products, OfWindowsAreCutToFitBindings) {
  for (const bool left : {false, true}) {
    Case c;
    const Source w = window(c.inputs, 150, 12);
    const Source other = matrix(c.inputs, Kind::along_lines, 150, 11, w.k);
    c.a = left ? w : other;
    c.b = left ? other : w;
    c.y = contiguous(150, c.a.lines, c.b.lines);
    run(c, "", small_device());
  }
}

TEST_F(Products, OfBlocksAreCutToFitBindings) {
  for (const Encoding& e : encoding_table().all()) {
    if (!is_quick(e.dtype)) continue;
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 1501); }, 3), "", small_device());
    // One line is more than all bindings hold.
    Case c;
    const int64_t k = (int64_t{5} << 17) / e.block_bytes * e.block_elements;
    c.b = strided(c.inputs, "long lines of blocks", ggml_tensor(e.dtype, {2, k}), View::contiguous({2, k}), 0,
                  1, e.group_elements);
    c.b.batch = 1;
    c.a = matrix(c.inputs, Kind::along_k, 1, 2, k);
    c.y = contiguous(1, 2, 2);
    run(c, "", small_device());
  }
}

}  // namespace
}  // namespace rlx::testing::product
