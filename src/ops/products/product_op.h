// What passes that fuse ask of ops that are products, whatever their operands look like.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/elementwise/expr.h"
#include "ops/machinery/flops.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// An op whose result goes through `epilogue`: $0 is the product, $1.. are the inputs after its own, which
// broadcast to the result.
class ProductOp {
 public:
  ExprAttr epilogue;

  virtual ~ProductOp() = default;
  // Inputs before those of the epilogue, of which the first is x and the second may be a weight.
  virtual int64_t own_inputs() const = 0;
  // Of $0, for own inputs of these types.
  virtual DType product_type(std::span<const DType> inputs) const = 0;
  virtual std::shared_ptr<Op> with_epilogue(ExprAttr other) const = 0;
  // How many products an element of the result is the sum of.
  virtual double terms(std::span<const TensorType> inputs) const = 0;

  // The same with the last axis of the result cut into several outputs of these sizes; null if it cannot.
  virtual std::shared_ptr<Op> with_splits(std::vector<int64_t> /*sizes*/) const { return nullptr; }

  // Whether it is the NumPy product of its two inputs and nothing else.
  virtual bool is_plain_matmul() const { return false; }

  // Where several weights for the same x can be concatenated, so that one product makes all results.
  struct Join {
    int64_t weight_axis;
    int64_t result_axis;
  };
  // Nothing if it cannot, for these types of inputs. All inputs but x are then concatenated, those after the
  // weight along their only axis.
  virtual std::optional<Join> join(std::span<const TensorType> /*inputs*/) const { return std::nullopt; }

  // The axes of the weight in the order in which kernels read it fastest, the innermost last; nothing if the
  // second input cannot be a weight, or if kernels read it as fast in the order in which it lies.
  using Order = std::vector<int64_t>;
  virtual std::optional<Order> weight_order(std::span<const TensorType> /*inputs*/,
                                            const Order& /*lies*/) const {
    return std::nullopt;
  }

  // The same for a weight [k, n] that lies in panels, as [n / width, k, width]: a CPU reads each from its
  // first byte to its last. Null if it cannot, for these types of inputs.
  virtual std::shared_ptr<Op> with_panels(std::span<const TensorType> /*inputs*/, int64_t /*width*/) const {
    return nullptr;
  }

  // For inference: the type of the result, whose shape the epilogue's inputs must broadcast to.
  DType epilogue_type(const InferArgs& in, const Shape& result) const;
  // The epilogue for these types of all inputs; it has no steps if there is none.
  Expr typed_epilogue(std::span<const DType> inputs) const;
};

// An op that is one, where all outputs are such sums.
template <class Self>
class ProductOpOf : public OpOf<Self>, public ProductOp {
 public:
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override {
    return flops_of_sums(terms(inputs), outputs);
  }
};

inline const ProductOp* as_product(const Op& op) { return dynamic_cast<const ProductOp*>(&op); }

// f32 or f32[] for inputs that are absent.
std::vector<DType> input_dtypes(std::span<const TensorType> inputs);
std::vector<TensorType> input_types(const Graph& graph, const Node& node);

// Whether it is encoded, or a view of what is: rewriting it would decode it.
bool has_encoded_root(const Graph& graph, ValueId value);

}  // namespace rlx
