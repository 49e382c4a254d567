// Functions that add ops to the graph of their inputs. `rlx ops` lists all ops with their formulas; negative
// axes count from the end; inputs of element-wise ops broadcast as in NumPy.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

// --- Element-wise ---

// A scalar function by its name: apply("hard_swish", {x}).
Value apply(std::string_view function, const std::vector<Value>& inputs);

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
// A number next to a tensor takes the tensor's type.
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

// A tensor, or a number of the type of the tensor next to it: maximum(x, 0), where(mask, x, -1e9).
class Argument {
 public:
  Argument(Value value) : value_(std::move(value)) {}
  Argument(double number) : number_(number), is_number_(true) {}

  bool is_number() const { return is_number_; }
  const Value& value() const { return value_; }
  double number() const { return number_; }

 private:
  Value value_;
  double number_ = 0;
  bool is_number_ = false;
};

// Every scalar function that `rlx ops` lists, under its name there. add, sub, mul, div and neg are the
// operators too.
Value add(Argument a, Argument b);
Value sub(Argument a, Argument b);
Value mul(Argument a, Argument b);
Value div(Argument a, Argument b);
Value neg(Value x);
Value maximum(Argument a, Argument b);
Value minimum(Argument a, Argument b);
Value pow(Argument a, Argument b);
Value mod(Argument a, Argument b);   // has the sign of b, like Python's %
Value fmod(Argument a, Argument b);  // has the sign of a, like C's
Value clamp(Argument x, Argument low, Argument high);
Value where(Value condition, Argument if_true, Argument if_false);
Value abs(Value x);
Value sign(Value x);
Value square(Value x);
Value reciprocal(Value x);
Value conj(Value x);

Value equal(Argument a, Argument b);
Value not_equal(Argument a, Argument b);
Value less(Argument a, Argument b);
Value less_equal(Argument a, Argument b);
Value greater(Argument a, Argument b);
Value greater_equal(Argument a, Argument b);
Value is_nan(Value x);
Value is_inf(Value x);
Value logical_and(Argument a, Argument b);
Value logical_or(Argument a, Argument b);
Value logical_xor(Argument a, Argument b);
Value logical_not(Value x);

Value bitwise_and(Argument a, Argument b);
Value bitwise_or(Argument a, Argument b);
Value bitwise_xor(Argument a, Argument b);
Value bitwise_not(Value x);
Value left_shift(Argument a, Argument n);
Value right_shift(Argument a, Argument n);

Value round(Value x);                     // ties to even
Value round_div(Argument a, Argument b);  // of the quotient, ties to even
// The nearest number of a float of 8 or 4 bits: float8e4m3fn (format 0), float8e4m3fnuz (1), float8e5m2 (2),
// float8e5m2fnuz (3), float4e2m1 (4). What is too large becomes the largest one, or infinite or NaN if
// `saturate` is 0.
Value round_to_format(Argument x, Argument format, Argument saturate);
Value floor(Value x);
Value ceil(Value x);
Value trunc(Value x);

