#include "ops/linear_algebra/matmul.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "ir/reference.h"
#include "kernels/lowering.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"
#include "ops/products/epilogue.h"
#include "ops/products/load_blocks.h"
#include "ops/products/load_strided.h"
#include "ops/products/store_split.h"
#include "ops/products/store_strided.h"
#include "rlx/ops/linear_algebra.h"

namespace rlx {

namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }

}  // namespace

DType MatMul::product_type(std::span<const DType> inputs) const {
  return is_byte(inputs[0]) ? DType::i32 : inputs[0];
}

std::shared_ptr<Op> MatMul::with_epilogue(ExprAttr other) const {
  auto op = std::make_shared<MatMul>(*this);
  op->epilogue = std::move(other);
  return op;
}

std::shared_ptr<Op> MatMul::with_splits(std::vector<int64_t> sizes) const {
  if (!splits.empty()) return nullptr;
  auto op = std::make_shared<MatMul>(*this);
  op->splits = std::move(sizes);
  return op;
}

std::shared_ptr<Op> MatMul::with_panels(std::span<const TensorType> inputs, int64_t width) const {
  const Shape& b = inputs[1].shape;
  const auto whole = [&](int64_t columns) { return columns > 0 && columns % width == 0; };
  if (panels != 0 || b.rank() != 2 || !b.is_static() || !is_float(inputs[1].dtype) || !whole(b[1].value()))
    return nullptr;
  if (!std::ranges::all_of(splits, whole)) return nullptr;  // parts are cut between panels
  auto op = std::make_shared<MatMul>(*this);
  op->panels = width;
  return op;
}

// A matrix of weights, and in the epilogue only vectors with a number for each column.
std::optional<ProductOp::Join> MatMul::join(std::span<const TensorType> inputs) const {
  const Shape& b = inputs[1].shape;
  if (b.rank() != 2 || !b.is_static() || inputs[0].shape.rank() < 2 || !splits.empty()) return std::nullopt;
  for (const TensorType& extra : inputs.subspan(2)) {
    if (!(extra.shape == Shape{b[1]})) return std::nullopt;
  }
  return Join{.weight_axis = 1, .result_axis = -1};
}

