// Minima and maxima in dims: their one form, what can be shown of them, and random dims against their values.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ir/dim_choices.h"
#include "rlx/error.h"
#include "rlx/shape.h"

namespace rlx {
namespace {

const Dim n("n"), m("m");

TEST(DimMinima, PartsOfAnAxisAddUp) {
  // concat(x[:1], x[1:]), and x[1:] beside x[:-1].
  EXPECT_EQ(Dim::min(n, 1) + (n - Dim::min(n, 1)), n);
  EXPECT_EQ(n - Dim::min(1, n), Dim::max(n - 1, 0));
  EXPECT_EQ(Dim::min(n + m, m + 3), m + Dim::min(3, n));
  EXPECT_EQ(Dim::min(n * 2, Dim(4)), Dim::min(n, 2) * 2);
  EXPECT_EQ(Dim::min(n, m) + Dim::max(n, m), n + m);
  EXPECT_EQ(Dim::max(n, m) - Dim::min(m, n), Dim::max(n - m, m - n));
  EXPECT_EQ(Dim::min(1, Dim::min(3, n)), Dim::min(1, n));
  EXPECT_EQ(Dim::max(Dim::min(5, n) - 2, 0), Dim::min(5, n) - Dim::min(2, n));
  EXPECT_EQ(Dim::min(n, m).text(), "min(m,n)");
  EXPECT_EQ(Dim::max(n, 3).text(), "-min(3,n)+n+3");
}

TEST(DimMinima, WhatIsShownOfThem) {
  EXPECT_TRUE((n - Dim::min(n, 3)).is_size());
  EXPECT_TRUE((Dim(3) - Dim::min(n, 3)).is_size());
  EXPECT_TRUE((Dim::min(m + n, 7) - Dim::min(m, 7)).is_size());
  EXPECT_FALSE((Dim::min(n, 3) - 1).is_size());
  EXPECT_FALSE((Dim::min(n, m) - n).is_size());
  EXPECT_EQ(Dim::compare(Dim::min(n, 3), 4), -1);
  EXPECT_EQ(Dim::compare(Dim::min(n, 3), 3), std::nullopt);
  EXPECT_EQ(Dim::compare(n + 4, Dim::min(n, m)), 1);
  EXPECT_TRUE((n - n.floor_div(2)).is_size());
  EXPECT_TRUE((n.ceil_div(3) * 3 - n).is_size());
  EXPECT_EQ(Dim::min(n.floor_div(2), n), n.floor_div(2));
}

TEST(DimMinima, NumbersOfAnySize) {
  const int64_t last = INT64_MAX;
  EXPECT_EQ(Dim::min(n, last).bind({{"n", 7}}).value(), 7);
  EXPECT_EQ(Dim::max(n, -last).text(), "n");
  EXPECT_THROW(Dim::min(n, INT64_MIN + 1) - 5, Error);
  EXPECT_FALSE((Dim(last) - n * last).is_size());
}

TEST(DimMinima, TheFirstEntryBroadcasts) {
  EXPECT_EQ(broadcast({n, 4}, {Dim::min(n, 1), 4}, "add"), (Shape{n, 4}));
  EXPECT_EQ(broadcast({Dim::min(n, 1)}, {n}, "add"), (Shape{n}));
  EXPECT_THROW(broadcast({Dim::min(n, 2)}, {n}, "add"), Error);
}

TEST(DimMinima, CanBeChosen) {
  const Dim d = Dim::min(n, 4) + Dim::min(n + 1, m) * 2;
  const std::vector<Minimum> found = minima(d);
  ASSERT_EQ(found.size(), 2);
  for (const Minimum& one : found) EXPECT_EQ(Dim::min(one.a, one.b).text(), one.text);
  EXPECT_EQ(choose(d, {{"min(4,n)", 4}}), Dim::min(n + 1, m) * 2 + 4);
  EXPECT_EQ(choose(d, {{"min(4,n)", n}, {"min(m,n+1)", m}}), n + m * 2);
  EXPECT_TRUE(minima(Dim::parse("amin+n")).empty());
  EXPECT_EQ(minima(Dim::min(Dim::min(n, m), 3).floor_div(2)).size(), 2);
  EXPECT_EQ(choices_of(minima(d)).size(), 8);

  EXPECT_EQ(within_capacities(Dim::min(n, 100), {{"n", 64}}), n);
  EXPECT_EQ(within_capacities(Dim::min(n, 100), {{"n", 101}}), Dim::min(n, 100));
  EXPECT_EQ(within_capacities(Dim::min(n + m, 100) - Dim::min(m, 100), {{"n", 40}, {"m", 60}}), n);
}

// A dim and what it is worth.
struct Random {
  Dim dim;
  std::function<int64_t(int64_t, int64_t)> value;
};

int64_t floored(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

Random random_dim(std::mt19937& random, int depth) {
  const int64_t number = static_cast<int64_t>(random() % 11) - 3;
  switch (depth == 0 ? random() % 3 : random() % 9) {
    case 0:
      return {Dim(number), [number](int64_t, int64_t) { return number; }};
    case 1:
      return {n, [](int64_t a, int64_t) { return a; }};
    case 2:
      return {m, [](int64_t, int64_t b) { return b; }};
    case 3: {
      const Random x = random_dim(random, depth - 1);
      const int64_t by = 1 + static_cast<int64_t>(random() % 4);
      return {x.dim.floor_div(by), [=](int64_t a, int64_t b) { return floored(x.value(a, b), by); }};
    }
    case 4: {
      const Random x = random_dim(random, depth - 1);
      return {x.dim * Dim(number), [=](int64_t a, int64_t b) { return x.value(a, b) * number; }};
    }
    default:
      break;
  }
  const Random x = random_dim(random, depth - 1);
  const Random y = random_dim(random, depth - 1);
  switch (random() % 4) {
    case 0:
      return {x.dim + y.dim, [=](int64_t a, int64_t b) { return x.value(a, b) + y.value(a, b); }};
    case 1:
      return {x.dim - y.dim, [=](int64_t a, int64_t b) { return x.value(a, b) - y.value(a, b); }};
    case 2:
      return {Dim::min(x.dim, y.dim),
              [=](int64_t a, int64_t b) { return std::min(x.value(a, b), y.value(a, b)); }};
    default:
      return {Dim::max(x.dim, y.dim),
              [=](int64_t a, int64_t b) { return std::max(x.value(a, b), y.value(a, b)); }};
  }
}

TEST(DimMinima, RandomDimsHaveTheirValues) {
  std::mt19937 random(7);
  int shown = 0;
  for (int i = 0; i < 3000; ++i) {
    const Random x = random_dim(random, 3);
    const Random y = random_dim(random, 2);
    EXPECT_EQ(Dim::parse(x.dim.text()), x.dim) << x.dim;
    const bool is_size = x.dim.is_size();
    const auto order = Dim::compare(x.dim, y.dim);
    shown += is_size && !minima(x.dim).empty() ? 1 : 0;
    for (int64_t a = 0; a < 9; ++a) {
      for (int64_t b = 0; b < 9; ++b) {
        const int64_t value = x.value(a, b);
        ASSERT_EQ(x.dim.bind({{"n", a}, {"m", b}}).value(), value) << x.dim << " at " << a << ", " << b;
        ASSERT_EQ(x.dim.bind({{"n", a}}).bind({{"m", b}}).value(), value) << x.dim;
        if (is_size) {
          ASSERT_GE(value, 0) << x.dim;
        }
        if (!order) continue;
        const int64_t other = y.value(a, b);
        ASSERT_EQ(*order, value < other ? -1 : value > other ? 1 : 0) << x.dim << " and " << y.dim;
      }
    }
  }
  EXPECT_GT(shown, 100);
}

// Of dims that are the same number for every n and m that is tried, most are recognised as equal.
TEST(DimMinima, EqualSumsOfPartsAreEqual) {
  std::mt19937 random(8);
  for (int i = 0; i < 500; ++i) {
    const auto number = [&] { return Dim(static_cast<int64_t>(random() % 9)); };
    const Dim a = number() + (random() % 2 ? n : Dim(0));
    const Dim b = number() + (random() % 2 ? m : Dim(0));
    const Dim c = number() + (random() % 2 ? n * 2 : Dim(0));
    EXPECT_EQ(Dim::min(a, b) + c, Dim::min(b + c, a + c));
    EXPECT_EQ(Dim::max(a, b) - Dim::max(a - c, b - c), c);
    EXPECT_EQ(Dim::min(a, b), Dim(0) - Dim::max(Dim(0) - a, Dim(0) - b));
  }
}

}  // namespace
}  // namespace rlx