Value exp(Value x);
Value exp2(Value x);
Value expm1(Value x);
Value log(Value x);
Value log2(Value x);
Value log1p(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value sin(Value x);
Value cos(Value x);
Value tan(Value x);
Value asin(Value x);
Value acos(Value x);
Value atan(Value x);
Value atan2(Argument y, Argument x);
Value sinh(Value x);
Value cosh(Value x);
Value tanh(Value x);
Value asinh(Value x);
Value acosh(Value x);
Value atanh(Value x);
Value erf(Value x);

Value relu(Value x);
Value leaky_relu(Argument x, Argument alpha);
Value thresholded_relu(Argument x, Argument alpha);
Value sigmoid(Value x);
Value hard_sigmoid(Argument x, Argument alpha, Argument beta);
Value gelu(Value x);         // the exact form, with erf
Value gelu_approx(Value x);  // the tanh form
Value silu(Value x);
Value hard_swish(Value x);
Value mish(Value x);
Value softplus(Value x);
Value softsign(Value x);
Value elu(Argument x, Argument alpha);
Value celu(Argument x, Argument alpha);
Value selu(Value x);

Value cast(Value x, DType to);
// The bits of each element as another type of the same size, NaN payloads included: among f32, i32 and u32,
// between i8 and u8, and from bool. A view: it costs nothing.
Value bitcast(Value x, DType to);

// Whole numbers: start, start + step, ... (`length` of them), a vector whose size may depend on symbols.
Value range(Graph& graph, Dim length, Dim start = 0, int64_t step = 1, DType dtype = DType::i64);

// --- Linear algebra ---

// NumPy's matmul: batches broadcast, rank-1 operands are vectors. A transposed operand is read in place.
Value matmul(Value a, Value b);
// act(a x b + bias), where the activation is the name of an element-wise function; "" for none.
Value matmul_bias_act(Value a, Value b, Value bias, std::string_view activation = "");
// Contracts pairs of axes; the result has the batch axes, then the rest of `a`'s, then the rest of `b`'s.
Value dot_general(Value a, Value b, std::vector<int64_t> a_contracting, std::vector<int64_t> b_contracting,
                  std::vector<int64_t> a_batch = {}, std::vector<int64_t> b_batch = {});
// Each row of x [.., k] times the matrix of w [experts, k, n] that `expert` [..] names; a row is zero if
// there is no such expert (an index below 0, or past the last one).
Value grouped_matmul(Value x, Value w, Value expert);

// Einstein's summation: einsum("bij,bjk->bik", {a, b}). Without "->" the result has the letters that occur
// once, in alphabetic order; "..." stands for axes that broadcast.
Value einsum(std::string_view equation, const std::vector<Value>& inputs);
// Of the matrices in the last two axes.
Value det(Value x);
Value inverse(Value x);

// --- Convolution ---

enum class ConvLayout {
  channels_first,  // [batch, channels, spatial...]
  channels_last,   // [batch, spatial..., channels]
};
struct ConvOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // zeros around x: all begins, then all ends; none when empty
  int64_t groups = 1;                   // as many as channels: depthwise
  ConvLayout layout = ConvLayout::channels_first;  // of x and the result
};
// Over 1 to 3 spatial axes. `w` is [filters, channels / groups, kernel...] in either layout, `bias`
// [filters].
Value conv(Value x, Value w, Value bias = {}, const ConvOptions& options = {});

struct ConvTransposeOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // cut from the result: all begins, then all ends; none when empty
  std::vector<int64_t> output_padding = {};  // more elements at the end of each axis; none when empty
  int64_t groups = 1;
  ConvLayout layout = ConvLayout::channels_first;  // of x and the result
};
// The transpose of a convolution, over 1 to 3 spatial axes: each element of x adds its multiple of the kernel
// to the result, from its index times the stride on. `w` is [channels, filters / groups, kernel...] in either
// layout, `bias` [filters].
Value conv_transpose(Value x, Value w, Value bias = {}, const ConvTransposeOptions& options = {});

struct DeformConvOptions {
  std::vector<int64_t> strides = {};  // as for conv
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
  int64_t groups = 1;
  int64_t offset_groups = 1;  // of channels that move together
};
// A convolution of x [batch, channels, height, width] whose taps are moved by `offset` [batch, offset groups
// * kernel height * kernel width * 2 (down, right), result height, result width], interpolated between
// elements and multiplied by `mask` [batch, offset groups * kernel height * kernel width, result height,
// result width].
Value deform_conv(Value x, Value w, Value offset, Value bias = {}, Value mask = {},
                  const DeformConvOptions& options = {});

struct WindowOptions {
  std::vector<int64_t> strides = {};  // as for conv
  std::vector<int64_t> dilations = {};
  std::vector<int64_t> pads = {};
};
// The windows of a convolution with a kernel of this size as columns: x [batch, channels, spatial...] becomes
// [batch, channels * kernel elements, windows].
Value im2col(Value x, std::vector<int64_t> kernel, const WindowOptions& options = {});
// The transpose of im2col: the windows of an image with these spatial sizes, added up where they overlap.
Value col2im(Value columns, std::vector<int64_t> image, std::vector<int64_t> kernel,
             const WindowOptions& options = {});

// --- Resampling ---

