// Random numbers and tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What random numbers depend on: the seed, the stream and the place of the element, and nothing else, so that
// every device, and every way to cut the work, draws the same. A number, or an integer tensor of one or two
// elements (low and high word), which each run may change: {seed, step} draws anew in each step. Nodes with
// the same seed draw independent numbers if their streams differ. The generator is Threefry-2x32 with 20
// rounds.
class Seed {
 public:
  Seed(Value words) : words_(std::move(words)) {}
  Seed(uint64_t number) : number_(number) {}
  // As a tensor of that graph.
  Value words(Graph& graph) const;

 private:
  Value words_;
  uint64_t number_ = 0;
};

// u32, all bits random.
Value random_bits(Graph& graph, Shape shape, const Seed& seed, int64_t stream = 0);
// In [low, high): of 2^24 equally spaced numbers, 2^11 in f16, 2^8 in bf16.
Value random_uniform(Graph& graph, Shape shape, const Seed& seed, double low = 0, double high = 1,
                     DType dtype = DType::f32, int64_t stream = 0);
Value random_normal(Graph& graph, Shape shape, const Seed& seed, double mean = 0, double scale = 1,
                    DType dtype = DType::f32, int64_t stream = 0);
// 1 with the probability p, else 0, for each element of p; in the type of p if none is given.
Value bernoulli(Value p, const Seed& seed, std::optional<DType> dtype = {}, int64_t stream = 0);
// The numbers below n in random order, i64.
Value randperm(Graph& graph, Dim n, const Seed& seed, int64_t stream = 0);
struct Dropped {
  Value y;
  Value mask;  // bool: which elements are left
};
// Elements become 0 with the probability `ratio`, and the others are divided by 1 - ratio. Without a seed
// nothing happens (inference), and the mask is true.
Dropped dropout(Value x, double ratio, const std::optional<Seed>& seed, int64_t stream = 0);
// x + noise with Gumbel's distribution: the argmax of the sum is drawn from softmax(x). The noise of an
// element depends on its row and its place in it, or on its number in `ids`, which has the shape of x.
Value add_gumbel(Value x, const Seed& seed, Value ids = {}, int64_t stream = 0);
// Draws `samples` numbers of classes from softmax(logits) for each row of logits [.., classes], with
// replacement: i64[.., samples]. Needs memory for samples * logits floats.
Value multinomial(Value logits, int64_t samples, const Seed& seed, int64_t stream = 0);

struct SampleOptions {
  // Logits of previous tokens: those above 0 are divided by the repetition penalty, the others multiplied;
  // then the presence penalty is subtracted, and the frequency penalty as often as the token occurs.
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  // Then logits are divided by the temperature; below 1e-6: the largest logit wins.
  double temperature = 1;
  // Then only some tokens stay, the first of equal ones first. Each filter sees what the one before it left.
  int64_t top_k = 0;  // the k most probable; 0: all
  double top_p = 1;   // as few of the most probable as have this probability together; at least one
  double min_p = 0;   // those with at least this part of the largest probability
  int64_t stream = 0;
};
// A token for each row of logits [.., vocabulary], i64[..], drawn from those that the options leave. A logit
// that is NaN counts as minus infinity. `previous` [.., n] are tokens; numbers outside of the vocabulary,
// such as -1, are nothing.
Value sample(Value logits, const Seed& seed, const SampleOptions& options = {}, Value previous = {});

}  // namespace rlx
RLX_EXPORT_END
