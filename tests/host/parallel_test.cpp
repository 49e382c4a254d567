#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/parallel.h"

namespace rlx {
namespace {

TEST(Parallel, ThreadsCoverEveryIndexOnce) {
  for (const int64_t count : {0, 1, 7, 64, 1000, 100'003}) {
    std::vector<int> visits(
        static_cast<size_t>(count));  // blocks are disjoint: no two threads share an element
    parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::ranges::count(visits, 1), count);
  }
}

TEST(Parallel, ThreadsSeeWhatWasWrittenBeforeAndAreSeenAfter) {
  std::vector<int64_t> in(10'000);
  std::iota(in.begin(), in.end(), 0);
  std::vector<int64_t> out(in.size());
  for (int round = 0; round < 20; ++round) {
    parallel_for(std::ssize(in), 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[static_cast<size_t>(i)] = in[static_cast<size_t>(i)] + 1;
    });
    std::swap(in, out);
  }
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in[i], static_cast<int64_t>(i) + 20);
}

}  // namespace
}  // namespace rlx
