// Attention on the CPU: one row of scores at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/attention/attention.h"

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

// Keys or values, wherever they lie: the rows of a tensor, a ring of them, or pages; i8 with scales.
class Cache {
 public:
  Cache(const RefContext& r, int64_t input, const Attention& op, int64_t heads)
      : tensor_(r.in(input)),
        scale_(r.optional_in(input == Attention::kK ? Attention::kKScale : Attention::kVScale)),
        pages_(r.optional_in(Attention::kPages)),
        start_(r.optional_in(Attention::kStart)),
        place_(place(tensor_, op.layout, heads)),
        rows_last_(op.layout == AttentionLayout::bhsd),
        keys_(place_.length * (pages_ ? pages_->dims[1] : 1)) {}

  int64_t keys() const { return keys_; }
  int64_t head() const { return place_.head; }

  // The elements of key j, decoded.
  void read(int64_t b, int64_t h, int64_t j, std::vector<double>& into) const {
    int64_t row = j;
    if (start_) row = (((batch_entry(*start_, b) + j) % keys_) + keys_) % keys_;
    int64_t outer = b;
    if (pages_) {
      const auto at = static_cast<size_t>(b * pages_->dims[1] + row / place_.length);
      outer = std::clamp<int64_t>(pages_->ints[at], 0, place_.batches - 1);
      row %= place_.length;
    }
    double factor = 1;
    if (scale_) {
      const int64_t in_batch = rows_last_ ? h * place_.length + row : row * place_.heads + h;
      factor = scale_->real[static_cast<size_t>(outer * place_.heads * place_.length + in_batch)];
    }
    into.resize(static_cast<size_t>(place_.head));
    const int64_t first = place_.at(outer, h, row);
    for (int64_t d = 0; d < place_.head; ++d) {
      const auto at = static_cast<size_t>(first + d);
      into[static_cast<size_t>(d)] =
          scale_ ? factor * static_cast<double>(tensor_.ints[at]) : tensor_.real[at];
    }
  }

  // Of a tensor [batch] or [].
  static int64_t batch_entry(const RefTensor& t, int64_t b) {
    return t.ints[t.dims.empty() ? 0 : static_cast<size_t>(b)];
  }

 private:
  const RefTensor& tensor_;
  const RefTensor* scale_;
  const RefTensor* pages_;
  const RefTensor* start_;
  Placed place_;
  bool rows_last_;
  int64_t keys_;
};

}  // namespace

void Attention::reference(RefContext& r) const {
  const Placed q = place(r.in(0), layout, heads);
  const int64_t shared = kv_heads != 0 ? kv_heads : q.heads;
  const Cache k(r, kK, *this, shared);
  const Cache v(r, kV, *this, shared);
  const Placed y = place(r.out(), layout, heads);
  double* out = r.out().real.data();
  const MaskReader reader(r.optional_in(kMask), masked_score);
  const RefTensor* const lengths = r.optional_in(kLengths);
  const RefTensor* const sinks = r.optional_in(kSinks);
  const RefTensor* const slopes = r.optional_in(kSlopes);
  const double factor = scale_for(q.head);
  const int64_t reach = std::min(window, k.keys() + q.length);  // a larger one sees no more
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  const auto row = [&](int64_t b, int64_t h, int64_t i, std::vector<double>& scores, std::vector<double>& x) {
    const int64_t kv = h / (q.heads / shared);
    const auto head = static_cast<size_t>(h);
    const int64_t keys =
        lengths ? std::clamp<int64_t>(Cache::batch_entry(*lengths, b), 0, k.keys()) : k.keys();
    const int64_t here = i + keys - q.length;
    const int64_t end = mask == MaskKind::none ? keys : std::clamp<int64_t>(here + 1, 0, keys);
    const int64_t begin = mask == MaskKind::sliding_window ? std::clamp<int64_t>(here - reach, 0, end) : 0;
    double most = sinks ? sinks->real[head] : kNothing;
    for (int64_t j = begin; j < end; ++j) {
      k.read(b, kv, j, x);
      double s = factor * dot(q.data + q.at(b, h, i), x.data(), q.head);
      if (soft_cap) s = *soft_cap * std::tanh(s / *soft_cap);
      if (slopes) s -= slopes->real[head] * static_cast<double>(std::abs(here - j));
      s = reader.apply(s, b, h, i, j);
      scores[static_cast<size_t>(j)] = s;
      most = std::max(most, s);
    }
    double total = sinks && sinks->real[head] != kNothing ? std::exp(sinks->real[head] - most) : 0;
    double* to = out + y.at(b, h, i);
    for (int64_t j = begin; j < end; ++j) {
      const double score = scores[static_cast<size_t>(j)];
      const double weight = score == kNothing ? 0 : std::exp(score - most);
      total += weight;
      v.read(b, kv, j, x);
      for (int64_t d = 0; d < v.head(); ++d) to[d] += weight * x[static_cast<size_t>(d)];
    }
    const double share = total != 0 ? 1 / total : empty_row == EmptyRow::nan && k.keys() > 0 ? NAN : 0;
    for (int64_t d = 0; d < v.head(); ++d) to[d] *= share;
    if (!log_sum_exp) return;
    r.out(1).real[static_cast<size_t>((b * q.heads + h) * q.length + i)] =
        total == 0 ? kNothing : most + std::log(total);
  };
  parallel_for(q.batches * q.heads * q.length, 16, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(k.keys()));
    std::vector<double> x;
    for (int64_t n = begin; n < end; ++n) {
      row(n / (q.heads * q.length), n / q.length % q.heads, n % q.length, scores, x);
    }
  });
}

}  // namespace rlx
