// The bits of elements read as another type of the same size.
#include <bit>

#include "ir/reference.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"

namespace rlx {
namespace {

// i64 has 32 bits on the device, and 16 bits have no integer type. A byte that is no bool cannot become one.
bool can_become(DType from, DType to) {
  const auto word = [](DType t) { return t == DType::f32 || t == DType::i32 || t == DType::u32; };
  const auto byte = [](DType t) { return t == DType::i8 || t == DType::u8; };
  return from == to || (word(from) && word(to)) || ((byte(from) || from == DType::bool_) && byte(to));
}

struct Bitcast final : OpOf<Bitcast> {
  static constexpr auto kName = "bitcast";
  DType to = DType::i32;

  void visit_attributes(AttributeVisitor& v) override { v("to", to); }
  bool has(Trait t) const override { return t == Trait::view; }
  std::optional<View> view(const View& input, const Dims&) const override { return input; }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(1);
    if (!can_become(in.dtype(0), to)) {
      fail(
          "bitcast: elements of the type {} cannot be read as {}; f32, i32 and u32 can as each other, and "
          "bool, i8 and u8 as i8 or u8",
          to_string(in.dtype(0)), to_string(to));
    }
    return {{to, in.shape(0)}};
  }

  void reference(RefContext& r) const override {
    const RefTensor& x = r.in(0);
    RefTensor& y = r.out();
    if (is_float(x.dtype) == is_float(to)) {
      y.real = x.real;
      for (size_t i = 0; i < x.ints.size(); ++i) y.ints[i] = wrapped(x.ints[i], to);
      y.complex = x.complex;
    } else if (is_float(to)) {
      for (size_t i = 0; i < x.ints.size(); ++i)
        y.real[i] = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(x.ints[i])));
    } else {
      for (size_t i = 0; i < x.real.size(); ++i)
        y.ints[i] = wrapped(std::bit_cast<int32_t>(static_cast<float>(x.real[i])), to);
    }
  }

  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 0}; }
};

}  // namespace

Value bitcast(Value x, DType to) {
  auto op = std::make_shared<Bitcast>();
  op->to = to;
  return add_node(op, {x});
}

namespace ops {
void register_bitcast(OpTable& table) {
  table.add<Bitcast>(
      {.formula = "the bits of each element as another type of the same size",
       .operands = "x (any): what is read as another type",
       .attributes = "to: the other type: among f32, i32 and u32, or i8 or u8 for bool, i8 and u8",
       .outputs = "y (any): the same bits",
       .types = "f32 i32 u32",
       .variants = {"view"},
       .samples = {"bitcast(T[3,17]) {to=i32}", "bitcast(T[257]) {to=u32}", "bitcast(T[]) {to=f32}",
                   "bitcast(T[0,3]) {to=i32}", "bitcast(i8[3,5]) {to=u8}", "bitcast(u8[257]) {to=i8}",
                   "bitcast(bool[17]) {to=u8}", "bitcast(f16[5]) {to=f16}", "bitcast(T[65537]) {to=i32}"}});
}
}  // namespace ops

}  // namespace rlx
