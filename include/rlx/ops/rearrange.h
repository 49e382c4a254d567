// The same elements with other shapes, in other places; indices.
#pragma once

#include <cstdint>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

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
// from the result. `state` itself still stands for the contents before the run. It may also be a param
// (training): from that run on, all executables of its store see the new value.
Value write_state(Value state, Value update, int64_t axis, Dim start);

}  // namespace rlx
RLX_EXPORT_END
