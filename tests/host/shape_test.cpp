#include "rlx/shape.h"

#include <gtest/gtest.h>

#include "ir/view.h"
#include "rlx/error.h"
#include "tests/support/message.h"

namespace rlx {
namespace {

TEST(Dim, HasOneCanonicalForm) {
  const Dim n("n"), m("m");
  EXPECT_EQ((n + m) * (n - m), n * n - m * m);
  EXPECT_EQ((n * 2 + m - n - n).text(), "m");
  EXPECT_EQ((Dim(3) * n + 1).text(), "3*n+1");
  EXPECT_EQ((n - n).value(), 0);
}

TEST(Dim, FloorDivisionKeepsWhatDivides) {
  const Dim n("n");
  EXPECT_EQ((n * 4 + 6).floor_div(2), n * 2 + 3);
  EXPECT_EQ((n + 3).floor_div(2).text(), "floor((n+1)/2)+1");
  EXPECT_EQ((n + 3).floor_div(2).bind({{"n", 4}}).value(), 3);
  EXPECT_EQ(Dim(-3).floor_div(2).value(), -2);
  EXPECT_EQ(Dim(7).ceil_div(2).value(), 4);
}

TEST(Dim, ParsesWhatItPrints) {
  for (const char* text : {"batch*seq+1", "floor((n+1)/2)", "3*n*n-7", "0", "-5", "a*b*2-c"}) {
    const Dim d = Dim::parse(text);
    EXPECT_EQ(Dim::parse(d.text()), d) << text;
  }
  EXPECT_THROW(Dim::parse("n+"), Error);
  EXPECT_THROW(Dim::parse("2n"), Error);
  EXPECT_THROW(Dim::parse("floor(n/0)"), Error);
}

TEST(Dim, ExactDivision) {
  const Dim b("batch"), s("seq");
  EXPECT_EQ(Dim::exact_div(b * s * 768, s * 768), b);
  EXPECT_EQ(Dim::exact_div(b * s, 2), std::nullopt);
  EXPECT_EQ(Dim::exact_div(b * s + s, s), b + 1);
  EXPECT_EQ(Dim::exact_div(b * s * 6 - b * 12, b * s - b * 2), Dim(6));
  EXPECT_EQ(Dim::exact_div((b + s + 1) * (b * 2 - 3), b + s + 1), b * 2 - 3);
  EXPECT_EQ(Dim::exact_div(b * s + 1, b + s), std::nullopt);
  EXPECT_EQ(Dim::exact_div(b * b + s, b + 1), std::nullopt);
  EXPECT_EQ(Dim::exact_div(b, Dim(0)), std::nullopt);
}

TEST(Dim, OverflowIsAnError) { EXPECT_THROW(Dim(int64_t{1} << 40) * Dim(int64_t{1} << 40), Error); }

TEST(Shape, Broadcasts) {
  EXPECT_EQ(broadcast({"batch", 1, 5}, {3, 1}, "add"), (Shape{"batch", 3, 5}));
  EXPECT_EQ(broadcast({}, {2}, "add"), (Shape{2}));
  try {
    broadcast({2, 3}, {4}, "add");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "add: the shapes [2, 3] and [4] do not broadcast: 3 against 4 on axis 1 of the result");
  }
}

TEST(View, ReshapesWhereStridesAllow) {
  const View x = View::contiguous({2, 3, 4});
  EXPECT_EQ(x.reshape({6, 4})->strides, (std::vector<int64_t>{4, 1}));
  const View t = x.permute({1, 0, 2});  // strides 4, 12, 1
  EXPECT_EQ(t.reshape({3, 2, 2, 2})->strides, (std::vector<int64_t>{4, 12, 2, 1}));
  EXPECT_FALSE(t.reshape({6, 4}).has_value());
  EXPECT_EQ(x.slice(2, 1, 2).reshape({2, 3, 2, 1})->offset, 1);
  EXPECT_TRUE(View::contiguous({0, 3}).reshape({3, 0, 7}).has_value());
}

TEST(View, RangeCoversWhatIsTouched) {
  const View x = View::contiguous({4, 5});
  const View back = x.slice(0, 3, 4, -1);
  EXPECT_EQ(back.range().begin, 0);
  EXPECT_EQ(back.range().end, 20);
  EXPECT_EQ(x.slice(1, 2, 2).range().begin, 2);
  EXPECT_EQ(x.slice(1, 2, 2).range().end, 19);
  EXPECT_FALSE(x.slice(1, 0, 4).is_contiguous());
  EXPECT_TRUE(x.slice(0, 1, 2).is_contiguous());
  // Nothing of x, from its end or from beyond: that is still in x.
  for (const int64_t start : {4, 7, -1}) {
    const View none = x.slice(0, start, 0);
    EXPECT_EQ(none.offset, 0) << start;
    EXPECT_EQ(none.range().begin, none.range().end) << start;
  }
}

TEST(Dim, SumsAndProductsHaveAnEnd) {
  std::string text = "1";
  for (int i = 0; i < 40; ++i) text += "*(a" + std::to_string(i) + "+b" + std::to_string(i) + ")";
  EXPECT_TRUE(testing::message([&] { Dim::parse(text); }).contains("a sum of 512 products"));
  EXPECT_TRUE(testing::message([] {
                Dim sum = 0;
                for (int i = 0; i < 1000; ++i) sum += Dim::symbol("s" + std::to_string(i));
              }).contains("more than 256"));
  EXPECT_TRUE(testing::message([] {
                Dim power = 1;
                for (int i = 0; i < 1000; ++i) power *= Dim("n");
              }).contains("product of more than 256"));
  // Powers of one sum stay short.
  Dim power = 1;
  for (int i = 0; i < 20; ++i) power *= Dim("a") - Dim("b");
  EXPECT_TRUE(power.bind({{"a", 3}, {"b", 2}}).is(1));
}

}  // namespace
}  // namespace rlx