enum class ResizeMode { nearest, linear, cubic };
// Which place in x an element of the result stands for, named as in ONNX.
enum class ResizeCoordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
enum class ResizeRounding { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class ResizeAspect {
  stretch,      // the sizes as they are
  not_larger,   // one scale for all axes: the largest with which no axis exceeds its size
  not_smaller,  // the smallest with which every axis reaches it
};
struct ResizeOptions {
  std::vector<int64_t> axes = {};  // all when empty
  // Either of these, with a number for each of the axes.
  std::vector<double> scales = {};
  Shape sizes = {};
  ResizeMode mode = ResizeMode::linear;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  ResizeRounding rounding = ResizeRounding::round_prefer_floor;  // of the place, for nearest
  ResizeAspect aspect = ResizeAspect::stretch;
  bool antialias = false;        // weighs all elements of x that an element of a smaller result covers
  bool exclude_outside = false;  // what lies outside x has no weight, instead of that of x's ends
  double cubic_coeff = -0.75;
  // For tf_crop_and_resize: the region of x, begins of all axes and then ends, as parts of their length, and
  // the result where it leaves x.
  std::vector<double> roi = {};
  double outside = 0;
};
// x with other sizes along some axes. Integers and other types that have no weights can only be resized with
// `nearest`.
Value resize(Value x, const ResizeOptions& options);

enum class SamplePadding { zeros, border, reflection };
struct GridSampleOptions {
  ResizeMode mode = ResizeMode::linear;
  SamplePadding padding = SamplePadding::zeros;  // what lies outside x
  // Whether -1 and 1 are the centres of the first and last elements, or their outer edges.
  bool align_corners = false;
};
// x [batch, channels, spatial...] at the places of `grid` [batch, result spatial..., 1 to 3]: the last axis
// has coordinates from -1 to 1, that of x's last axis first. Cubic weights have the coefficient -0.75.
Value grid_sample(Value x, Value grid, const GridSampleOptions& options = {});
// The grid of an affine map: `theta` is [batch, 2, 3] or [batch, 3, 4], `size` the shape of the result that
// grid_sample is to make, [batch, channels, spatial...].
Value affine_grid(Value theta, Shape size, bool align_corners = false);

// --- Pooling ---

struct PoolOptions {
  std::vector<int64_t> strides = {};    // one for each spatial axis; all 1 when empty
  std::vector<int64_t> dilations = {};  // likewise
  std::vector<int64_t> pads = {};       // around x: all begins, then all ends; none when empty
  bool ceil_mode = false;               // also a last window that ends outside, if it begins inside
  ConvLayout layout = ConvLayout::channels_first;
};
// Over 1 to 3 spatial axes; `kernel` is the size of the windows. Padding holds no elements.
Value max_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value min_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value sum_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
// With `count_include_pad`, as PyTorch has it unless told otherwise, padding counts as zeros.
Value avg_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {},
               bool count_include_pad = false);
Value prod_pool(Value x, std::vector<int64_t> kernel, const PoolOptions& options = {});
Value lp_pool(Value x, std::vector<int64_t> kernel, double p = 2, const PoolOptions& options = {});
enum class PoolIndices {
  none,
  tensor,  // the index in all of x, as ONNX has it
  plane,   // the index over the spatial axes only, as PyTorch has it
};
// max_pool, and where the largest elements are (i64): the first among equals, and -1 if the window has none.
// `column_major`: the spatial axes count from the first to the last, not from the last to the first.
std::vector<Value> max_pool_with_indices(Value x, std::vector<int64_t> kernel,
                                         const PoolOptions& options = {},
                                         PoolIndices indices = PoolIndices::plane, bool column_major = false);
// As many windows along each spatial axis as `size` says, which together cover x; -1 for as many as x has
// elements.
Value adaptive_avg_pool(Value x, std::vector<int64_t> size, ConvLayout layout = ConvLayout::channels_first);
Value adaptive_max_pool(Value x, std::vector<int64_t> size, ConvLayout layout = ConvLayout::channels_first);
std::vector<Value> adaptive_max_pool_with_indices(Value x, std::vector<int64_t> size,
                                                  ConvLayout layout = ConvLayout::channels_first,
                                                  PoolIndices indices = PoolIndices::plane);
// Zeros [batch, channels, size...] with the elements of x where `indices` says, which max_pool_with_indices
// found; the last among those with the same index.
Value max_unpool(Value x, Value indices, Shape size, PoolIndices kind = PoolIndices::plane);

enum class RoiMode { avg, max };
struct RoiAlignOptions {
  int64_t height = 1, width = 1;  // of the result
  double scale = 1;               // from the coordinates of the regions to those of x
  int64_t sampling_ratio = 0;     // points along each axis of a bin; 0: as many as it has pixels
  bool half_pixel = true;         // pixel centres lie at .5 (`aligned` in PyTorch)
  RoiMode mode = RoiMode::avg;    // max: the largest of the weighted neighbours of all points, as ONNX has it
};
// Regions of images x [n, channels, h, w], each cut into height x width bins: [regions, channels, height,
// width]. `rois` [regions, 4] has x1, y1, x2, y2, `images` [regions] whose region it is.
Value roi_align(Value x, Value rois, Value images, const RoiAlignOptions& options);

