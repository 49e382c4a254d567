// Attention on the CPU: one row of scores at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/attention.h"

namespace rlx {
namespace {

// Where the elements of [batch, heads, length, head] are in a row-major tensor of some layout.
struct Placed {
  const double* data = nullptr;
  int64_t batches, heads, length, head;
  int64_t batch_stride, head_stride, row_stride;

  int64_t at(int64_t b, int64_t h, int64_t i) const {
    return b * batch_stride + h * head_stride + i * row_stride;
  }
};

Placed place(const RefTensor& t, AttentionLayout layout, int64_t heads) {
  const std::vector<int64_t>& d = t.dims;
  if (layout == AttentionLayout::bhsd) {
    return {t.real.data(), d[0], d[1], d[2], d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3]};
  }
  if (layout == AttentionLayout::bshd) heads = d[2];
  const int64_t width = layout == AttentionLayout::bsd ? d[2] : d[2] * d[3];
  return {t.real.data(), d[0], heads, d[1], width / heads, d[1] * width, width / heads, width};
}

// The mask at [batch, heads, queries, keys], its axes of length 1 repeated.
class MaskReader {
 public:
  MaskReader(const RefTensor* mask, double masked_score) : mask_(mask), masked_score_(masked_score) {
    if (!mask) return;
    const View dense = View::contiguous(mask->dims);
    for (int64_t axis = 0; axis < dense.rank(); ++axis) {
      const auto i = static_cast<size_t>(axis);
      if (dense.dims[i] != 1) strides_[static_cast<size_t>(4 - dense.rank()) + i] = dense.strides[i];
    }
  }
  double apply(double score, int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!mask_) return score;
    const auto p = static_cast<size_t>(b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3]);
    if (mask_->dtype != DType::bool_) return score + mask_->real[p];
    return mask_->ints[p] != 0 ? score : masked_score_;
  }

 private:
  const RefTensor* mask_;
  double masked_score_;
  int64_t strides_[4] = {0, 0, 0, 0};
};

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void Attention::reference(RefContext& r) const {
  const Placed q = place(r.in(0), layout, heads);
  const int64_t shared = kv_heads != 0 ? kv_heads : q.heads;
  const Placed k = place(r.in(1), layout, shared);
  const Placed v = place(r.in(2), layout, shared);
  const Placed y = place(r.out(), layout, heads);
  double* out = r.out().real.data();
  const MaskReader reader(r.optional_in(3), masked_score);
  const double factor = scale_for(q.head);
  const int64_t reach = std::min(window, k.length + q.length);  // a larger one sees no more
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const auto row = [&](int64_t b, int64_t h, int64_t i, std::vector<double>& scores) {
    const int64_t kv = h / (q.heads / shared);
    const int64_t here = i + k.length - q.length;
    const int64_t end = mask == MaskKind::none ? k.length : std::clamp<int64_t>(here + 1, 0, k.length);
    const int64_t begin = mask == MaskKind::sliding_window ? std::clamp<int64_t>(here - reach, 0, end) : 0;
    double most = kNothing;
    for (int64_t j = begin; j < end; ++j) {
      double s = factor * dot(q.data + q.at(b, h, i), k.data + k.at(b, kv, j), q.head);
      if (soft_cap) s = *soft_cap * std::tanh(s / *soft_cap);
      s = reader.apply(s, b, h, i, j);
      scores[static_cast<size_t>(j)] = s;
      most = std::max(most, s);
    }
    double total = 0;
    double* to = out + y.at(b, h, i);
    for (int64_t j = begin; j < end; ++j) {
      const double score = scores[static_cast<size_t>(j)];
      const double weight = score == kNothing ? 0 : std::exp(score - most);
      total += weight;
      const double* from = v.data + v.at(b, kv, j);
      for (int64_t d = 0; d < v.head; ++d) to[d] += weight * from[d];
    }
    const double share = total != 0 ? 1 / total : empty_row == EmptyRow::nan && k.length > 0 ? NAN : 0;
    for (int64_t d = 0; d < v.head; ++d) to[d] *= share;
  };
  parallel_for(q.batches * q.heads * q.length, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(k.length));
    for (int64_t n = begin; n < end; ++n) {
      row(n / (q.heads * q.length), n / q.length % q.heads, n % q.length, scores);
    }
  });
}

}  // namespace rlx
