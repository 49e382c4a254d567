// Which of several ways to do the same takes the least time, when each single time may be disturbed.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace rlx {

// They take turns, once if there is only one. Who is clearly slower than the best drops out; it ends when one
// is left, after a number of rounds, or when the time is used up. The one that is in use anyway keeps its
// place unless another one is clearly faster.
class Contest {
 public:
  Contest(size_t incumbent, size_t contenders, double budget_ns);

  // Whose turn it is; nothing at the end.
  std::optional<size_t> next() const;
  // What it took.
  void add(double ns);
  // The least of its times, since whatever disturbs one only adds to it; 0 without any.
  double ns(size_t contender) const;
  size_t winner() const;

 private:
  // Times differ by some percent from run to run: less is no gain.
  static constexpr double kClear = 0.97;
  static constexpr size_t kLeastRounds = 3;
  static constexpr size_t kMostRounds = 15;
  // How much slower than the best one may be in the first rounds, and when each has had its chance to be
  // undisturbed.
  static constexpr double kHopeless = 1.5;
  static constexpr size_t kLateRounds = 8;
  static constexpr double kSlower = 1.1;

  void end_round();
  size_t fastest() const;

  size_t incumbent_;
  double left_ns_;
  std::vector<std::vector<double>> times_;
  std::vector<size_t> order_;  // of this round
  size_t at_ = 0;
  size_t rounds_ = 0;
  bool ended_ = false;
};

}  // namespace rlx
