// Products and convolutions of bytes whose results are bytes again.
#include "base/format.h"
#include "ops/composed/composite.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_table.h"
#include "ops/quantization/byte_product.h"
#include "rlx/graph.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx {

Value byte_product(Value a, Value a_zero, Value b, Value b_zero) {
  if (a_zero && a.dtype() == DType::u8 && b.dtype() == DType::i8) {
    // Four bytes are multiplied at once if both have a sign: a - 128 has the bits of a with the first one
    // changed, and what is subtracted from the sums makes up for it.
    a = bitcast(bitwise_xor(a, 128), DType::i8);
    a_zero = a_zero - 128;
  }
  Value y = matmul(a, b);
  const bool a_vector = a.shape().rank() == 1;
  const bool b_vector = b.shape().rank() == 1;
  if (a_zero) y = y - a_zero * sum(cast(b, DType::i32), {b_vector ? -1 : -2}, !a_vector && !b_vector);
  if (b_zero) y = y - b_zero * sum(cast(a, DType::i32), {-1}, !b_vector);
  if (a_zero && b_zero) {
    const Dim k = a.shape()[a.shape().rank() - 1];
    if (!k.is_static())
      fail("a product of bytes with two zero points needs a number of terms, not {}", k.text());
    y = y + a_zero * b_zero * a.graph().scalar(DType::i32, static_cast<double>(k.value()));
  }
  return y;
}

namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }

void expect_bytes(std::string_view op, Value x, Value w, const Requantize& to) {
  for (const DType t : {x.dtype(), w.dtype(), to.to})
    if (!is_byte(t)) fail("{}: x, w and the result must be i8 or u8, not {}", op, to_string(t));
}

Value zero_of(Graph& graph, int64_t zero) {
  return zero == 0 ? Value() : graph.scalar(DType::i32, static_cast<double>(zero));
}

Value requantized(Value sums, const Requantize& to) {
  const Value scaled = cast(sums, DType::f32) * to.multiplier;
  const Value whole = to.ties == Ties::even ? round(scaled) : round_div_away(scaled, 1);
  const IntegerRange range = integer_range(to.to);
  return cast(clamp(whole + static_cast<double>(to.zero), static_cast<double>(range.low),
                    static_cast<double>(range.high)),
              to.to);
}

}  // namespace

Value q_matmul(Value x, Value w, Value bias, const Requantize& to) {
  expect_bytes("q_matmul", x, w, to);
  Value sums = byte_product(x, zero_of(x.graph(), to.x_zero), w, zero_of(x.graph(), to.w_zero));
  if (bias) sums = sums + bias;
  return requantized(sums, to);
}

// Padding is zeros after the zero point of x was subtracted.
Value q_conv(Value x, Value w, Value bias, const Requantize& to, const ConvOptions& options) {
  expect_bytes("q_conv", x, w, to);
  const auto shifted = [](Value v, int64_t zero) {
    const Value wide = cast(v, DType::i32);
    return zero == 0 ? wide : wide - v.graph().scalar(DType::i32, static_cast<double>(zero));
  };
  const Value weight = to.w_zero == 0 ? w : shifted(w, to.w_zero);
  return requantized(conv(shifted(x, to.x_zero), weight, bias, options), to);
}

namespace {

template <class Self>
struct Requantized : Composite<Self> {
  static constexpr int64_t kLeast = 2, kMost = 3;
  Requantize to;

