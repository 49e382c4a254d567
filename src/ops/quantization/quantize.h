// quantize and dequantize, which passes look for.
#pragma once

#include <optional>
#include <vector>

#include "ir/reference.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_of.h"
#include "rlx/ops/quantization.h"

namespace rlx {

// How many scales there are, and which an element has.
struct Scales {
  int64_t axis = 1;
  int64_t block = 0;

  void check(const InferArgs& in, int64_t input) const;
  // `scale` with x's rank, so that it broadcasts to x.
  Value spread(Value scale, const Shape& x) const;
  // The index of the scale of element i.
  size_t index(int64_t i, const std::vector<int64_t>& x, const RefTensor& scale) const;
};

// How numbers become u8 for the range of x and 0. Each step rounds to f32, as those of ONNX's function do.
struct ByteScaling {
  float scale = 1;
  double zero = 0;  // the byte of 0

  double byte(double v) const;
};
ByteScaling byte_scaling(const RefTensor& x);

// quantize(x, scale, zero_point): round(x / scale) + zero_point, brought into the range.
struct Quantize final : OpOf<Quantize> {
  static constexpr auto kName = "quantize";
  DType to = DType::i8;
  Scales scales;
  int64_t low = 0, high = 0;
  Ties ties = Ties::even;

  void visit_attributes(AttributeVisitor& v) override {
    v("to", to, DType::i8);
    v("axis", scales.axis, 1);
    v("block", scales.block, 0);
    v("low", low, 0);
    v("high", high, 0);
    v.choice("ties", ties, {"even", "away"}, std::optional(Ties::even));
  }
  IntegerRange range() const { return low == 0 && high == 0 ? integer_range(to) : IntegerRange{low, high}; }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

// dequantize(x, scale, zero_point): (x - zero_point) scale.
struct Dequantize final : OpOf<Dequantize> {
  static constexpr auto kName = "dequantize";
  Scales scales;

  void visit_attributes(AttributeVisitor& v) override {
    v("axis", scales.axis, 1);
    v("block", scales.block, 0);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 2}; }
};

// dynamic_quantize_rows(x): as u8 or, less 128, as i8, with the sums of rows if asked for.
struct DynamicQuantizeRows final : OpOf<DynamicQuantizeRows> {
  static constexpr auto kName = "dynamic_quantize_rows";
  bool less_128 = false;
  bool sums = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("less_128", less_128, false);
    v("sums", sums, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4}; }

  // Whether an x of this shape is quantised by a kernel of its own, not expanded.
  static bool has_kernel(const Shape& x);
};

// dynamic_quantize(x): the same as u8, without sums.
struct DynamicQuantize final : OpOf<DynamicQuantize> {
  static constexpr auto kName = "dynamic_quantize";

  std::vector<TensorType> infer(const InferArgs& in) const override {
    return DynamicQuantizeRows().infer(in);
  }
  void reference(RefContext& r) const override { DynamicQuantizeRows().reference(r); }
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override {
    return DynamicQuantizeRows().expand(in);
  }
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return DynamicQuantizeRows().tolerance(inputs);
  }
};

}  // namespace rlx