std::optional<MatMul::Order> MatMul::weight_order(std::span<const TensorType> inputs,
                                                  const Order& lies) const {
  const int64_t rank = inputs[1].shape.rank();
  // Four bytes along k are multiplied at once where the device can.
  const bool fours = rank == 2 && is_byte(inputs[1].dtype) && inputs[0].dtype == inputs[1].dtype &&
                     inputs[1].shape[0].is_static() && inputs[1].shape[0].value() % 4 == 0;
  if (fours) return Order{1, 0};
  if (rank < 3 || lies.back() >= rank - 2) return std::nullopt;  // along k or along n
  Order order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<TensorType> MatMul::infer(const InferArgs& in) const {
  if (in.count() < 2) fail("matmul: takes 2 inputs and those of its epilogue, not {}", in.count());
  const DType type = in.dtype(0);
  in.expect_dtype(0, is_float(type) || is_byte(type) || type == DType::i32 || type == DType::u32,
                  "a float type, i32, u32, i8 or u8");
  if (!is_byte(type) || !is_byte(in.dtype(1))) in.expect_same_dtype(0, 1);
  Shape a = in.shape(0);
  Shape b = in.shape(1);
  if (a.rank() == 0 || b.rank() == 0) fail("matmul: {} is a scalar; use mul", a.rank() == 0 ? "a" : "b");
  if (panels != 0) {
    if (panels < 0 || b.rank() != 3 || !(b[2] == Dim(panels))) {
      fail("matmul: b {} does not lie in panels of {} columns, as [n / {}, k, {}]", b.text(), panels, panels,
           panels);
    }
    if (!std::ranges::all_of(splits, [&](int64_t columns) { return columns % panels == 0; }))
      fail("matmul: the splits [{}] cut panels of {} columns", joined(splits), panels);
    b = Shape{b[1], b[0] * b[2]};
  }
  const bool a_vector = a.rank() == 1;
  const bool b_vector = b.rank() == 1;
  if (a_vector) a.insert(0, 1);
  if (b_vector) b.push_back(1);
  const Dim& k = a[a.rank() - 1];
  if (!(k == b[b.rank() - 2])) {
    fail("matmul: the inner sizes of {} and {} differ: {} against {}", in.shape(0).text(), in.shape(1).text(),
         k.text(), b[b.rank() - 2].text());
  }
  const auto batch = [](const Shape& s) { return Shape(std::vector<Dim>(s.begin(), s.end() - 2)); };
  Shape out = broadcast(batch(a), batch(b), "matmul");
  if (!a_vector) out.push_back(a[a.rank() - 2]);
  if (!b_vector) out.push_back(b[b.rank() - 1]);
  const DType result = epilogue_type(in, out);
  if (splits.empty()) return {TensorType{result, out}};
  if (b_vector) fail("matmul: the product with the vector {} has no columns to split", in.shape(1).text());
  Dim columns;
  std::vector<TensorType> parts;
  for (const int64_t size : splits) {
    if (size < 0) fail("matmul: `splits` contains {}; its numbers must be at least 0", size);
    columns = columns + Dim(size);
    parts.push_back({result, out});
    parts.back().shape[out.rank() - 1] = size;
  }
  if (!(columns == b[b.rank() - 1])) {
    fail("matmul: the splits [{}] add up to {}, but the product has {} columns", joined(splits),
         columns.text(), b[b.rank() - 1].text());
  }
  return parts;
}

namespace {

// An operand as [batch..., rows, cols], vectors given their missing axis and batches broadcast.
View matrix_view(View v, bool is_left, const std::vector<int64_t>& batch) {
  if (v.rank() == 1) {
    v.dims.insert(is_left ? v.dims.begin() : v.dims.end(), 1);
    v.strides.insert(is_left ? v.strides.begin() : v.strides.end(), 0);
  }
  std::vector<int64_t> target = batch;
  target.insert(target.end(), v.dims.end() - 2, v.dims.end());
  return v.broadcast_to(target);
}

// The output as [batch..., m, n], with whichever of m and n it has.
std::vector<int64_t> matrix_dims(const std::vector<int64_t>& out, bool a_vector, bool b_vector, int64_t m,
                                 int64_t n) {
  std::vector<int64_t> dims(out.begin(), out.end() - (a_vector ? 0 : 1) - (b_vector ? 0 : 1));
  dims.push_back(m);
  dims.push_back(n);
  return dims;
}

// Batches that b does not have are just more rows.
void fold_batches(products::Product& p, products::Grouped& a, products::Grouped& b, products::Grouped& y) {
  const View batch = b.group(0);
  if (p.size.batch <= 1 || !std::ranges::all_of(batch.strides, [](int64_t s) { return s == 0; })) return;
  for (products::Grouped* g : {&a, &y}) g->second_axes += std::exchange(g->first_axes, 0);
  for (products::Grouped& e : p.extra) e.second_axes += std::exchange(e.first_axes, 0);
  b.operand.view = b.operand.view.slice_axes(b.first_axes, b.operand.view.rank());
  b.first_axes = 0;
  p.size.m *= std::exchange(p.size.batch, 1);
}

// b, which is [.., k, n] or in panels [n / panels, k, panels], with n.
int64_t column_count(const std::vector<int64_t>& b, int64_t panels) {
  return panels != 0 ? b[0] * b[2] : b.size() == 1 ? 1 : b.back();
}

// Panels as [batch.., panel, column, k].
products::Grouped by_panels(const Operand& b, const std::vector<int64_t>& batch) {
  const View v = b.view.permute({0, 2, 1});
  std::vector<int64_t> dims = batch;
  dims.insert(dims.end(), v.dims.begin(), v.dims.end());
  return {b.with_view(v.broadcast_to(dims)), std::ssize(batch), 2};
}

// b as [batch.., columns, k].
products::Grouped by_columns(const Operand& b) {
  std::vector<int64_t> order(static_cast<size_t>(b.view.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.end()[-1], order.end()[-2]);
  return {b.with_view(b.view.permute(order)), b.view.rank() - 2, 1};
}

// y = expr(a x b, extra..) for operands [batch.., m, k], columns [batch.., n.., k] and [batch.., m, n].
products::Product make_product(const Operand& a, products::Grouped right, const Operand& y,
                               const OperandList& extra, const Expr& expr) {
  const int64_t axes = y.view.rank() - 2;
  products::Product p;
  const Dims& dims = y.view.dims;
  p.size = {product({dims.begin(), dims.end() - 2}), dims[dims.size() - 2], dims.back(), a.view.dims.back()};
  p.expr = expr;
  for (const Operand& e : extra) p.extra.push_back({e, axes, 1});
  products::Grouped left{a, axes, 1};
  products::Grouped out{y, axes, 1};
  fold_batches(p, left, right, out);
  p.a = std::make_shared<products::LoadStrided>(left);
  p.b = products::load_matrix(right);
  p.y = std::make_shared<products::StoreStrided>(out);
  p.may_round = true;
  return p;
}

}  // namespace

bool MatMul::reads_encoded(int64_t input, DType encoding, const View& view) const {
  if (input != 1 || view.rank() < 2) return false;
  return products::LoadBlocks::reads(by_columns({.dtype = encoding, .view = view}));
}

void MatMul::lower(Lowering& l) const {
  std::vector<int64_t> out = l.out().view.dims;
  if (!splits.empty()) out.back() = column_count(l.in(1).view.dims, panels);
  if (product(out) == 0) return;
  const bool a_vector = l.in(0).view.rank() == 1;
  const bool b_vector = l.in(1).view.rank() == 1;
  const int64_t m = a_vector ? 1 : l.in(0).view.dims[l.in(0).view.dims.size() - 2];
  const int64_t n = column_count(l.in(1).view.dims, panels);
  const std::vector<int64_t> dims = matrix_dims(out, a_vector, b_vector, m, n);
  const std::vector<int64_t> batch(dims.begin(), dims.end() - 2);
  std::vector<DType> types = {l.in(0).dtype, l.in(1).dtype};
  OperandList extra;
  for (int64_t i = 2; i < l.input_count(); ++i) {
    types.push_back(l.in(i).dtype);
    const auto as_matrix = l.in(i).view.broadcast_to(out).reshape(dims);  // only axes of length 1 are added
    extra.push_back(l.in(i).with_view(*as_matrix));
  }
  const Operand a = l.in(0).with_view(matrix_view(l.in(0).view, true, batch));
  // The columns from `begin` on.
  const auto columns_of_b = [&](int64_t begin, int64_t length) {
    const Operand& b = l.in(1);
    if (panels != 0) return by_panels(b.with_view(b.view.slice(0, begin / panels, length / panels)), batch);
    const View v = matrix_view(b.view, false, batch);
    return by_columns(b.with_view(v.slice(v.rank() - 1, begin, length)));
  };
  const Expr tail = typed_epilogue(types);
  if (splits.empty()) {
    const Operand y = l.out().with_view(View::contiguous(dims));
    products::lower(l, kName, make_product(a, columns_of_b(0, n), y, extra, tail));
    return;
  }
  // One store to all outputs or, if they cannot be bound together, a product for each.
  OperandList outputs;
  for (size_t i = 0; i < splits.size(); ++i) {
    std::vector<int64_t> part = dims;
    part.back() = splits[i];
    if (splits[i] > 0) outputs.push_back(l.out(static_cast<int64_t>(i)).with_view(View::contiguous(part)));
  }
  const Operand shape{.dtype = outputs[0].dtype, .view = View::contiguous(dims)};
  products::Product whole = make_product(a, columns_of_b(0, n), shape, extra, tail);
  whole.y = std::make_shared<products::StoreSplit>(outputs);
  if (products::lower_bound(l, kName, std::move(whole))) return;
  int64_t begin = 0;
  for (const Operand& y : outputs) {
    const int64_t length = y.view.dims.back();
    OperandList some;
    for (const Operand& e : extra)
      some.push_back(e.with_view(e.view.slice(e.view.rank() - 1, begin, length)));
    products::lower(l, kName, make_product(a, columns_of_b(begin, length), y, some, tail));
    begin += length;
  }
}

void lower_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y) {
  if (y.view.elements() == 0) return;
  products::Product p = make_product(a, by_columns(b), y, {}, {});
  p.may_round = false;  // the errors of a recurrent network's steps add up
  products::lower(l, MatMul::kName, std::move(p));
}

// All columns, then those of each output.
void MatMul::reference_splits(RefContext& r) const {
  std::vector<const RefTensor*> inputs;
  for (int64_t i = 0; i < r.input_count(); ++i) inputs.push_back(&r.in(i));
  std::vector<int64_t> dims = r.out().dims;
  dims.back() = column_count(r.in(1).dims, panels);
  const TensorType type{r.out().dtype, Shape(dims)};
  RefContext whole(inputs, std::span(&type, 1));
  MatMul unsplit = *this;
  unsplit.splits.clear();
  unsplit.reference(whole);
  int64_t begin = 0;
  for (size_t i = 0; i < splits.size(); ++i) {
    const View columns = View::contiguous(dims).slice(std::ssize(dims) - 1, begin, splits[i]);
    RefTensor& out = r.out(static_cast<int64_t>(i));
    if (!whole.out().real.empty()) out.real = gather_view(whole.out().real, columns);
    if (!whole.out().ints.empty()) out.ints = gather_view(whole.out().ints, columns);
    begin += splits[i];
  }
}

namespace {

// [n / panels, k, panels] as [k, n].
RefTensor without_panels(const RefTensor& b) {
  RefTensor out = RefTensor::zeros(b.dtype, {b.dims[1], b.dims[0] * b.dims[2]});
  out.real = gather_view(b.real, View::contiguous(b.dims).permute({1, 0, 2}));
  return out;
}

}  // namespace

void MatMul::reference(RefContext& r) const {
  if (!splits.empty()) {
    reference_splits(r);
    return;
  }
  const RefTensor& a = r.in(0);
  const RefTensor b = panels != 0 ? without_panels(r.in(1)) : r.in(1);
  const std::vector<int64_t>& out = r.out().dims;
  const bool a_vector = a.dims.size() == 1;
  const bool b_vector = b.dims.size() == 1;
  const int64_t m = a_vector ? 1 : a.dims[a.dims.size() - 2];
  const int64_t k = a.dims.back();
  const int64_t n = b_vector ? 1 : b.dims.back();
  const std::vector<int64_t> dims = matrix_dims(out, a_vector, b_vector, m, n);
  const std::vector<int64_t> batch(dims.begin(), dims.end() - 2);
  const View a_view = matrix_view(View::contiguous(a.dims), true, batch);
  const View b_view = matrix_view(View::contiguous(b.dims), false, batch);
  const DType type = product_type(std::array{a.dtype, b.dtype});
  RefTensor y = RefTensor::zeros(type, out);
  const View a_batch = a_view.slice_axes(0, static_cast<int64_t>(batch.size()));
  const View b_batch = b_view.slice_axes(0, static_cast<int64_t>(batch.size()));
  const std::vector<int64_t> batch_strides = row_major_strides(batch);
  const auto offset = [&](const View& v, int64_t index) {
    int64_t at = v.offset;
    for (size_t i = 0; i < batch.size(); ++i) at += index / batch_strides[i] % batch[i] * v.strides[i];
    return at;
  };
  for (int64_t i = 0; i < product(batch); ++i) {
    const int64_t pa = offset(a_batch, i);
    const int64_t pb = offset(b_batch, i);
    if (is_float(a.dtype)) {
      multiply_reference(a.real.data() + pa, b.real.data() + pb, y.real.data() + i * m * n, m, n, k);
      continue;
    }
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t col = 0; col < n; ++col) {
        uint64_t sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          sum += static_cast<uint64_t>(a.ints[static_cast<size_t>(pa + row * k + p)]) *
                 static_cast<uint64_t>(b.ints[static_cast<size_t>(pb + p * n + col)]);
        }
        y.ints[static_cast<size_t>((i * m + row) * n + col)] =
            type == DType::u32 ? static_cast<int64_t>(static_cast<uint32_t>(sum)) : static_cast<int32_t>(sum);
      }
    }
  }
  std::vector<DType> types;
  for (int64_t i = 0; i < r.input_count(); ++i) types.push_back(r.in(i).dtype);
  reference_epilogue(typed_epilogue(types), std::move(y), 2, r);
}

