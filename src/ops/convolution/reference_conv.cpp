// The double-precision convolution; optimised in all builds.
#include <algorithm>

#include "base/parallel.h"
#include "ir/reference.h"
#include "ops/convolution/conv.h"
#include "ops/machinery/integer_range.h"
#include "ops/products/epilogue.h"

namespace rlx {
namespace {

// x, channels first, with its padding.
struct Padded {
  std::array<int64_t, 3> dims;
  std::vector<double> values;

  int64_t at(int64_t channel, int64_t i, int64_t j) const {
    return ((channel * dims[0] + i) * dims[1] + j) * dims[2];
  }
};

std::vector<double> numbers(const RefTensor& t) {
  return is_float(t.dtype) ? t.real : std::vector<double>(t.ints.begin(), t.ints.end());
}

Padded padded_input(const ConvSizes& s, const RefTensor& x, ConvLayout layout) {
  Padded p;
  for (size_t i = 0; i < 3; ++i) p.dims[i] = s.before[i] + s.in[i] + s.after[i];
  const int64_t images = s.batch * s.groups * s.channels;
  p.values.resize(static_cast<size_t>(images * p.dims[0] * p.dims[1] * p.dims[2]));
  const std::vector<double> source = gather_view(numbers(x), conv_view(View::contiguous(x.dims), layout));
  auto from = source.begin();
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t i = 0; i < s.in[0]; ++i) {
      for (int64_t j = 0; j < s.in[1]; ++j, from += s.in[2]) {
        std::copy_n(from, s.in[2],
                    p.values.begin() + p.at(image, s.before[0] + i, s.before[1] + j) + s.before[2]);
      }
    }
  }
  return p;
}

// One row of the result, along the last spatial axis: row[o] += the sum for filter m of image n.
void add_row(const ConvSizes& s, const Padded& x, const double* w, int64_t n, int64_t m, int64_t i, int64_t j,
             std::vector<double>& row) {
  const int64_t group = m / s.filters;
  const double* weight = w + m * s.channels * s.kernel[0] * s.kernel[1] * s.kernel[2];
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t channel = (n * s.groups + group) * s.channels + c;
    for (int64_t a = 0; a < s.kernel[0]; ++a) {
      for (int64_t b = 0; b < s.kernel[1]; ++b) {
        const double* line = x.values.data() + x.at(channel, i * s.stride[0] + a * s.dilation[0],
                                                    j * s.stride[1] + b * s.dilation[1]);
        for (int64_t k = 0; k < s.kernel[2]; ++k, ++weight) {
          const double* from = line + k * s.dilation[2];
          for (size_t o = 0; o < row.size(); ++o)
            row[o] += *weight * from[static_cast<int64_t>(o) * s.stride[2]];
        }
      }
    }
  }
}

}  // namespace

void Conv::reference(RefContext& r) const {
  const RefTensor& w = r.in(1);
  const ConvSizes s = conv_sizes(*this, r.in(0).dims, w.dims);
  const Padded x = padded_input(s, r.in(0), layout);
  const RefTensor* bias = r.optional_in(2);
  // Sums of integers of 32 bits are exact in double up to 2^53.
  const std::vector<double> weights = numbers(w);
  const std::vector<double> biases = bias ? numbers(*bias) : std::vector<double>();
  RefTensor y = RefTensor::zeros(DType::f32, r.out().dims);
  const View to = conv_view(View::contiguous(y.dims), layout);
  const int64_t filters = s.groups * s.filters;
  const int64_t rows = s.out[0] * s.out[1];
  parallel_for(s.batch * filters * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t n = index / rows / filters;
      const int64_t m = index / rows % filters;
      const int64_t i = index % rows / s.out[1];
      const int64_t j = index % s.out[1];
      std::vector<double> row(static_cast<size_t>(s.out[2]), bias ? biases[static_cast<size_t>(m)] : 0);
      add_row(s, x, weights.data(), n, m, i, j, row);
      double* at =
          y.real.data() + n * to.strides[0] + m * to.strides[1] + i * to.strides[2] + j * to.strides[3];
      for (size_t o = 0; o < row.size(); ++o) at[static_cast<int64_t>(o) * to.strides[4]] = row[o];
    }
  });
  y.dtype = r.in(0).dtype;
  if (!is_float(y.dtype)) {
    for (double v : y.real) y.ints.push_back(wrapped(static_cast<int64_t>(v), y.dtype));
    y.real.clear();
  }
  std::vector<DType> types = {y.dtype, y.dtype, y.dtype};
  for (int64_t i = 3; i < r.input_count(); ++i) types.push_back(r.in(i).dtype);
  reference_epilogue(typed_epilogue(types), std::move(y), 3, r);
}

}  // namespace rlx
