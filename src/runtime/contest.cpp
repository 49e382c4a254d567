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

void Contest::end_round() {
  at_ = 0;
  ++rounds_;
  const size_t best = fastest();
  if (rounds_ >= kLeastRounds) {
    // The incumbent stays for longer: by how much another one is faster should be right.
    const bool late = rounds_ >= kLateRounds;
    std::erase_if(order_, [&](size_t i) {
      return (late || i != incumbent_) && ns(i) > ns(best) * (late ? kSlower : kHopeless);
    });
  }
  // There and back, so that whatever changes in the meantime is the same for all.
  std::ranges::reverse(order_);
  const bool enough = rounds_ >= kMostRounds || (rounds_ >= kLeastRounds && left_ns_ <= 0);
  ended_ = order_.size() < 2 || enough;
}

double Contest::ns(size_t contender) const {
  const std::vector<double>& times = times_[contender];
  return times.empty() ? 0 : std::ranges::min(times);
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
