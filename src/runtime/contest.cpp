#include "runtime/contest.h"

#include <algorithm>
#include <numeric>

namespace rlx {

Contest::Contest(size_t incumbent, size_t contenders, double budget_ns)
    : incumbent_(incumbent), left_ns_(budget_ns), times_(contenders), order_(contenders) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  ended_ = contenders == 0;
}

std::optional<size_t> Contest::next() const { return ended_ ? std::nullopt : std::optional(order_[at_]); }

void Contest::add(double ns) {
  times_[order_[at_]].push_back(ns);
  left_ns_ -= ns;
  if (++at_ == order_.size()) end_round();
}

// What disturbs a time only adds to it: a contender whose least time is more than the middle of another one's
// is slower.
void Contest::end_round() {
  at_ = 0;
  ++rounds_;
  const size_t best = fastest();
  if (rounds_ >= kLeastRounds) {
    std::erase_if(order_, [&](size_t i) {
      return i != best && std::ranges::min(times_[i]) > ns(best) / (i == incumbent_ ? kClear : 1);
    });
  }
  // There and back, so that whatever changes in the meantime is the same for all.
  std::ranges::reverse(order_);
  ended_ = order_.size() < 2 || rounds_ >= kMostRounds || left_ns_ <= 0;
}

double Contest::ns(size_t contender) const {
  std::vector<double> times = times_[contender];
  if (times.empty()) return 0;
  const auto middle = times.begin() + (std::ssize(times) - 1) / 2;
  std::ranges::nth_element(times, middle);
  return *middle;
}

size_t Contest::fastest() const {
  return *std::ranges::min_element(order_, {}, [&](size_t i) { return ns(i); });
}

size_t Contest::winner() const {
  const size_t best = fastest();
  const bool clear = ns(incumbent_) == 0 || ns(best) < kClear * ns(incumbent_);
  return clear ? best : incumbent_;
}

}  // namespace rlx