double MatMul::terms(std::span<const TensorType> inputs) const {
  return static_cast<double>(inputs[0].shape[inputs[0].shape.rank() - 1].value());
}

Tolerance MatMul::tolerance(std::span<const TensorType> inputs) const {
  const double k = terms(inputs);
  const Expr tail = typed_epilogue(input_dtypes(inputs));
  // The product is rounded to its type before the epilogue reads it.
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  // Inputs are in [-2, 2]: partial sums of k products grow to about 2 sqrt(k), whatever the result is.
  return {.ulps = 2 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

Value matmul(Value a, Value b) { return add_node(std::make_shared<MatMul>(), {a, b}); }

Value matmul_bias_act(Value a, Value b, Value bias, std::string_view activation) {
  std::vector<ExprAttr::Step> steps = {{"add", DType::f32, {Expr::input(0), Expr::input(1)}}};
  if (!activation.empty()) {
    if (!find_scalar(activation))
      fail("matmul_bias_act: '{}' is not an element-wise function", excerpt(activation));
    steps.push_back({std::string(activation), DType::f32, {{ExprArg::Kind::step, 0, 0}}});
  }
  auto op = std::make_shared<MatMul>();
  op->epilogue = ExprAttr(std::move(steps));
  return add_node(op, {a, b, bias});
}

namespace ops {
void register_matmul(OpTable& table) {
  std::vector<std::string> variants = products::variant_names();
  variants.emplace_back(products::kPaneled);
  variants.emplace_back(products::kDot4);
  variants.emplace_back(products::kEighths);
  table.add<MatMul>(
      {.formula = "y[.., m, n] = epilogue(sum_k a[.., m, k] * b[.., k, n])",
       .operands = "a (T i32 u32 i8 u8): [.., m, k], or a vector [k]\n"
                   "b (T i32 u32 i8 u8): [.., k, n], or a vector [k]; batches broadcast\n"
                   "extra... (any): further inputs of the epilogue, which broadcast to the result",
       .attributes =
           "epilogue: a scalar expression of the result $0 and the extra inputs $1, "
           "$2, ..; empty: none\n"
           "splits: how many columns each output has; empty: one output has all\n"
           "panels: how many columns of b lie together, in [n / panels, k, panels]; 0: b is [.., k, n]",
       .outputs = "y (any): [.., m, n], or its first columns; of the type of a, i32 for "
                  "bytes, or of the epilogue\n"
                  "parts... (any): the other columns, if there are splits",
       .types = "f32 f16 bf16",
       .variants = std::move(variants),
       .samples = {
           "matmul(T[3,17], T[17,5])", "matmul(T[64,32], T[32,64])", "matmul(T[1,64], T[64,256])",
           "matmul(T[2,3,4,5], T[5,6])", "matmul(T[2,1,4,5], T[3,5,6])", "matmul(T[5], T[5])",
           "matmul(T[5], T[2,5,3])", "matmul(T[2,3,5], T[5])", "matmul(T[3,0], T[0,4])",
           "matmul(T[0,3], T[3,4])", "matmul(T[257,3], T[3,65])", "matmul(T[130,257], T[257,68])",
           "matmul(T[1,1], T[1,1])",
           "matmul(T[8,16], T[16,12], T[12]) {epilogue=\"t0=add($0,$1); gelu(t0)\"}",
           "matmul(T[2,7,16], T[16,12], T[12], T[2,7,12]) {epilogue=\"t0=add($0,$1); t1=mul(t0,0.5); "
           "add(t1,$2)\"}",
           "matmul(T[3,700], T[700,129], T[1]) {epilogue=\"add($0,$1)\"}", "matmul(T[3,1500], T[1500,131])",
           // Results whose type is not the product's.
           "matmul(T[3,17], T[17,5], T[5]) {epilogue=\"less($0,$1)\"}",
           "matmul(i32[3,17] in -2000000..2000000, i32[17,5] in -2000000..2000000) "
           "{epilogue=\"t0=cast_f32($0); mul(t0,0.5)\"}",
           "matmul(T[2,5,20], T[20,27], T[27]) {epilogue=\"add($0,$1)\", splits=[8,16,3]}",
           "matmul(T[6,8], T[8,12]) {splits=[4,8]}",
           // Columns in panels.
           "matmul(T[33,70], T[5,70,32], T[160]) {epilogue=\"add($0,$1)\", panels=32}",
           "matmul(T[2,3,5], T[4,5,8], T[3,32]) {epilogue=\"add($0,$1)\", panels=8, splits=[8,0,24]}",
           "matmul(T[300], T[2,300,32]) {panels=32}", "matmul(T[3,7], T[3,7,3]) {panels=3}",
           // Fours of columns that would reach into the next part, of which some are fours.
           "matmul(T[5,8], T[8,8]) {splits=[4,3,1]}", "matmul(T[3,8], T[8,7]) {splits=[0,7]}",
           "matmul(T[300,70], T[70,200]) {splits=[100,0,36,64]}",
           // Bytes, exact in i32.
           "matmul(i8[5,36] in -128..127, i8[36,20] in -128..127)",
           "matmul(u8[3,17] in 0..255, i8[17,9] in -128..127)",
           "matmul(i8[5,36] in -128..127, i8[36] in -128..127)",
           "matmul(u8[3,2,40] in 0..255, u8[40] in 0..255)",
           "matmul(i8[1,4] in -128..127, i8[4] in -128..127)",
           "matmul(i8[2,7,300] in -128..127, u8[300,64] in 0..255, f32[64]) "
           "{epilogue=\"t0=cast_f32($0); mul(t0,$1)\"}",
           // Too large for all bindings of 64 KiB: many batches, also with an epilogue that keeps them apart.
           "matmul(T[40,33,31], T[40,31,35])",
           "matmul(T[130,7,64], T[64,90], T[7,90]) {epilogue=\"t0=add($0,$1); relu(t0)\"}"}});
}
}  // namespace ops

}  // namespace rlx
