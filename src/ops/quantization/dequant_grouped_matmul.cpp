// Products with the weights of experts that stay packed on the device, as in dequant_matmul.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ir/reference.h"
#include "ops/machinery/flops.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/products/grouped_product.h"
#include "ops/products/load_packed.h"
#include "ops/quantization/weight_scheme.h"
#include "rlx/ops/quantization.h"

namespace rlx {
namespace {

using products::LoadPacked;

// dequant_grouped_matmul(x, codes, scale, zero, expert): y[r..] = x[r..] w[expert[r..]] for x [r.., k], codes
// [experts, columns, bytes of k] and an index for each row. A row without an expert is zero.
struct DequantGroupedMatMul final : OpOf<DequantGroupedMatMul> {
  static constexpr auto kName = "dequant_grouped_matmul";
  WeightScheme scheme = WeightScheme::int8;
  int64_t block = 0;
  double zero = 0;

  void visit_attributes(AttributeVisitor& v) override {
    visit_scheme(v, scheme);
    v("block", block, 0);
    v("zero", zero, 0);
  }
  std::optional<ValueRange> sensible_values(int64_t input,
                                            std::span<const TensorType> inputs) const override {
    if (input == kScale && scheme == WeightScheme::mxfp4) return scale_exponents();
    return input == kExpert ? values_between(0, inputs[kCodes].shape[0] - 1) : std::nullopt;
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  void lower(Lowering& l) const override;
  Tolerance tolerance(std::span<const TensorType> inputs) const override;
  double flops(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const override {
    return flops_of_sums(terms(inputs), outputs);
  }
  // Codes are read as words, and all columns of scales as one axis.
  bool reads_view(int64_t input, const View& view) const override {
    if (input == kCodes) return view.is_contiguous() && view.offset % 4 == 0;
    return (input != kScale && input != kZero) || view.is_contiguous();
  }

 private:
  static constexpr int64_t kCodes = 1, kScale = 2, kZero = 3, kExpert = 4;

  // How many elements of a column share a scale, and how many blocks a column of length k has.
  int64_t block_of(int64_t k) const {
    const int64_t given = block > 0 ? block : code_scheme(scheme).block;
    const int64_t all = std::max<int64_t>(k, 1);
    return given > 0 ? std::min(given, all) : all;
  }
  int64_t blocks_of(int64_t k) const { return std::max<int64_t>(ceil_div(k, block_of(k)), 1); }
  void check_weight(const InferArgs& in, int64_t k) const;
  void check_scales(const InferArgs& in, int64_t input, int64_t k) const;
  Operand table_of(const Operand& given, int64_t k) const;
  double element(const RefContext& r, int64_t k, int64_t line, int64_t row) const;
  // How many products an element of the result is the sum of.
  static double terms(std::span<const TensorType> inputs) {
    return static_cast<double>(inputs[0].shape[inputs[0].shape.rank() - 1].value());
  }
};

// [experts, columns, blocks]; a single block needs no axis.
void DequantGroupedMatMul::check_scales(const InferArgs& in, int64_t input, int64_t k) const {
  const Shape& s = in.shape(input);
  Shape wanted = in.shape(kCodes);
  wanted[2] = blocks_of(k);
  const bool one = blocks_of(k) == 1 && s == Shape{wanted[0], wanted[1]};
  if (s == wanted || one) return;
  fail(
      "dequant_grouped_matmul: {} has the shape {}; the codes {} of {} elements in blocks of {} need "
      "{}",
      in.operand_name(input), s.text(), in.shape(kCodes).text(), k, block_of(k), wanted.text());
}

void DequantGroupedMatMul::check_weight(const InferArgs& in, int64_t k) const {
  const CodeScheme s = code_scheme(scheme);
  in.expect_dtype(kCodes, in.dtype(kCodes) == DType::u8 || in.dtype(kCodes) == DType::i8, "u8 or i8");
  if (block < 0) fail("dequant_grouped_matmul: blocks of {}; a block cannot be negative", block);
  const Shape& codes = in.shape(kCodes);
  const int64_t bytes = ceil_div(checked_mul(k, s.bits), 8);
  if (codes.rank() != 3 || !codes.is_static() || !codes[2].is(bytes)) {
    fail(
        "dequant_grouped_matmul: the codes {} must be [experts, columns, {}], the bytes of {} elements of {} "
        "bits",
        codes.text(), bytes, k, s.bits);
  }
  // Kernels count codes in 32 bits.
  const int64_t codes_of_all = checked_mul(codes.elements().value(), 8 / s.bits);
  if (codes_of_all > UINT32_MAX) {
    fail("dequant_grouped_matmul: {} codes; all experts together may have at most {}", codes_of_all,
         UINT32_MAX);
  }
  if (in.has(kScale)) {
    if (s.scale == CodeScheme::Scale::number)
      in.expect_float(kScale);
    else
      in.expect_dtype(kScale, in.dtype(kScale) == DType::u8, "u8");
    check_scales(in, kScale, k);
  } else if (s.needs_scale()) {
    fail("dequant_grouped_matmul: there are no scales; only the fp8 schemes need none");
  }
  if (!in.has(kZero)) return;
  if (!s.is_integer()) fail("dequant_grouped_matmul: only integers have zero points");
  const DType type = in.dtype(kZero);
  in.expect_dtype(kZero, is_float(type) || type == DType::u8 || type == DType::i8, "a float type, u8 or i8");
  check_scales(in, kZero, k);
}

std::vector<TensorType> DequantGroupedMatMul::infer(const InferArgs& in) const {
  in.expect_count(5);
  in.expect_float(0);
  const DType index = in.dtype(kExpert);
  in.expect_dtype(kExpert, index == DType::i32 || index == DType::u32 || index == DType::i64,
                  "i32, u32 or i64");
  Shape rows = in.shape(0);
  if (rows.rank() == 0) fail("dequant_grouped_matmul: x is a scalar; it must have rows of at least one axis");
  const Dim k = rows[rows.rank() - 1];
  if (!k.is_static())
    fail("dequant_grouped_matmul: the last axis of x {} must be a number", in.shape(0).text());
  check_weight(in, k.value());
  rows.erase(rows.rank() - 1);
  if (!(in.shape(kExpert) == rows)) {
    fail("dequant_grouped_matmul: the expert indices have the shape {}; the rows of x {} need {}",
         in.shape(kExpert).text(), in.shape(0).text(), rows.text());
  }
  rows.push_back(in.shape(kCodes)[1]);
  return {TensorType{in.dtype(0), rows}};
}

// Lines are the columns of all experts.
double DequantGroupedMatMul::element(const RefContext& r, int64_t k, int64_t line, int64_t row) const {
  const CodeScheme s = code_scheme(scheme);
  const int64_t bit = line * r.in(kCodes).dims[2] * 8 + row * s.bits;
  const auto byte = static_cast<uint8_t>(r.in(kCodes).ints[static_cast<size_t>(bit / 8)]);
  const unsigned code = (unsigned{byte} >> (bit % 8)) & ((1U << s.bits) - 1);
  const auto at = static_cast<size_t>(line * blocks_of(k) + row / block_of(k));
  const auto number = [&](int64_t input, double otherwise) {
    const RefTensor* const t = r.optional_in(input);
    if (!t) return otherwise;
    return is_float(t->dtype) ? t->real[at] : static_cast<double>(t->ints[at]);
  };
  return (code_value(s, code) - number(kZero, zero)) * scale_value(s, number(kScale, 1));
}

void DequantGroupedMatMul::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const int64_t k = x.dims.back();
  const int64_t experts = r.in(kCodes).dims[0];
  const int64_t columns = r.in(kCodes).dims[1];
  const std::vector<int64_t>& expert = r.in(kExpert).ints;
  double* y = r.out().real.data();
  for (int64_t row = 0; row < std::ssize(expert); ++row) {
    const int64_t e = expert[static_cast<size_t>(row)];
    if (e < 0 || e >= experts) continue;
    for (int64_t n = 0; n < columns; ++n) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += x.real[static_cast<size_t>(row * k + i)] * element(r, k, e * columns + n, i);
      y[row * columns + n] = sum;
    }
  }
}

// As [blocks, columns of all experts].
Operand DequantGroupedMatMul::table_of(const Operand& given, int64_t k) const {
  if (!given.present()) return given;
  const int64_t blocks = blocks_of(k);
  View view = View::contiguous({given.view.elements() / blocks, blocks});
  view.offset = given.view.offset;
  return given.with_view(view.permute({1, 0}));
}

void DequantGroupedMatMul::lower(Lowering& l) const {
  const CodeScheme s = code_scheme(scheme);
  const Operand& codes = l.in(kCodes);
  const int64_t k = l.in(0).view.dims.back();
  LoadPacked::Weight w{.words = codes,
                       .code = s.code,
                       .bits = s.bits,
                       .lines = codes.view.dims[1],
                       .k = k,
                       .line_step = codes.view.dims[2] * 8 / s.bits,
                       .k_step = 1,
                       .block = block_of(k),
                       .scale = table_of(l.optional_in(kScale), k),
                       .zero = table_of(l.optional_in(kZero), k),
                       .stored = s.scale,
                       .zero_point = zero,
                       .batches = codes.view.dims[0]};
  w.words.dtype = DType::u32;
  w.words.view = View::contiguous({ceil_div(codes.view.elements(), 4)});
  w.words.view.offset = codes.view.offset / 4;
  lower_grouped(l, {.op = kName,
                    .x = l.in(0),
                    .expert = l.in(kExpert),
                    .experts = w.batches,
                    .columns = l.out().view.dims.back(),
                    .weights =
                        [&](int64_t first, int64_t) {
                          LoadPacked::Weight some = w;
                          some.first_batch = first;
                          return std::make_shared<LoadPacked>(std::move(some));
                        },
                    .run = LoadPacked::run_of(k, w.block)});
}

Tolerance DequantGroupedMatMul::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  // As in dequant_matmul.
  return {.ulps = 5, .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

}  // namespace

Value dequant_grouped_matmul(Value x, const PackedWeight& w, Value expert) {
  if (w.global_scale) fail("dequant_grouped_matmul: there is no scale of all elements");
  auto op = std::make_shared<DequantGroupedMatMul>();
  op->scheme = w.scheme;
  op->block = w.block;
  op->zero = w.zero;
  return add_node(std::move(op), {x, w.codes, w.scale, w.zero_point, expert});
}

namespace ops {
void register_dequant_grouped_matmul(OpTable& table) {
  std::vector<std::string> variants = products::variant_names();
  variants.emplace_back(kSortedRows);
  table.add<DequantGroupedMatMul>(
      {.formula = "y[.., n] = sum_k x[.., k] * (code[e, n, k] - zero[e, n, k / block]) * scale[e, n, k / "
                  "block] with e = expert[..]; 0 if there is no such expert",
       .operands = "x: rows [.., k]\n"
                   "codes (u8 i8): [experts, columns, bytes of k]; codes that share a byte "
                   "begin at its lowest bits\n"
                   "scale? (float u8): [experts, columns] or [experts, columns, blocks]; bytes "
                   "for nvfp4 and mxfp4; only fp8 needs none\n"
                   "zero? (float u8 i8): zero points, as scale; the attribute zero if left out\n"
                   "expert (i32 u32 i64): [..], the expert of each row; if there is none of "
                   "that number, the result is 0",
       .attributes = "scheme: what the codes mean\n"
                     "block: how many neighbours along k share a scale; 0: as the scheme says, "
                     "or all\n"
                     "zero: the zero point of all elements, where the operand is left out",
       .outputs = "y: [.., columns]",
       .types = "f32 f16",
       .variants = std::move(variants),
       .samples = {
           "dequant_grouped_matmul(T[7,64], u8[4,12,32], f32[4,12,2] in 0..0.2, none, i32[7] in 0..3) "
           "{scheme=\"uint4\", block=32, zero=8}",
           // More rows than are taken one by one; zero points; lines that are no whole words, and an odd k.
           "dequant_grouped_matmul(T[33,20], u8[3,5,10], T[3,5] in 0..0.2, u8[3,5] in 0..15, i64[33] in "
           "-2..4) "
           "{scheme=\"uint4\"}",
           "dequant_grouped_matmul(T[2,5,17], u8[3,9,9], f32[3,9,1] in 0..0.2, none, u32[2,5] in 0..4) "
           "{scheme=\"int4\"}",
           "dequant_grouped_matmul(T[19,32], u8[2,8,32], f32[2,8,2] in 0..0.01, f32[2,8,2] in 100..150, "
           "i32[19] in 0..1) {scheme=\"uint8\", block=16}",
           "dequant_grouped_matmul(T[5,40], i8[1,7,40], f32[1,7,3] in 0..0.04, none, i32[5] in 0..0) "
           "{scheme=\"int8\", block=16}",
           "dequant_grouped_matmul(T[6,24], u8[3,5,6], f32[3,5,2] in 0..0.5, none, i32[6] in 0..2) "
           "{scheme=\"uint2\", block=16, zero=2}",
           "dequant_grouped_matmul(T[4,36], u8[2,6,36] in 0..60, none, none, i32[4] in 0..1) "
           "{scheme=\"fp8_e4m3\"}",
           "dequant_grouped_matmul(T[21,64], u8[3,10,32], u8[3,10,2] in 120..126, none, i32[21] in 0..2) "
           "{scheme=\"mxfp4\"}",
           // Nothing to do, nothing to add up, nobody to ask.
           "dequant_grouped_matmul(T[0,8], u8[3,4,8], f32[3,4], none, i32[0]) {scheme=\"uint8\"}",
           "dequant_grouped_matmul(T[5,0], u8[2,3,0], f32[2,3], none, i32[5] in 0..1) {scheme=\"uint8\"}",
           "dequant_grouped_matmul(T[4,8], u8[0,2,8], f32[0,2], none, i32[4]) {scheme=\"uint8\"}",
           // Past one binding of 64 KiB and past all.
           "dequant_grouped_matmul(T[40,128], u8[12,130,128], f32[12,130,4] in 0..0.01, u8[12,130,4], "
           "i32[40] in -1..11) {scheme=\"uint8\", block=32}",
           "dequant_grouped_matmul(T[5,704], u8[2,260,704], f32[2,260,22] in 0..0.01, none, i32[5] in 0..1) "
           "{scheme=\"uint8\", block=32, zero=128}",
       }});
}
}  // namespace ops

}  // namespace rlx
