// Convolutions of bytes less their zero points, which are subtracted as they are read.
#include <algorithm>
#include <numeric>

#include "ir/reference.h"
#include "ops/convolution/conv.h"
#include "ops/convolution/conv_problem.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/epilogue.h"
#include "ops/quantization/byte_kernels.h"
#include "ops/quantization/byte_product.h"

namespace rlx {
namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }

std::vector<ByteKernel> own_kernels() {
  std::vector<ByteKernel> all;
  for (const auto rows : {byte_depthwise_kernels(), byte_pointwise_kernels()})
    all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

// False if none of them applies, or if a kernel of products is forced.
bool lower_byte_kernel(Lowering& l, std::string_view op, const ConvProblem& conv) {
  static const std::vector<ByteKernel>& all = *new std::vector(own_kernels());
  const Target& target = l.target();
  const auto forced = target.forced.find(op);
  const auto is_wanted = [&](const ByteKernel& kernel) {
    return forced == target.forced.end() || forced->second.substr(0, forced->second.find(' ')) == kernel.name;
  };
  const ByteProblem p{conv};
  const bool known = std::ranges::any_of(all, is_wanted);
  if (!known || std::ranges::none_of(all, [&](const ByteKernel& k) { return k.applies(target, p); }))
    return false;
  return choose(target, op, std::span<const ByteKernel>(all), p).make(l, p);
}

// byte_conv(x, w, bias, x_zero, w_zero, extra...).
struct ByteConv final : OpOf<ByteConv>, ProductOp {
  static constexpr auto kName = "byte_conv";
  static constexpr int64_t kBias = 2, kXZero = 3, kWZero = 4, kOwn = 5;
  Conv windows;

  void visit_attributes(AttributeVisitor& v) override {
    windows.visit_lists(v);
    v("groups", windows.groups, 1);
    v.choice("layout", windows.layout, {"channels_first", "channels_last"},
             std::optional(ConvLayout::channels_first));
    v("epilogue", epilogue, {});
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override {
    if (l.out().view.elements() == 0) return;
    ConvProblem p = conv_problem(windows, *this, l);
    p.x_zero = l.optional_in(kXZero);
    p.w_zero = l.optional_in(kWZero);
    if (!lower_byte_kernel(l, kName, p)) lower_conv(l, kName, p);
  }
  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    return {.ulps = typed_epilogue(input_dtypes(inputs)).ulps()};
  }
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override {
    return flops_of_sums(terms(inputs), outputs);
  }

  int64_t own_inputs() const override { return kOwn; }
  DType product_type(std::span<const DType>) const override { return DType::i32; }
  double terms(std::span<const TensorType> inputs) const override { return windows.terms(inputs); }
  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override {
    auto op = std::make_shared<ByteConv>(*this);
    op->epilogue = std::move(other);
    return op;
  }
  std::optional<Order> weight_order(std::span<const TensorType> inputs, const Order& lies) const override {
    // With channels last, those of a single tap are read as words.
    const Shape& w = inputs[1].shape;
    const bool one_tap = std::all_of(w.begin() + 2, w.end(), [](const Dim& d) { return d.is(1); });
    if (!one_tap || windows.layout != ConvLayout::channels_last || windows.groups != 1)
      return windows.weight_order(inputs, lies);
    Order order(static_cast<size_t>(w.rank()));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

 private:
  void check_zero(const InferArgs& in, int64_t of, int64_t zero) const;
};

void ByteConv::check_zero(const InferArgs& in, int64_t of, int64_t zero) const {
  if (!in.has(zero)) return;
  in.expect_same_dtype(of, zero);
  if (!in.shape(zero).elements().is(1) || in.shape(zero).rank() > 1)
    fail("byte_conv: {} has the shape {}; it must be one number", in.operand_name(zero),
         in.shape(zero).text());
}

std::vector<TensorType> ByteConv::infer(const InferArgs& in) const {
  if (in.count() < 2) fail("byte_conv: takes x, a weight, a bias, zero points and more, not {}", in.count());
  std::vector<TensorType> wide;
  for (int64_t i = 0; i < 2; ++i) {
    in.expect_dtype(i, is_byte(in.dtype(i)), "i8 or u8");
    wide.push_back({DType::i32, in.shape(i)});
  }
  if (in.has(kBias)) wide.push_back(in[kBias]);
  check_zero(in, 0, kXZero);
  check_zero(in, 1, kWZero);
  const Shape out = windows.infer(InferArgs(windows, std::span<const TensorType>(wide)))[0].shape;
  return {TensorType{epilogue_type(in, out), out}};
}

void ByteConv::reference(RefContext& r) const {
  const auto less = [&](int64_t input, int64_t zero) {
    RefTensor out = r.in(input);
    out.dtype = DType::i32;
    const RefTensor* const number = r.optional_in(zero);
    for (int64_t& v : out.ints) v -= number ? number->ints[0] : 0;
    return out;
  };
  const RefTensor x = less(0, kXZero);
  const RefTensor w = less(1, kWZero);
  std::vector<const RefTensor*> inputs = {&x, &w};
  if (const RefTensor* const bias = r.optional_in(kBias)) inputs.push_back(bias);
  const TensorType type{DType::i32, Shape(r.out().dims)};
  RefContext sums(inputs, std::span(&type, 1));
  windows.reference(sums);
  std::vector<DType> types;
  for (int64_t i = 0; i < r.input_count(); ++i) types.push_back(r.has(i) ? r.in(i).dtype : DType::f32);
  reference_epilogue(typed_epilogue(types), std::move(sums.out()), kOwn, r);
}

}  // namespace

Value byte_conv(Value x, Value x_zero, Value w, Value w_zero, Value bias, const ConvOptions& options) {
  auto op = std::make_shared<ByteConv>();
  op->windows.strides = options.strides;
  op->windows.dilations = options.dilations;
  op->windows.pads = options.pads;
  op->windows.groups = options.groups;
  op->windows.layout = options.layout;
  return add_node(std::move(op), {x, w, bias, x_zero, w_zero});
}

OpPtr byte_conv_channels_last(const Op& op) {
  const auto* conv = op_cast<ByteConv>(op);
  if (!conv || conv->windows.layout != ConvLayout::channels_first || !conv->epilogue.empty()) return nullptr;
  auto changed = std::make_shared<ByteConv>(*conv);
  changed->windows.layout = ConvLayout::channels_last;
  return changed;
}

namespace {
std::vector<std::string> variants() {
  std::vector<std::string> names = products::variant_names();
  for (const ByteKernel& kernel : own_kernels()) names.emplace_back(kernel.name);
  return names;
}
}  // namespace

namespace ops {
void register_byte_conv(OpTable& table) {
  table.add<ByteConv>(
      {.formula = "y[n, m, o..] = epilogue(bias[m] + sum_c,k (x[n, c, o*stride + k*dilation - pad] - x_zero) "
                  "(w[m, c, k] - w_zero)) in i32; what is outside of x adds nothing",
       .operands = "x (i8 u8): as in conv\n"
                   "w (i8 u8): [filters, channels / groups, kernel..]\n"
                   "bias? (i32): [filters], added to the sums\n"
                   "x_zero? (i8 u8): one number of the type of x; 0 if left out\n"
                   "w_zero? (i8 u8): one number of the type of w; 0 if left out\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes = "strides: as in conv\n"
                     "dilations: as in conv\n"
                     "pads: as in conv\n"
                     "groups: as in conv\n"
                     "layout: as in conv\n"
                     "epilogue: a scalar expression of the sum $0, an i32, and the extra inputs $1, $2, ..; "
                     "empty: none",
       .outputs = "y (any): as in conv, of i32 or the type of the epilogue",
       .types = "i8 u8",
       .variants = variants(),
       .samples =
           {
               "byte_conv(T[1,3,9,8] in 0..100, i8[5,3,3,3] in -128..127, i32[5] in -900..900, T[] in 0..90, "
               "i8[] in -9..9) {pads=[1,1,1,1]}",
               "byte_conv(T[2,8,7,7] in 0..100, u8[12,8,1,1] in 0..255, none, T[1] in 0..90, u8[1] in "
               "0..255) "
               "{strides=[2,2]}",
               // Depthwise, with results in bytes, in both layouts.
               "byte_conv(T[1,16,9,12] in 0..100, i8[16,1,3,3] in -128..127, none, T[] in 0..90, none, "
               "f32[16,1,1] in 0.001..0.01) {groups=16, pads=[1,1,1,1], "
               "epilogue=\"t0=cast_f32($0); t1=mul(t0,$1); t2=clamp(t1,-128,127); cast_i8(t2)\"}",
               "byte_conv(T[2,8,7,7] in 0..100, i8[8,1,3,3] in -128..127, i32[8] in -900..900, T[] in 0..90, "
               "i8[] in "
               "-9..9) {groups=8, pads=[1,1,1,1]}",
               "byte_conv(T[2,3,12,11] in 0..100, i8[3,1,3,2] in -128..127, none, T[] in 0..90, none, "
               "f32[3,6,1]) "
               "{groups=3, strides=[2,1], dilations=[1,2], pads=[1,0,1,1], epilogue=\"t0=cast_f32($0); "
               "mul(t0,$1)\"}",
               "byte_conv(T[1,4,8,16] in 0..100, i8[4,1,5,5] in -128..127, none, T[] in 0..90) {groups=4, "
               "strides=[2,2], pads=[2,2,2,2]}",
               "byte_conv(T[1,9,7,12] in 0..100, i8[12,1,3,3] in -128..127, none, T[] in 0..90, i8[] in "
               "-9..9) "
               "{groups=12, pads=[1,1,1,1], layout=\"channels_last\"}",
               // Four channels of a pixel at a time.
               "byte_conv(T[2,7,5,8] in 0..100, i8[8,1,3,3] in -128..127, i32[8] in -900..900, T[] in 0..90, "
               "i8[] in -9..9, f32[8] in 0.001..0.01) {groups=8, pads=[1,1,1,1], strides=[2,2], "
               "layout=\"channels_last\", epilogue=\"t0=cast_f32($0); t1=mul(t0,$1); t2=clamp(t1,-128,127); "
               "cast_i8(t2)\"}",
               "byte_conv(T[1,6,17,4] in 0..100, u8[4,1,2,3] in 0..255, none, none, none, f32[1,6,17,4]) "
               "{groups=4, pads=[1,2,0,2], dilations=[1,2], layout=\"channels_last\", "
               "epilogue=\"t0=cast_f32($0); mul(t0,$1)\"}",
               // One tap, with channels last: filters and pixels that do not fill a workgroup, two steps of
               // channels, numbers of channels and of pixels.
               "byte_conv(T[2,3,17,12] in 0..100, i8[36,12,1,1] in -128..127, i32[36] in -900..900, none, "
               "none, f32[36] in 0.001..0.01) {layout=\"channels_last\", epilogue=\"t0=cast_f32($0); "
               "t1=mul(t0,$1); t2=clamp(t1,-128,127); cast_i8(t2)\"}",
               "byte_conv(T[2,257,260] in 0..100, u8[4,260,1] in 0..255, none, none, none, f32[2,257,4]) "
               "{layout=\"channels_last\", epilogue=\"t0=cast_f32($0); mul(t0,$1)\"}",
               "byte_conv(T[1,1,1,4], T[20,4,1,1]) {layout=\"channels_last\"}",
               // Few bytes in a window.
               "byte_conv(T[2,9,17,3] in 0..100, i8[12,3,3,3] in -128..127, i32[12] in -900..900, T[] in "
               "0..90, "
               "none, f32[12] in 0.001..0.01) {layout=\"channels_last\", pads=[1,1,1,1], strides=[2,2], "
               "epilogue=\"t0=cast_f32($0); t1=mul(t0,$1); t2=clamp(t1,-128,127); cast_i8(t2)\"}",
               "byte_conv(T[1,257,2] in 0..100, u8[36,2,5] in 0..255, none, none, none, f32[36]) "
               "{layout=\"channels_last\", pads=[4,0], dilations=[3], epilogue=\"t0=cast_f32($0); "
               "mul(t0,$1)\"}",
               "byte_conv(T[1,8,8,1] in 0..100, T[4,1,8,8] in 0..100, none, T[] in 0..90) "
               "{layout=\"channels_last\"}",
               "byte_conv(T[2,33,4] in 0..100, i8[8,4,3] in -128..127) {layout=\"channels_last\", "
               "pads=[2,0], "
               "epilogue=\"t0=cast_f32($0); t1=mul(t0,0.125); cast_u8(t1)\"}",
               "byte_conv(T[0,3,5,5], i8[4,3,3,3])",
               // Past one binding of 64 KiB.
               "byte_conv(T[1,64,66,64] in 0..100, i8[8,64,1,1] in -128..127, none, T[] in 0..90)",
               "byte_conv(T[1,16,80,80] in 0..100, i8[24,16,3,3] in -128..127, none, T[] in 0..90, i8[] in "
               "-9..9) "
               "{pads=[1,1,1,1]}",
           },
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