// --- Spectra ---

// c64 as f32 with a last axis of 2 (real, imaginary), and back. Views: they cost nothing where strides allow.
Value view_as_real(Value x);
Value view_as_complex(Value x);
Value real(Value x);                // of c64
Value imag(Value x);                // likewise
Value complex(Value re, Value im);  // c64 from two tensors of the same shape
// Windows of `size` elements along an axis, `step` apart, as a view: the axis counts windows, and a new last
// axis the elements of each. What is left at the end is dropped.
Value unfold(Value x, int64_t axis, int64_t size, int64_t step);

// Which direction divides by n (ortho: both, by its root), as in NumPy.
enum class FftNorm { backward, ortho, forward };
struct FftOptions {
  int64_t axis = -1;
  // Elements that are transformed: x is cut, or zeros are added at its end. 0: all; of irfft, 2 (bins - 1).
  int64_t n = 0;
  FftNorm norm = FftNorm::backward;
};
// The discrete Fourier transform along an axis, of any length, of floats or c64; the result is c64.
Value fft(Value x, const FftOptions& options = {});
Value ifft(Value x, const FftOptions& options = {});
// Only the bins 0 .. n / 2, which are all that floats need.
Value rfft(Value x, const FftOptions& options = {});
// The inverse of rfft: n floats from bins 0 .. n / 2.
Value irfft(Value x, const FftOptions& options = {});
// Along several axes, all when empty; irfftn and rfftn take the half spectrum along the last of them.
Value fftn(Value x, std::vector<int64_t> axes = {}, FftNorm norm = FftNorm::backward);
Value ifftn(Value x, std::vector<int64_t> axes = {}, FftNorm norm = FftNorm::backward);
Value rfftn(Value x, std::vector<int64_t> axes = {}, FftNorm norm = FftNorm::backward);
// `n`: the length of the result along the last of the axes; 0: 2 (bins - 1).
Value irfftn(Value x, std::vector<int64_t> axes = {}, int64_t n = 0, FftNorm norm = FftNorm::backward);
// The frequencies of the bins of fft and rfft for samples that are `spacing` apart.
Value fftfreq(Graph& graph, int64_t n, double spacing = 1);
Value rfftfreq(Graph& graph, int64_t n, double spacing = 1);

// Windows of n numbers, periodic (for spectra) or symmetric (NumPy's).
Value hann_window(Graph& graph, int64_t n, bool periodic = true, DType dtype = DType::f32);
Value hamming_window(Graph& graph, int64_t n, bool periodic = true, DType dtype = DType::f32);
Value blackman_window(Graph& graph, int64_t n, bool periodic = true, DType dtype = DType::f32);
// c[0] - c[1] cos(a) + c[2] cos(2 a) - ..., a from 0 to 2 pi.
Value cosine_window(Graph& graph, int64_t n, const std::vector<double>& coefficients, bool periodic = true,
                    DType dtype = DType::f32);

struct StftOptions {
  int64_t frame = 0;     // elements of a frame
  int64_t hop = 0;       // from frame to frame; 0: a quarter of the frame
  Value window = {};     // [frame], multiplies each frame; ones when absent
  bool center = false;   // frames are centred at multiples of hop: x is reflected at its ends
  bool onesided = true;  // only the bins 0 .. frame / 2
  FftNorm norm = FftNorm::backward;
};
// The spectra of overlapping frames of x [.., samples]: c64[.., frames, bins].
Value stft(Value x, const StftOptions& options);
// The signal [.., samples] with such spectra: frames are added up where they overlap, and divided by the sum
// of the squares of their windows. `length` samples; 0: as many as the frames have.
Value istft(Value spectra, const StftOptions& options, int64_t length = 0);
// Triangles of equal width on the mel scale, [dft_length / 2 + 1, bins]: ONNX's MelWeightMatrix.
Value mel_weights(Graph& graph, int64_t bins, int64_t dft_length, int64_t sample_rate, double low,
                  double high, DType dtype = DType::f32);

// --- Shape ---

