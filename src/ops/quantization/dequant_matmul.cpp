// Products with weights that stay packed on the device: codes of 2 to 8 bits with scales for blocks of k.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ir/reference.h"
#include "kernels/lowering.h"
#include "ops/linear_algebra/matmul.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/epilogue.h"
#include "ops/products/load_packed.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_strided.h"
#include "ops/quantization/weight_scheme.h"
#include "rlx/ops/quantization.h"

namespace rlx {
namespace {

using products::LoadPacked;
using Code = LoadPacked::Code;

// dequant_matmul(x, codes, scale, zero, global, extra...).
struct DequantMatMul final : ProductOpOf<DequantMatMul> {
  static constexpr auto kName = "dequant_matmul";
  WeightScheme scheme = WeightScheme::int8;
  WeightOrder order = WeightOrder::by_rows;
  int64_t columns = 0;
  int64_t block = 0;
  double zero = 0;

  void visit_attributes(AttributeVisitor& v) override {
    visit_scheme(v, scheme);
    v("columns", columns);
    v("block", block, 0);
    v.choice("order", order, {"by_rows", "by_columns"}, std::optional(WeightOrder::by_rows));
    v("zero", zero, 0);
    v("epilogue", epilogue, {});
  }
  std::optional<ValueRange> sensible_values(int64_t input, std::span<const TensorType>) const override {
    return input == kScale && scheme == WeightScheme::mxfp4 ? std::optional(scale_exponents()) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  // Codes are read as words.
  bool reads_view(int64_t input, const View& view) const override {
    return input != kCodes || (view.offset % 4 == 0 && (view.is_contiguous() || lies_by_columns(view)));
  }

  int64_t own_inputs() const override { return 5; }
  std::optional<Order> weight_order(std::span<const TensorType> inputs, const Order& lies) const override;
  DType product_type(std::span<const DType> inputs) const override { return inputs[0]; }
  double terms(std::span<const TensorType> inputs) const override {
    return static_cast<double>(inputs[0].shape[inputs[0].shape.rank() - 1].value());
  }
  std::shared_ptr<Op> with_epilogue(ExprAttr other) const override {
    auto op = std::make_shared<DequantMatMul>(*this);
    op->epilogue = std::move(other);
    return op;
  }

 private:
  static constexpr int64_t kCodes = 1, kScale = 2, kZero = 3, kGlobal = 4;

  // How many elements of a column share a scale, and how many blocks a column of length k has.
  int64_t block_of(int64_t k) const {
    const int64_t given = block > 0 ? block : code_scheme(scheme).block;
    return given > 0 ? given : std::max<int64_t>(k, 1);
  }
  int64_t blocks_of(int64_t k) const { return std::max<int64_t>(ceil_div(k, block_of(k)), 1); }
  // From one column, or one k, to the next.
  int64_t column_step(int64_t k) const {
    return order == WeightOrder::by_rows ? 1 : ceil_div(k, block_of(k)) * block_of(k);
  }
  int64_t k_step() const { return order == WeightOrder::by_rows ? columns : 1; }
  // Codes that are bytes can be put side by side along k when they are loaded.
  bool is_matrix_of_bytes(const Shape& codes) const {
    return order == WeightOrder::by_rows && code_scheme(scheme).bits == 8 && codes.rank() == 2 &&
           codes[1].is(columns);
  }
  // Whether that was done.
  bool lies_by_columns(const View& codes) const {
    return is_matrix_of_bytes(Shape(codes.dims)) && codes.strides[0] == 1 &&
           codes.strides[1] == codes.dims[0];
  }
  int64_t bytes_of(int64_t k) const;
  void check_scales(const InferArgs& in, int64_t input, int64_t k) const;
  View scale_view(const View& v, int64_t k) const;
  double element(const RefContext& r, int64_t k, int64_t row, int64_t column) const;
};

int64_t DequantMatMul::bytes_of(int64_t k) const {
  const int64_t bits = code_scheme(scheme).bits;
  if (order == WeightOrder::by_rows) return ceil_div(checked_mul(checked_mul(k, columns), bits), 8);
  return checked_mul(columns, checked_mul(column_step(k), bits) / 8);
}

// One number, [blocks, columns] or, by columns, [columns, blocks]; a single block needs no axis.
void DequantMatMul::check_scales(const InferArgs& in, int64_t input, int64_t k) const {
  const Shape& s = in.shape(input);
  const int64_t blocks = blocks_of(k);
  if (s.elements().is(1)) return;
  const Shape wanted = order == WeightOrder::by_rows ? Shape{blocks, columns} : Shape{columns, blocks};
  if (s == wanted || (blocks == 1 && s == Shape{columns})) return;
  fail(
      "dequant_matmul: {} has the shape {}; {} columns of {} elements in blocks of {} need {} or one "
      "number",
      in.operand_name(input), s.text(), columns, k, block_of(k), wanted.text());
}

std::vector<TensorType> DequantMatMul::infer(const InferArgs& in) const {
  if (in.count() < 2) fail("dequant_matmul: takes x, codes, scales and more, not {} inputs", in.count());
  in.expect_float(0);
  in.expect_dtype(kCodes, in.dtype(kCodes) == DType::u8 || in.dtype(kCodes) == DType::i8, "u8 or i8");
  const Shape& x = in.shape(0);
  if (x.rank() == 0) fail("dequant_matmul: x is a scalar; it must have rows of at least one axis");
  if (!x[x.rank() - 1].is_static()) fail("dequant_matmul: the last axis of x {} must be a number", x.text());
  if (columns < 1) fail("dequant_matmul: the weight has {} columns; it must say how many there are", columns);
  if (block < 0 || block > UINT32_MAX)
    fail("dequant_matmul: blocks of {}; a block can have up to {} elements", block, UINT32_MAX);
  const CodeScheme s = code_scheme(scheme);
  const int64_t k = x[x.rank() - 1].value();
  if (order == WeightOrder::by_columns && column_step(k) * s.bits % 8 != 0) {
    fail("dequant_matmul: a column of {} codes of {} bits is no whole number of bytes", column_step(k),
         s.bits);
  }
  if (!in.shape(kCodes).elements().is(bytes_of(k))) {
    fail("dequant_matmul: the codes {} are not the {} bytes of {} columns of {} elements of {} bits{}",
         in.shape(kCodes).text(), bytes_of(k), columns, k, s.bits,
         order == WeightOrder::by_columns ? formatted(" in whole blocks of {}", block_of(k)) : "");
  }
  const bool fp8 = s.code == Code::e4m3 || s.code == Code::e5m2;
  if (!in.has(kScale) && !fp8) fail("dequant_matmul: there are no scales; only the fp8 schemes need none");
  if (in.has(kScale)) {
    if (s.scale == LoadPacked::Scale::number)
      in.expect_float(kScale);
    else
      in.expect_dtype(kScale, in.dtype(kScale) == DType::u8, "u8");
    check_scales(in, kScale, k);
  }
  if (in.has(kZero)) {
    if (!s.is_integer()) fail("dequant_matmul: only integers have zero points");
    const DType type = in.dtype(kZero);
    in.expect_dtype(kZero, is_float(type) || type == DType::u8 || type == DType::i8,
                    "a float type, u8 or i8");
    check_scales(in, kZero, k);
  }
  if (in.has(kGlobal)) {
    in.expect_float(kGlobal);
    if (!in.shape(kGlobal).elements().is(1))
      fail("dequant_matmul: the scale of all elements has the shape {}; it must be one number",
           in.shape(kGlobal).text());
  }
  Shape out = x;
  out[x.rank() - 1] = columns;
  return {TensorType{epilogue_type(in, out), out}};
}

double DequantMatMul::element(const RefContext& r, int64_t k, int64_t row, int64_t column) const {
  const CodeScheme s = code_scheme(scheme);
  const int64_t bit = (column * column_step(k) + row * k_step()) * s.bits;
  const auto byte = static_cast<uint8_t>(r.in(kCodes).ints[static_cast<size_t>(bit / 8)]);
  const unsigned code = (unsigned{byte} >> (bit % 8)) & ((1U << s.bits) - 1);
  const int64_t at = row / block_of(k);
  const auto number = [&](int64_t input, double otherwise) {
    const RefTensor* const t = r.optional_in(input);
    if (!t) return otherwise;
    const int64_t i = t->elements() == 1              ? 0
                      : order == WeightOrder::by_rows ? at * columns + column
                                                      : column * blocks_of(k) + at;
    const auto p = static_cast<size_t>(i);
    return is_float(t->dtype) ? t->real[p] : static_cast<double>(t->ints[p]);
  };
  double scale = scale_value(s, number(kScale, 1));
  if (const RefTensor* const all = r.optional_in(kGlobal)) scale *= all->real[0];
  return (code_value(s, code) - number(kZero, zero)) * scale;
}

void DequantMatMul::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const int64_t k = x.dims.back();
  std::vector<double> w(static_cast<size_t>(k * columns));
  for (int64_t i = 0; i < std::ssize(w); ++i)
    w[static_cast<size_t>(i)] = element(r, k, i / columns, i % columns);
  RefTensor y = RefTensor::zeros(x.dtype, r.out().dims);
  const int64_t rows = product({x.dims.begin(), x.dims.end() - 1});
  multiply_reference(x.real.data(), w.data(), y.real.data(), rows, columns, k);
  std::vector<DType> types;
  for (int64_t i = 0; i < r.input_count(); ++i) types.push_back(r.has(i) ? r.in(i).dtype : DType::f32);
  reference_epilogue(typed_epilogue(types), std::move(y), own_inputs(), r);
}

std::optional<ProductOp::Order> DequantMatMul::weight_order(std::span<const TensorType> inputs,
                                                            const Order& /*lies*/) const {
  const Shape& codes = inputs[kCodes].shape;
  if (!is_matrix_of_bytes(codes) || columns == 1) return std::nullopt;
  if (!codes[0].is_static() || codes[0].value() % 4 != 0) return std::nullopt;
  return Order{1, 0};
}

// As [blocks, columns].
View DequantMatMul::scale_view(const View& v, int64_t k) const {
  View out = v;
  if (v.elements() == 1) {
    out.dims = {1, 1};
    out.strides = {0, 0};
  } else if (v.rank() == 1) {
    out.dims.insert(out.dims.begin(), 1);
    out.strides.insert(out.strides.begin(), 0);
  } else if (order == WeightOrder::by_columns) {
    out = v.permute({1, 0});
  }
  return out.broadcast_to({blocks_of(k), columns});
}

void DequantMatMul::lower(Lowering& l) const {
  const Operand& x = l.in(0);
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  const CodeScheme s = code_scheme(scheme);
  const int64_t k = x.view.dims.back();
  const int64_t rows = x.view.rank() - 1;
  LoadPacked::Weight w{.words = l.in(kCodes),
                       .code = s.code,
                       .bits = s.bits,
                       .lines = columns,
                       .k = k,
                       .line_step = column_step(k),
                       .k_step = k_step(),
                       .block = block_of(k),
                       .scale = l.optional_in(kScale),
                       .zero = l.optional_in(kZero),
                       .global = l.optional_in(kGlobal),
                       .stored = s.scale,
                       .zero_point = zero};
  if (lies_by_columns(w.words.view)) {
    w.line_step = k;
    w.k_step = 1;
  }
  const int64_t first = w.words.view.offset / 4;
  w.words.dtype = DType::u32;
  w.words.view = View::contiguous({ceil_div(bytes_of(k), 4)});
  w.words.view.offset = first;
  for (Operand* const table : {&w.scale, &w.zero})
    if (table->present()) *table = table->with_view(scale_view(table->view, k));
  products::Product p;
  p.size = {1, product({x.view.dims.begin(), x.view.dims.end() - 1}), columns, k};
  p.run = LoadPacked::run_of(k, w.block);
  p.a = std::make_shared<products::LoadStrided>(products::Grouped{x, 0, rows});
  p.b = std::make_shared<LoadPacked>(std::move(w));
  p.y = std::make_shared<products::StoreStrided>(products::Grouped{y, 0, rows});
  std::vector<DType> types;
  for (int64_t i = 0; i < l.input_count(); ++i) {
    const Operand& in = l.optional_in(i);
    types.push_back(in.present() ? in.dtype : DType::f32);
    if (i >= own_inputs()) p.extra.push_back({in.with_view(in.view.broadcast_to(y.view.dims)), 0, rows});
  }
  p.expr = typed_epilogue(types);
  products::lower(l, kName, std::move(p));
}

Tolerance DequantMatMul::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  const Expr tail = typed_epilogue(input_dtypes(inputs));
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  // As in matmul, for elements up to 2; each is a difference and up to two products.
  return {.ulps = 5 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value dequant_matmul(Value x, const PackedWeight& w) {
  auto op = std::make_shared<DequantMatMul>();
  op->scheme = w.scheme;
  op->order = w.order;
  op->columns = w.columns;
  op->block = w.block;
  op->zero = w.zero;
  return add_node(std::move(op), {x, w.codes, w.scale, w.zero_point, w.global_scale});
}

namespace ops {
void register_dequant_matmul(OpTable& table) {
  table.add<DequantMatMul>(
      {.formula =
           "y[.., n] = epilogue(sum_k x[.., k] * (code[k, n] - zero[k / block, n]) * scale[k / block, n] "
           "* global)",
       .operands = "x: rows [.., k]\n"
                   "codes (u8 i8): the weight [k, columns] in any shape of as many bytes; "
                   "codes that share a byte begin at its lowest bits\n"
                   "scale? (float u8): one number, or [blocks, columns], by columns [columns, "
                   "blocks]; bytes for nvfp4 and mxfp4; only fp8 needs none\n"
                   "zero? (float u8 i8): zero points, as scale; the attribute zero if left out\n"
                   "global? (float): one number that multiplies all elements; 1 if left out\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes = "scheme: what the codes mean\n"
                     "columns: how many the weight has\n"
                     "block: how many neighbours along k share a scale; 0: as the scheme says, "
                     "or all\n"
                     "order: whether the codes of a row or those of a column lie side by side\n"
                     "zero: the zero point of all elements, where the operand is left out\n"
                     "epilogue: a scalar expression of the result $0 and the extra inputs $1, "
                     "$2, ..; empty: none",
       .outputs = "y (any): [.., columns]; of the type of x, or of the epilogue",
       .types = "f32 f16",
       .variants = products::variant_names(),
       .samples = {
           "dequant_matmul(T[3,64], i8[64,20], f32[2,20] in 0..0.04) "
           "{scheme=\"int8\", columns=20, block=32}",
           // Zero points; a last block that is not full, also where only runs of one fit.
           "dequant_matmul(T[5,72], i8[72,17], T[3,17] in 0..0.04, f32[3,17] in -9..9) "
           "{scheme=\"int8\", columns=17, block=32}",
           "dequant_matmul(T[1,35], u8[263], f32[3,15] in 0..0.2) {scheme=\"int4\", columns=15, block=16}",
           "dequant_matmul(T[2,3,64], u8[32,24], f32[4,24] in 0..0.2, none, none, T[24]) "
           "{scheme=\"int4\", columns=24, block=16, epilogue=\"t0=add($0,$1); relu(t0)\"}",
           "dequant_matmul(T[33,64], u8[20,4,8], T[20,4] in 0..0.2, u8[20,4] in 0..15) "
           "{scheme=\"uint4\", columns=20, block=16, order=\"by_columns\"}",
           "dequant_matmul(T[1,70], u8[5,3,16], f32[5,3] in 0..0.2) "
           "{scheme=\"uint4\", columns=5, block=32, order=\"by_columns\", zero=8}",
           "dequant_matmul(T[7,96], u8[13,24], f32[13,3] in 0..0.5, f32[1] in 1..2) "
           "{scheme=\"uint2\", columns=13, block=32, order=\"by_columns\"}",
           "dequant_matmul(T[3,40], u8[9,40], f32[9] in 0..0.01, u8[9]) "
           "{scheme=\"uint8\", columns=9, order=\"by_columns\"}",
           "dequant_matmul(T[4,36], u8[36,12] in 0..60) {scheme=\"fp8_e4m3\", columns=12}",
           "dequant_matmul(T[4,37], u8[37,11] in 0..60, T[11] in 0..1) {scheme=\"fp8_e5m2\", columns=11}",
           "dequant_matmul(T[3,48], u8[24,20], u8[3,20] in 0..48, none, f32[1] in 0..1) "
           "{scheme=\"nvfp4\", columns=20}",
           "dequant_matmul(T[3,64], u8[32,20], u8[2,20] in 120..126) {scheme=\"mxfp4\", columns=20}",
           // Few columns, no rows, nothing to add up.
           "dequant_matmul(T[40,32], u8[16,3], f32[] in 0..0.2) {scheme=\"int4\", columns=3}",
           "dequant_matmul(T[0,8], i8[8,4], f32[4]) {scheme=\"int8\", columns=4}",
           "dequant_matmul(T[3,0], i8[0,4], f32[4]) {scheme=\"int8\", columns=4}",
           // Past one binding of 64 KiB and past all.
           "dequant_matmul(T[3,704], u8[260,704], f32[260,22] in 0..0.02, u8[260,22]) "
           "{scheme=\"uint8\", columns=260, block=32, order=\"by_columns\"}",
           "dequant_matmul(T[2,768], i8[768,800], f32[24,800] in 0..0.02) "
           "{scheme=\"int8\", columns=800, block=32}"}});
}
}  // namespace ops

}  // namespace rlx
