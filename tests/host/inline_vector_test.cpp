#include "base/inline_vector.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/allocations.h"

namespace rlx::testing {
namespace {

using Numbers = InlineVector<int, 3>;
using Shared = InlineVector<std::shared_ptr<int>, 2>;

TEST(InlineVector, DoesWhatAVectorDoes) {
  for (int n = 0; n < 8; ++n) {  // on both sides of its own capacity
    Numbers got;
    std::vector<int> want;
    for (int i = 0; i < n; ++i) {
      got.push_back(i);
      want.push_back(i);
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(std::vector<int>(got), want);
    EXPECT_EQ(Numbers(want), got);
    for (int at = 0; at <= n; ++at) {
      Numbers more = got;
      std::vector<int> wanted = want;
      EXPECT_EQ(*more.insert(more.begin() + at, 9), 9);
      wanted.insert(wanted.begin() + at, 9);
      EXPECT_EQ(more, wanted);
      more.insert(more.begin() + at, want.begin(), want.end());
      wanted.insert(wanted.begin() + at, want.begin(), want.end());
      EXPECT_EQ(more, wanted);
      more.erase(more.begin() + at);
      wanted.erase(wanted.begin() + at);
      EXPECT_EQ(more, wanted);
      erase_if(more, [](int v) { return v % 2 == 0; });
      std::erase_if(wanted, [](int v) { return v % 2 == 0; });
      EXPECT_EQ(more, wanted);
    }
    for (size_t size = 0; size < 8; ++size) {
      Numbers resized = got;
      std::vector<int> wanted = want;
      resized.resize(size, 7);
      wanted.resize(size, 7);
      EXPECT_EQ(resized, wanted);
    }
  }
}

TEST(InlineVector, CopiesAndMovesItsElements) {
  for (size_t from = 0; from < 5; ++from) {
    for (size_t to = 0; to < 5; ++to) {
      const auto in = std::make_shared<int>(1);
      const auto out = std::make_shared<int>(2);
      Shared a(from, in);
      Shared b(to, out);
      b = a;
      EXPECT_EQ(b, a);
      EXPECT_EQ(out.use_count(), 1);
      EXPECT_EQ(in.use_count(), 1 + static_cast<int64_t>(2 * from));
      Shared c(to, out);
      c = std::move(a);
      EXPECT_EQ(c, b);
      EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): promised
      EXPECT_EQ(out.use_count(), 1);
      EXPECT_EQ(in.use_count(), 1 + static_cast<int64_t>(2 * from));
      const Shared d = std::move(c);
      EXPECT_EQ(d, b);
      c.push_back(out);  // what was moved from can be used again
      EXPECT_EQ(c.size(), 1u);
      b.clear();
      EXPECT_EQ(in.use_count(), 1 + static_cast<int64_t>(from));
    }
  }
}

TEST(InlineVector, TakesItsOwnElements) {
  InlineVector<std::string, 2> list = {"a string that is not short", "b"};
  list.push_back(list.front());  // which moves while it is added
  EXPECT_EQ(list.back(), "a string that is not short");
  list = static_cast<const InlineVector<std::string, 2>&>(list);
  EXPECT_EQ(list.size(), 3u);
}

TEST(InlineVector, AllocatesOnlyBeyondItsOwnCapacity) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer allocates";
  const AllocationCounter counter;
  Numbers list = {1, 2};
  list.push_back(3);
  Numbers other = list;
  other = std::move(list);
  EXPECT_EQ(counter.count(), 0);
  other.push_back(4);
  EXPECT_EQ(counter.count(), 1);
}

}  // namespace
}  // namespace rlx::testing