Value reshape(Value x, Shape shape);                       // one dim may be -1
Value transpose(Value x, std::vector<int64_t> perm = {});  // reversed when empty
Value expand(Value x, Shape shape);
// `length` elements from `start` on, `step` apart.
Value slice(Value x, int64_t axis, Dim start, Dim length, int64_t step = 1);
Value concat(const std::vector<Value>& parts, int64_t axis);
std::vector<Value> split(Value x, int64_t axis, std::vector<int64_t> sizes);
// table[..., indices, ...] along `axis`; negative indices count from the end.
Value gather(Value table, Value indices, int64_t axis = 0);
// y[i, j] = x[indices[i, j], j] for axis 0; y has the dims of `indices`. Negative indices count from the end,
// those outside are clamped, here and below.
Value gather_elements(Value x, Value indices, int64_t axis = 0);
// y[b, i, ...] = x[b, indices[b, i, :], ...]; both begin with `batch_axes` axes b.
Value gather_nd(Value x, Value indices, int64_t batch_axes = 0);
enum class ScatterReduction { none, add, mul, max, min };
// x with updates[i, j] at [indices[i, j], j] for axis 0, joined with what is there by the reduction. Without
// one, the last of several updates of an element counts.
Value scatter_elements(Value x, Value indices, Value updates, int64_t axis = 0,
                       ScatterReduction reduction = ScatterReduction::none);
// x with updates[i, ...] at [indices[i, :], ...].
Value scatter_nd(Value x, Value indices, Value updates, ScatterReduction reduction = ScatterReduction::none);
// `on` where the index along the new axis is that in `indices`, else `off`, of the type of `on`; negative
// indices count from the end, and those outside are nowhere.
Value one_hot(Value indices, Dim depth, Value on, Value off, int64_t axis = -1);
// The upper or lower triangle of the last two axes, from diagonal k on or up to it; the rest is 0.
Value triu(Value x, int64_t k = 0);
Value tril(Value x, int64_t k = 0);
// 1 on diagonal k, else 0.
Value eye(Graph& graph, Dim rows, Dim columns, int64_t k = 0, DType dtype = DType::f32);
// 1 at the first of the largest elements along the axis, else 0.
Value hardmax(Value x, int64_t axis = -1);
// Reverses the first lengths[b] elements along `axis` for each index b along `batch_axis`.
Value reverse_sequence(Value x, Value lengths, int64_t axis, int64_t batch_axis);
enum class PadMode { constant, reflect, edge, wrap };
Value pad(Value x, std::vector<int64_t> before, std::vector<int64_t> after, PadMode mode = PadMode::constant,
          double value = 0);
// In reverse order along the axes.
Value flip(Value x, std::vector<int64_t> axes);
// Moved by `shifts` towards the end of each of the axes; what leaves an end comes back at the other.
Value roll(Value x, std::vector<int64_t> shifts, std::vector<int64_t> axes);
// x again and again along each axis, as often as `repeats` says. Missing repeats of the first axes are 1, and
// x gets axes of length 1 for those that it does not have.
Value tile(Value x, std::vector<Dim> repeats);
// The middle of x, or x in the middle of zeros: these sizes along the axes (all when empty).
Value center_crop_pad(Value x, std::vector<Dim> sizes, std::vector<int64_t> axes = {});
enum class DepthOrder {
  dcr,  // channels are [block, block, depth]
  crd,  // channels are [depth, block, block], as in PyTorch
};
// Channels of x [batch, channels, height, width] as blocks of pixels, and back. Orders are named as in ONNX.
Value depth_to_space(Value x, int64_t block, DepthOrder order = DepthOrder::dcr);
Value space_to_depth(Value x, int64_t block, DepthOrder order = DepthOrder::dcr);
// The same as PyTorch has it; leading axes may be any.
Value pixel_shuffle(Value x, int64_t factor);
Value pixel_unshuffle(Value x, int64_t factor);
// Replaces as many entries of a state as `update` has, from `start` on along `axis`; read the new contents
// from the result.
Value write_state(Value state, Value update, int64_t axis, Dim start);

// --- Reductions ---

