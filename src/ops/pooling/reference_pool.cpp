// Pools in double precision or in integers; optimised in all builds.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/convolution/conv.h"
#include "ops/pooling/pool.h"

namespace rlx {
namespace {

template <class T>
class ReferencePool {
 public:
  // x is a view [batch, channels, 3 spatial axes] of `values`.
  ReferencePool(const PoolCase& c, const std::vector<T>& values, DType dtype, const View& x)
      : c_(c),
        values_(values),
        x_(x),
        steps_(pool_index_steps(c, x.dims[1])),
        nothing_(static_cast<T>(pool_identity(c.kind, dtype))) {}

  struct Held {
    T all;
    int64_t index = -1;  // of the largest
    bool nan = false;
  };
  // What window o of channel m of image n holds.
  Held window(int64_t n, int64_t m, const std::array<int64_t, 3>& o) const {
    std::array<PoolAxis::Span, 3> w;
    int64_t count = 1;
    for (size_t a = 0; a < 3; ++a) {
      w[a] = c_.axes[a].span(o[a]);
      count *= c_.count_include_pad ? c_.axes[a].taps_with_padding(o[a])
                                    : ceil_div(w[a].end - w[a].begin, c_.axes[a].dilation);
    }
    Held held{nothing_};
    for (int64_t i = w[0].begin; i < w[0].end; i += c_.axes[0].dilation) {
      for (int64_t j = w[1].begin; j < w[1].end; j += c_.axes[1].dilation) {
        for (int64_t k = w[2].begin; k < w[2].end; k += c_.axes[2].dilation) take(held, {i, j, k, m, n});
      }
    }
    if (c_.kind == PoolKind::mean) held.all /= static_cast<T>(std::max<int64_t>(count, 1));
    if constexpr (std::is_floating_point_v<T>) {
      if (c_.kind == PoolKind::norm) held.all = std::pow(held.all, 1 / c_.p);
    }
    return held;
  }

 private:
  // The coordinates are those of pool_index_steps.
  void take(Held& held, const std::array<int64_t, 5>& at) const {
    int64_t index = 0;
    for (size_t a = 0; a < 5; ++a) index += at[a] * steps_[a];
    const int64_t place = at[4] * x_.strides[0] + at[3] * x_.strides[1] + at[0] * x_.strides[2] +
                          at[1] * x_.strides[3] + at[2] * x_.strides[4];
    const T v = values_[static_cast<size_t>(place)];
    bool nan = false;
    if constexpr (std::is_floating_point_v<T>) nan = std::isnan(v);
    // As in PyTorch, the first of equals, but the last NaN.
    if (nan || (!held.nan && (v > held.all || held.index < 0))) held.index = index;
    held.nan |= nan;
    held.all = held.nan ? v + held.all : joined(held.all, v);
  }

  T joined(T all, T v) const {
    switch (c_.kind) {
      case PoolKind::max:
        return std::max(all, v);
      case PoolKind::min:
        return std::min(all, v);
      case PoolKind::prod:
        return all * v;
      case PoolKind::norm:
        return all + static_cast<T>(std::pow(std::fabs(static_cast<double>(v)), c_.p));
      default:
        return all + v;
    }
  }

  const PoolCase& c_;
  const std::vector<T>& values_;
  const View& x_;
  std::array<int64_t, 5> steps_;
  T nothing_;
};

template <class T>
void reference_values(const PoolCase& c, const std::vector<T>& from, RefContext& r, std::vector<T>& to) {
  const View x = conv_view(View::contiguous(r.in(0).dims), c.layout);
  const View y = conv_view(View::contiguous(r.out().dims), c.layout);
  const ReferencePool<T> pool(c, from, r.in(0).dtype, x);
  parallel_for(y.dims[0] * y.dims[1], 4, [&](int64_t first, int64_t end) {
    for (int64_t plane = first; plane < end; ++plane) {
      const int64_t n = plane / y.dims[1];
      const int64_t m = plane % y.dims[1];
      std::array<int64_t, 3> o = {0, 0, 0};
      y.slice(0, n, 1).slice(1, m, 1).for_each_position([&](int64_t at) {
        const auto held = pool.window(n, m, o);
        to[static_cast<size_t>(at)] = held.all;
        if (c.indices != PoolIndices::none) r.out(1).ints[static_cast<size_t>(at)] = held.index;
        for (size_t a = 3; a-- > 0;) {
          if (++o[a] < c.axes[a].out) break;
          o[a] = 0;
        }
      });
    }
  });
}

}  // namespace

void reference_pool(const PoolCase& c, RefContext& r) {
  if (is_float(r.in(0).dtype)) {
    reference_values(c, r.in(0).real, r, r.out().real);
  } else {
    reference_values(c, r.in(0).ints, r, r.out().ints);
  }
}

}  // namespace rlx
