// Images of bytes have their channels last around the convolutions of a quantised network: four channels of a
// pixel are then a word, whatever the size of the image, which is what kernels for CPUs read at once.
// What lies between such convolutions is computed in that layout too; all else reads a transpose. Where many
// images would have to be turned, nothing is changed.
#include <algorithm>
#include <map>

#include "ops/pooling/pool.h"
#include "ops/quantization/byte_product.h"
#include "ops/rearrange/contiguous.h"
#include "ops/rearrange/transpose.h"
#include "ops/reductions/reduce.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "rlx/ops/rearrange.h"

namespace rlx {
namespace {

class ByteImages {
 public:
  explicit ByteImages(const Graph& graph) : rewriter_(graph) {}

  Graph run() {
    const Graph& g = rewriter_.source();
    if (std::ranges::none_of(g.nodes(), [&](const Node& n) { return is_depthwise(n); })) return g;
    for (int32_t id = 0; id < g.size(); ++id) {
      const Node& n = g.node(id);
      if (!convolve(id, n) && !element_wise(id, n) && !pool(id, n) && !reduce(id, n)) rewriter_.copy(id);
    }
    Graph changed = remove_dead_code(rewriter_.finish());
    return 2 * (transposes(changed) - transposes(g)) > convolutions_ ? g : changed;
  }

 private:
  static int64_t transposes(const Graph& g) {
    return std::ranges::count_if(g.nodes(),
                                 [](const Node& n) { return op_cast<Transpose>(*n.op) != nullptr; });
  }

  const Shape& shape(ValueId v) const { return rewriter_.source().type(v).shape; }
  bool is_last(ValueId v) const { return last_.contains(v); }

  // The image v, which may have been in either layout, with its channels last.
  ValueId in_last(ValueId v) {
    if (const auto found = last_.find(v); found != last_.end()) return found->second;
    Graph& g = rewriter_.target();
    const Value turned = transpose(g.value(rewriter_.mapped(v)), {0, 2, 3, 1});
    return last_[v] = g.add(std::make_shared<Contiguous>(), {turned.id()});
  }

  void add(int32_t id, const Node& n, OpPtr op, std::vector<ValueId> inputs) {
    Graph& g = rewriter_.target();
    const ValueId made = g.add(std::move(op), std::move(inputs), n.name);
    last_[{id, 0}] = made;
    rewriter_.map({id, 0}, transpose(g.value(made), {0, 3, 1, 2}).id());
  }

  static bool in_fours(const Dim& d) { return d.is_static() && d.value() % 4 == 0; }

  bool is_depthwise(const Node& n) const {
    return byte_conv_channels_last(*n.op) && shape(n.inputs[0]).rank() == 4 &&
           in_fours(shape(n.inputs[0])[1]) && shape(n.inputs[1])[1].is(1) &&
           n.outputs[0].shape[1] == shape(n.inputs[0])[1];
  }

  // Channels in fours, or a few as of pictures, go into it, and fours come out of it.
  bool convolve(int32_t id, const Node& n) {
    OpPtr op = byte_conv_channels_last(*n.op);
    if (!op || n.outputs[0].shape.rank() != 4) return false;
    const Dim& channels = shape(n.inputs[0])[1];
    const bool few = channels.is_static() && channels.value() < 4;
    if (!(few || in_fours(channels)) || !in_fours(n.outputs[0].shape[1])) return false;
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) inputs.push_back(rewriter_.mapped(v));
    inputs[0] = in_last(n.inputs[0]);
    add(id, n, std::move(op), std::move(inputs));
    ++convolutions_;
    return true;
  }

  // Of images of that layout, numbers, and numbers of each channel.
  bool element_wise(int32_t id, const Node& n) {
    if (!n.op->has(Trait::elementwise) || n.outputs.size() != 1) return false;
    const Shape& image = n.outputs[0].shape;
    const auto is_image = [&](ValueId v) { return is_last(v) && shape(v) == image; };
    if (image.rank() != 4 || std::ranges::none_of(n.inputs, is_image)) return false;
    const auto is_number = [&](ValueId v) { return shape(v).rank() == 0; };
    if (!std::ranges::all_of(
            n.inputs, [&](ValueId v) { return is_image(v) || is_number(v) || is_per_channel(v, image); }))
      return false;
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) {
      const ValueId mapped = is_image(v) ? in_last(v) : rewriter_.mapped(v);
      const bool flat = !is_image(v) && !is_number(v);
      inputs.push_back(flat ? reshape(rewriter_.target().value(mapped), Shape{image[1]}).id() : mapped);
    }
    add(id, n, n.op, std::move(inputs));
    return true;
  }

  // [channels, 1, 1], with or without an axis of images.
  bool is_per_channel(ValueId v, const Shape& image) const {
    const Shape& s = shape(v);
    if (s.rank() < 3 || s.rank() > 4 || !s[s.rank() - 1].is(1) || !s[s.rank() - 2].is(1)) return false;
    return s[s.rank() - 3] == image[1] && (s.rank() == 3 || s[0].is(1));
  }

  bool pool(int32_t id, const Node& n) {
    const auto* op = dynamic_cast<const Pool*>(n.op.get());
    if (!op || op->layout != ConvLayout::channels_first || op->indices != PoolIndices::none) return false;
    if (!is_last(n.inputs[0])) return false;
    auto changed = std::make_shared<Pool>(*op);
    changed->layout = ConvLayout::channels_last;
    add(id, n, std::move(changed), {in_last(n.inputs[0])});
    return true;
  }

  // Over all pixels, whose axes stay.
  bool reduce(int32_t id, const Node& n) {
    const auto* op = dynamic_cast<const Reduce*>(n.op.get());
    if (!op || !op->keepdims || !is_last(n.inputs[0]) || op->reduced(4) != std::vector<int64_t>{2, 3})
      return false;
    auto changed = std::make_shared<Reduce>(*op);
    changed->axes = {1, 2};
    add(id, n, std::move(changed), {in_last(n.inputs[0])});
    return true;
  }

  Rewriter rewriter_;
  int64_t convolutions_ = 0;         // that were changed
  std::map<ValueId, ValueId> last_;  // values of the source, and the same image with channels last
};

}  // namespace

Graph byte_images(const Graph& graph) { return ByteImages(graph).run(); }

}  // namespace rlx