// Over the given axes, or all if none are given. NaN wins in max and min.
Value sum(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value mean(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value max(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value min(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The sum of |x|, the root of the sum of squares, the sum of squares.
Value l1_norm(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value l2_norm(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value sum_square(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The logarithm of the sum, and of the sum of e^x, which does not overflow.
Value log_sum(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value log_sum_exp(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// Whether any or all elements are not 0: bool.
Value any(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
Value all(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
// The mean of (x - mean)^2; the sum is divided by n - correction instead of n.
Value variance(Value x, std::vector<int64_t> axes = {}, bool keepdims = false, int64_t correction = 0);
Value prod(Value x, std::vector<int64_t> axes = {}, bool keepdims = false);
enum class SegmentReduction { sum, mean, max, min, prod };
// y[s] = the reduction of the slices x[i] along `axis` with ids[i] == s, for s < segments; ids need not be
// sorted, and slices with any other id count nowhere. A segment without slices has 0 (sum), 1 (prod), NaN
// (mean), minus or plus infinity (max, min), or the end of an integer type's range.
Value segment_reduce(Value x, Value ids, Dim segments, SegmentReduction reduction = SegmentReduction::sum,
                     int64_t axis = 0);
Value argmax(Value x, int64_t axis = -1, bool keepdims = false);  // i64; the first one among equals
Value argmin(Value x, int64_t axis = -1, bool keepdims = false);
Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);

// --- Scans along an axis ---

// y[i] = x[0] + ... + x[i]; exclusive: without x[i], so that y[0] is 0; reverse: from the other end.
Value cumsum(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cumprod(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);
Value cummax(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);  // NaN wins
Value cummin(Value x, int64_t axis = -1, bool exclusive = false, bool reverse = false);

// --- Order along an axis ---

// Equal values stay in their order, NaN is greater than any number, and indices are i64.
// {values, indices} of all elements.
std::vector<Value> sort(Value x, int64_t axis = -1, bool descending = false);
Value argsort(Value x, int64_t axis = -1, bool descending = false);
// {values, indices} of the k largest in descending order, or of the k smallest in ascending order. k may
// depend on symbols.
std::vector<Value> topk(Value x, Dim k, int64_t axis = -1, bool largest = true);
enum class Interpolation {
  linear,
  lower,
  higher,
  nearest,  // the even one if both are as near
  midpoint,
};
struct QuantileOptions {
  std::vector<int64_t> axes = {};  // all when empty
  bool keepdims = false;
  // Between the two elements that a quantile lies between. Integers need lower, higher or nearest.
  Interpolation interpolation = Interpolation::linear;
  // NaN counts as missing, and the result is NaN only where nothing is left; otherwise it is NaN where any
  // element is.
  bool ignore_nan = false;
};
// The element at (n - 1) q among the n elements along the axes in ascending order, for each q in [0, 1] along
// a new first axis.
Value quantile(Value x, std::vector<double> q, const QuantileOptions& options = {});
// The quantile 0.5 without that axis: NumPy's median; PyTorch's with the interpolation `lower`.
Value median(Value x, const QuantileOptions& options = {});
// How many elements of each row of `sorted` [.., n], in ascending order, are less than each value [.., m] of
// the same row; `right`: less or equal. i64.
Value searchsorted(Value sorted, Value values, bool right = false);
// y[i] = how many elements of x are i, or the sum of their weights; those outside of 0 .. size count nowhere.
Value bincount(Value x, int64_t size, Value weights = {});
// How many elements of x lie in each of `bins` intervals of equal length from low to high; the last one is
// closed.
Value histogram(Value x, int64_t bins, double low, double high);

// --- Normalisation over the trailing axes from `axis` on ---

// Without gamma or beta nothing is multiplied or added.
// With `only_axis` the norm is over that axis alone, such as the channels of each pixel (LayerNorm2d).
Value layer_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5, int64_t axis = -1,
                 bool only_axis = false);
Value rms_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5, int64_t axis = -1,
               bool only_axis = false);

// --- Normalisation of images: x is [batch, channels, spatial...]; gamma and beta are [channels] ---

// With known mean and variance [channels] along `axis`: (x - mean) / sqrt(variance + eps) * gamma + beta.
Value batch_norm(Value x, Value mean, Value variance, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                 int64_t axis = 1);
// Over the elements of each group of neighbouring channels.
Value group_norm(Value x, int64_t groups, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                 ConvLayout layout = ConvLayout::channels_first);
// A group for each channel.
Value instance_norm(Value x, Value gamma = {}, Value beta = {}, double eps = 1e-5,
                    ConvLayout layout = ConvLayout::channels_first);
// x / (sum |x|^p)^(1/p) along the axis, for p = 1 or 2; NaN where all of it is 0.
Value lp_normalize(Value x, int64_t p = 2, int64_t axis = -1);
// (x - mean) / (sqrt(variance) + eps) over any axes.
Value mean_variance_norm(Value x, std::vector<int64_t> axes, double eps = 1e-9);
// x / (k + alpha / size * s)^beta, where s is the sum of squares of `size` neighbouring channels.
Value local_response_norm(Value x, int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);

// --- Random numbers ---

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
// {y, mask}: elements become 0 with the probability `ratio`, and the others are divided by 1 - ratio; the
// mask says which are left. Without a seed nothing happens (inference), and the mask is true.
std::vector<Value> dropout(Value x, double ratio, const std::optional<Seed>& seed, int64_t stream = 0);
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

// --- Attention ---

enum class AttentionLayout {
  bhsd,  // [batch, heads, sequence, head]
  bshd,  // [batch, sequence, heads, head]
  bsd,   // [batch, sequence, heads * head]
};
enum class MaskKind {
  none,
  causal,          // key j for query i when j <= i + (keys - queries): aligned at the bottom right
  sliding_window,  // causal, and j >= i + (keys - queries) - window
};
enum class EmptyRow { zeros, nan };  // the result for a query all of whose scores are minus infinity
struct AttentionOptions {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads; fewer: groups of heads share keys and values
  AttentionLayout layout = AttentionLayout::bhsd;
  MaskKind mask = MaskKind::none;
  int64_t window = 0;
  std::optional<double> scale = {};                                // 1/sqrt(head) when not given
  std::optional<double> soft_cap = {};                             // scores become cap * tanh(score / cap)
  double masked_score = -std::numeric_limits<double>::infinity();  // where a bool mask is false
  EmptyRow empty_row = EmptyRow::zeros;
};
// `mask` broadcasts to [batch, heads, queries, keys]: bool (true keeps) or a float that is added to the
// scores.
Value attention(Value q, Value k, Value v, const AttentionOptions& options, Value mask = {});

// Rotates pairs of the last axis (heads of `head_dim` side by side) by cos and sin [positions, rotated / 2];
// the position is the index along the axis before it, or `positions`[batch, sequence]. `rotated` 0 means
// head_dim.
Value rope(Value x, Value cos, Value sin, int64_t head_dim, bool interleaved = false, int64_t rotated = 0,
           Value positions = {});

// --- Recurrent networks ---

enum class RecurrentDirection { forward, reverse, bidirectional };
struct RecurrentOptions {
  // Inputs that may be left out. D is the number of directions, g that of gates.
  Value bias = {};       // [D, 2 * g * units]: one for x, then one for the state
  Value lengths = {};    // [batch], integers: how many steps each row has; the others are zero in y
  Value initial_h = {};  // [D, batch, size of h]; zeros otherwise
  Value initial_c = {};  // lstm: [D, batch, units]; likewise
  Value peepholes = {};  // lstm: [D, 3 * units] for the input, output and forget gates
  Value projection =
      {};  // lstm: [D, size, units]: h is the projection of the cell's output (PyTorch's proj_size)

  RecurrentDirection direction = RecurrentDirection::forward;
  bool batch_first = false;  // batch comes before steps and directions, in inputs and results
  // Names of element-wise functions, or expressions of $0 ("leaky_relu($0,0.1)"), for each direction: of the
  // gates, the candidate and the output of lstm, of the gates and the candidate of gru, of rnn. sigmoid and
  // tanh if empty.
  std::vector<std::string> activations = {};
  std::optional<double> clip = {};  // bounds what goes into the activations of gates and candidates
  bool input_forget = false;        // lstm: the forget gate is 1 - the input gate
  bool linear_before_reset =
      false;  // gru: the reset gate multiplies the product of the state (as in PyTorch), not the state
};
// x [steps, batch, k], w [D, g * units, k], r [D, g * units, size of h], as in ONNX. The results are y
// [steps, D, batch, size of h], the last h [D, batch, size of h] and, of lstm, the last c [D, batch, units];
// those of a row without steps are zero. Sums are f32 and so is c; the product of x and w, and h, are rounded
// to the type of x in each step. Gates are input, output, forget, candidate.
std::vector<Value> lstm(Value x, Value w, Value r, const RecurrentOptions& options = {});
// Gates are update, reset, candidate.
std::vector<Value> gru(Value x, Value w, Value r, const RecurrentOptions& options = {});
std::vector<Value> rnn(Value x, Value w, Value r, const RecurrentOptions& options = {});

// --- Control flow ---

// A body is a graph of its own. Its inputs, in order, are given the values that the function passes in, and
// its outputs, in order, are what comes back; names do not matter. It may have params and states: one name is
// one tensor, in whatever body it is. A running sum:
//
//   rlx::Graph body;
//   auto total = body.input("total", rlx::DType::f32, {3});
//   auto row = body.input("row", rlx::DType::f32, {3});
//   body.output("total", total + row);
//   body.output("so far", total + row);
//   auto sums = rlx::scan({zeros}, {rows}, body);  // {the last total [3], all of them [n, 3]}

// The outputs of `then_body` if the condition (one bool or integer) is not zero, else those of `else_body`,
// applied to the inputs. Both have the same types.
std::vector<Value> if_else(Value condition, const std::vector<Value>& inputs, Graph then_body,
                           Graph else_body);

struct LoopOptions {
  Value trips = {};                  // at most this many iterations (one integer); no limit if empty
  Value condition = {};              // no iteration at all if this bool is false
  std::vector<Value> captured = {};  // the same values in each iteration
  // Of a loop that stacks slices, either the exact number of iterations (instead of trips and condition), or
  // a symbol for the number that only the run knows, with the largest value that it may have.
  std::optional<Dim> exactly = {};
  std::string count = {};
  int64_t capacity = 0;
};
// for (i = 0; i < trips && condition; ++i) condition, carried, slices = body(i, carried, captured)
// The body takes i (i32), the carried and the captured values. It returns a bool, the carried values and any
// number of slices. The results are the last carried values, and the slices of all iterations stacked along a
// new first axis.
std::vector<Value> loop(const std::vector<Value>& carried, Graph body, const LoopOptions& options = {});

// One iteration for each slice along the first axis of the scanned values:
// carried, slices = body(carried, scanned[i], captured). Results as above.
std::vector<Value> scan(const std::vector<Value>& carried, const std::vector<Value>& scanned, Graph body,
                        const std::vector<Value>& captured = {});

// --- Quantisation ---

struct QuantizeOptions {
  DType to = DType::i8;
  int64_t axis = 1;   // along which scales differ, if they are not a single number
  int64_t block = 0;  // this many neighbours along the axis share a scale; 0: scales are [x's size there]
  int64_t low = 0, high = 0;  // the range of the results; both 0: that of the type
};
// round(x / scale) + zero_point, ties to even, brought into the range. `scale` and `zero_point` (of the type
// `to`, or absent) are scalars, vectors along the axis or, for blocks, of x's rank.
Value quantize(Value x, Value scale, Value zero_point = {}, const QuantizeOptions& options = {});
// (x - zero_point) scale, of the type of `scale`.
Value dequantize(Value x, Value scale, Value zero_point = {}, int64_t axis = 1, int64_t block = 0);
// x as u8 with a scale and a zero point of its own, for the range of its elements and 0: {y, scale,
// zero_point}.
std::vector<Value> dynamic_quantize(Value x);

// --- Sizes that only the run knows ---

// The indices of the elements that are not zero (NaN counts as not zero), i64[rank of x, n] in row-major
// order, and n, an i32 scalar. `symbol` becomes the symbol for n in all shapes; more than `capacity` of them
// is an error of the run (0: as many as x has elements). Without a symbol, the indices have the dims of their
// upper bound, and zeros after the last.
std::vector<Value> nonzero(Value x, std::string symbol = "", int64_t capacity = 0);

// The entries along `axis` for which the condition, a vector of bools, is true, and their number. As above.
std::vector<Value> compress(Value x, Value condition, int64_t axis, std::string symbol = "",
                            int64_t capacity = 0);
// The elements of x for which the mask, of the same shape, is true, in row-major order, and their number.
std::vector<Value> masked_select(Value x, Value mask, std::string symbol = "", int64_t capacity = 0);
struct UniqueOptions {
  std::optional<int64_t> axis = {};  // of slices along it; otherwise of elements, and x counts as a vector
  bool sorted = true;                // in ascending order; otherwise by first occurrence
  std::string symbol = {};
  int64_t capacity = 0;
};
// The n different elements of x: {values, index of the first of each in x, index into values for each element
// of x, how often each occurs, n}. NaN equals NaN. `symbol` and `capacity` as above.
std::vector<Value> unique(Value x, const UniqueOptions& options = {});
struct SuppressionOptions {
  int64_t most = 0;    // boxes of each batch and class
  double overlap = 0;  // boxes that overlap a chosen one by more (intersection over union) are dropped
  std::optional<double> score = {};  // only boxes with a greater score
  bool centers = false;              // boxes are x, y of the center, width, height instead of y1, x1, y2, x2
  std::string symbol = {};
  int64_t capacity = 0;
};
// Chooses boxes [batch, n, 4] by their scores [batch, classes, n]: {[m, 3] of batch, class and box, m}.
std::vector<Value> non_max_suppression(Value boxes, Value scores, const SuppressionOptions& options);

}  // namespace rlx