  void visit_requantize(AttributeVisitor& v) {
    v("x_zero", to.x_zero, 0);
    v("w_zero", to.w_zero, 0);
    v("multiplier", to.multiplier, 1.0);
    v("zero", to.zero, 0);
    v("to", to.to, DType::i8);
    v.choice("ties", to.ties, {"even", "away"}, std::optional(Ties::away));
  }
  // Sums are exact; a product with the multiplier that is a unit off may round to the next integer, so that
  // samples have multipliers that are powers of two.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

struct QMatMul final : Requantized<QMatMul> {
  static constexpr auto kName = "q_matmul";
  void visit_attributes(AttributeVisitor& v) override { visit_requantize(v); }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {q_matmul(in[0], in[1], in[2], to)};
  }
};

struct QConv final : Requantized<QConv> {
  static constexpr auto kName = "q_conv";
  ConvOptions options;
  void visit_attributes(AttributeVisitor& v) override {
    visit_requantize(v);
    v("strides", options.strides, {});
    v("dilations", options.dilations, {});
    v("pads", options.pads, {});
    v("groups", options.groups, 1);
    v.choice("layout", options.layout, {"channels_first", "channels_last"},
             std::optional(ConvLayout::channels_first));
  }
  std::vector<Value> make(Graph&, const std::vector<Value>& in) const {
    return {q_conv(in[0], in[1], in[2], to, options)};
  }
};

}  // namespace

namespace ops {
void register_q_products(OpTable& table) {
  table.add<QMatMul>(
      {.formula =
           "y = clamp(round((bias + sum_k (x - x_zero) (w - w_zero)) multiplier) + zero), exact sums in i32",
       .operands = "x: rows [.., m, k]\n"
                   "w (i8 u8): the weight [.., k, n]\n"
                   "bias? (i32): [n], added to the sums; 0 if left out",
       .attributes = "x_zero: the zero point of x\n"
                     "w_zero: the zero point of w\n"
                     "multiplier: the scale of x times that of w, divided by that of y\n"
                     "zero: the zero point of y\n"
                     "to: the type of y, i8 or u8\n"
                     "ties: how numbers halfway between two integers are rounded",
       .outputs = "y (i8 u8): [.., m, n]",
       .types = "i8 u8",
       .variants = {"expanded"},
       .samples = {
           "q_matmul(T[3,17] in 0..100, i8[17,5] in -128..127, i32[5] in -900..900) "
           "{x_zero=3, w_zero=-2, multiplier=0.0078125, zero=-4}",
           "q_matmul(T[1,64] in 0..127, T[64,20] in 0..127) {multiplier=0.0009765625, to=u8, ties=\"even\"}",
           "q_matmul(T[2,5,33] in 0..90, i8[33,9] in -128..127) {x_zero=7, multiplier=0.00390625}",
           "q_matmul(T[0,4], i8[4,3])", "q_matmul(T[40], i8[40,3]) {w_zero=5, multiplier=0.0625}"}});
  table.add<QConv>(
      {.formula = "q_matmul's sums over the windows of x; what is padded adds nothing",
       .operands = "x: [batch, channels, 1 to 3 spatial axes], or as the layout says\n"
                   "w (i8 u8): filters [filters, channels / groups, kernel...], in either layout\n"
                   "bias? (i32): [filters], added to the sums; 0 if left out",
       .attributes =
           "x_zero: the zero point of x\n"
           "w_zero: the zero point of w\n"
           "multiplier: the scale of x times that of w, divided by that of y\n"
           "zero: the zero point of y\n"
           "to: the type of y, i8 or u8\n"
           "ties: how numbers halfway between two integers are rounded\n"
           "strides: steps between windows along each spatial axis; all 1 if empty\n"
           "dilations: steps between the elements of a window, likewise\n"
           "pads: padding at the beginning of each spatial axis, then at the end of each; none if empty\n"
           "groups: into how many groups channels and filters are divided\n"
           "layout: the position of the channel axis in x and y",
       .outputs = "y (i8 u8): [batch, filters, windows...], in the layout of x",
       .types = "i8 u8",
       .variants = {"expanded"},
       .samples = {"q_conv(T[2,3,7,6] in 0..100, i8[4,3,3,3] in -128..127, i32[4] in -900..900) "
                   "{x_zero=9, w_zero=1, multiplier=0.00390625, zero=5, pads=[1,1,1,1], strides=[2,1]}",
                   "q_conv(T[1,4,9] in 0..100, i8[4,1,3] in -128..127) "
                   "{multiplier=0.0078125, groups=4, dilations=[2], to=u8}"}});
}
}  // namespace ops

}  // namespace rlx
