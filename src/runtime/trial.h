// The reference with everything moved at random within its accuracy: how far the results then move
// shows how far off a device may be.
#pragma once

#include <random>
#include <vector>

#include "ir/reference.h"
#include "rlx/precision.h"

namespace rlx {

// The same seed moves values the same way.
class Trial {
 public:
  // What products multiply is moved by what the precision rounds off.
  explicit Trial(uint32_t seed, Precision precision = Precision::exact)
      : random_(seed),
        factors_(moved_by(precision)),
        rounds_(precision != Precision::exact && seed % 2 == 0),
        flushes_(seed % 2 == 1) {}

  // The node's results, moved within what its op's tolerance and the types of its outputs allow.
  std::vector<RefTensor> run(const Node& n, const std::vector<const RefTensor*>& inputs);

 private:
  // By the digits of an f16, and by what its sums of 128 products lose besides: as many roundings at random.
  static double moved_by(Precision precision) {
    return precision == Precision::exact ? 0 : precision == Precision::mixed ? 0x1p-11 : 0x1p-7;
  }
  std::vector<RefTensor> run_moved(const Node& n, const std::vector<const RefTensor*>& inputs,
                                   double relative);
  void move(RefTensor& t, double relative);
  static void round(RefTensor& t);
  double stored(double x, DType type) const;

  std::mt19937 random_;
  std::uniform_real_distribution<double> uniform_{-1, 1};
  double factors_;  // relative to them
  bool rounds_;     // factors to eleven bits as well: the errors of equal numbers add up, random ones do not
  bool flushes_;    // turns subnormal numbers into 0, as devices may
};

// The numbers of a tensor of floats or of c64 (two per element).
std::vector<double> numbers(const RefTensor& t);

// How the numbers of one tensor moved in some trials.
class Movement {
 public:
  // With `decisions`, any number may move as far as the one that moved most.
  Movement(const std::vector<double>& want, const std::vector<const RefTensor*>& trials, bool decisions);

  // Finite in one trial but not in another: rounding alone decides.
  bool unclear(size_t i) const { return unclear_[i]; }
  // Allows four times the sum of how far the number and the tensor as a whole moved: with so few trials, a
  // number may have moved little by chance.
  Tolerance tolerance(size_t i) const;

 private:
  std::vector<double> by_;  // at most
  std::vector<bool> unclear_;
  double spread_ = 0;
};

}  // namespace rlx
