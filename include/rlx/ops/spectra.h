// Complex numbers, Fourier transforms, windows, features of sound. Spectra are c64, two f32: there is no f64
// on the device (docs/arithmetic.md: what becomes of f64 in files).
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

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
// The discrete Fourier transform along an axis, of any length, of floats or c64; the result is c64. Of rfft
// and irfft the axis must have a known length, or n be given; of fft and ifft it may be a symbol.
Value fft(Value x, const FftOptions& options = {});
Value ifft(Value x, const FftOptions& options = {});
// Only the bins 0 .. n / 2, which are all that floats need; c64 is refused.
Value rfft(Value x, const FftOptions& options = {});
// The inverse of rfft: n floats from bins 0 .. n / 2. Without n there must be at least 2 bins.
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
// The spectra of overlapping frames of x [.., samples]: c64[.., frames, bins]. The number of samples must be
// known: at least a frame, or, if centred, more than half of one. c64 needs all bins: onesided = false.
Value stft(Value x, const StftOptions& options);
// The signal [.., samples] with such spectra: frames are added up where they overlap, and divided by the sum
// of the squares of their windows. Where that sum is 0, or below the smallest normal f32, the sample is 0, as
// in librosa: such are the ends of a signal that hann_window was used on without `center`. `length` samples;
// 0: as many as the frames have. The number of frames must be known.
Value istft(Value spectra, const StftOptions& options, int64_t length = 0);
// Triangles of equal width on the mel scale, [dft_length / 2 + 1, bins]: ONNX's MelWeightMatrix.
Value mel_weights(Graph& graph, int64_t bins, int64_t dft_length, int64_t sample_rate, double low,
                  double high, DType dtype = DType::f32);

// --- Features of sound ---

struct PsdOptions {
  int64_t n = 0;          // samples of the transform; 0: as many as bins, or 2 (bins - 1) if onesided
  bool onesided = false;  // spectra are the bins 0 .. n / 2
};
// Power spectral density, |x|^2 / n. The sum over all bins is that of the squares of the samples, also over
// those of a onesided spectrum, where a bin that stands for its mirror image too counts twice.
Value psd(Value spectra, const PsdOptions& options = {});
struct WelchOptions {
  int64_t n = 0;         // samples of the transform; 0: 2 (bins - 1), or as many as bins if not onesided
  bool onesided = true;  // spectra are the bins 0 .. n / 2; if not, those after n / 2 are left out
};
struct SpectralPeaks {
  Value bins;  // i64
  Value powers;
};
// Of spectra c64[.., segments, bins]: bins and powers [.., k] of the k largest means over the segments of
// |x|^2 (twice where a bin has a mirror image), in descending order, the lower bin first among equals. Where
// there are fewer bins than k, the bin is -1 and the power 0.
SpectralPeaks welch_peaks(Value spectra, int64_t k, const WelchOptions& options = {});

enum class MelScale {
  slaney,  // linear below 1 kHz: librosa's and Whisper's
  htk,
};
double hertz_to_mel(double hertz, MelScale scale = MelScale::slaney);
double mel_to_hertz(double mel, MelScale scale = MelScale::slaney);
struct MelOptions {
  double low = 0;
  double high = 0;  // 0: half of the sample rate
  MelScale scale = MelScale::slaney;
  bool equal_area = true;  // triangles of equal area; if not, of height 1
};
// Triangles whose edges are equally far apart on the mel scale, [mels, dft_length / 2 + 1]. With the defaults
// of the options, 80 of them for 400 samples at 16 kHz are Whisper's.
Value mel_filters(Graph& graph, int64_t mels, int64_t dft_length, double sample_rate,
                  const MelOptions& options = {});
// Where the loudest level is looked for that others may be 8 decades below of.
enum class MelMaximum {
  frame,  // each frame's own
  clip,   // the last two axes of the result, [frames, mels], together: Whisper's
};
// The levels of spectra c64[.., bins] through `filters` [mels, bins or bins / 2 + 1]:
//   (max(l, max l - 8) + 4) / 4, l = log10(max(filters |spectra|^2, 1e-10)), f32[.., mels].
Value log_mel(Value spectra, Value filters, MelMaximum maximum = MelMaximum::frame);
// The gradient of log_mel with respect to the spectra for the gradient dy of its result: real and imaginary
// parts are those with respect to these parts. None goes through the maximum, or to levels at the floor.
Value log_mel_backward(Value spectra, Value filters, Value dy, MelMaximum maximum = MelMaximum::frame);

enum class ConvolutionMode {
  full,   // all of the la + lb - 1 elements
  same,   // the middle of these, la of them
  valid,  // where the shorter one lies within the longer one
};
struct FftConvOptions {
  int64_t axis = -1;
  ConvolutionMode mode = ConvolutionMode::full;
};
// The linear convolution y[i] = sum over j of a[j] b[i - j] along an axis, through spectra; other axes
// broadcast. Better than `conv` where both are long.
Value fft_conv(Value a, Value b, const FftConvOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
