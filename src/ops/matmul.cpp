#include "ops/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/matmul_plain.wgsl.h"
#include "kernels/matmul_rows.wgsl.h"
#include "kernels/matmul_tiled.wgsl.h"
#include "kernels/rates.h"
#include "ops/copy.h"
#include "ops/elementwise.h"
#include "ops/epilogue.h"
#include "ops/op_table.h"
#include "rlx/ops.h"

namespace rlx {

Expr MatMul::expr(DType product, std::span<const DType> extra) const {
  std::vector<DType> types = {product};
  types.insert(types.end(), extra.begin(), extra.end());
  return epilogue.typed(std::move(types));
}

std::vector<TensorType> MatMul::infer(const InferArgs& in) const {
  if (in.count() < 2) fail("matmul: takes 2 inputs and those of its epilogue, not {}", in.count());
  in.expect_same_dtype(0, 1);
  in.expect_dtype(0, is_float(in.dtype(0)) || in.dtype(0) == DType::i32 || in.dtype(0) == DType::u32,
                  "a float type, i32 or u32");
  Shape a = in.shape(0);
  Shape b = in.shape(1);
  if (a.rank() == 0 || b.rank() == 0) fail("matmul: input {} is a scalar; use mul", a.rank() == 0 ? 0 : 1);
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
  std::vector<DType> extra;
  for (int64_t i = 2; i < in.count(); ++i) {
    extra.push_back(in.dtype(i));
    if (!(broadcast(out, in.shape(i), "matmul") == out)) {
      fail("matmul: the epilogue's input {} has the shape {}, which does not broadcast to the product {}", i,
           in.shape(i).text(), out.text());
    }
  }
  if (in.count() > 2 && epilogue.empty())
    fail("matmul: takes 2 inputs when it has no epilogue, not {}", in.count());
  return {TensorType{expr(in.dtype(0), extra).result_type(), out}};
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

struct Sizes {
  int64_t batch, m, n, k;
};

// The output as [batch..., m, n], with whichever of m and n it has.
std::vector<int64_t> matrix_dims(const std::vector<int64_t>& out, bool a_vector, bool b_vector, int64_t m,
                                 int64_t n) {
  std::vector<int64_t> dims(out.begin(), out.end() - (a_vector ? 0 : 1) - (b_vector ? 0 : 1));
  dims.push_back(m);
  dims.push_back(n);
  return dims;
}

struct Problem {
  Sizes size;
  Operand a, b, y;             // [batch..., rows, cols]
  std::vector<Operand> extra;  // broadcast to y
  Expr expr;

  int64_t stride(const Operand& o, int64_t from_end) const {
    return o.view.strides[static_cast<size_t>(o.view.rank() - from_end)];
  }
  // Whether each row is a contiguous run of four, eight, ... elements that starts at a multiple of four.
  static bool quads(const Operand& o, int64_t length) {
    const View& v = o.view;
    if (v.strides.back() != 1 || length % 4 != 0 || v.offset % 4 != 0) return false;
    return std::all_of(v.strides.begin(), v.strides.end() - 1, [](int64_t s) { return s % 4 == 0; });
  }
  bool b_by_rows() const { return stride(b, 1) == 1; }  // a row of b is contiguous

  std::string key() const {
    return formatted("{} batch{} m{} n{} k{}{}{}", to_string(a.dtype), size_class(size.batch),
                     size_class(size.m), size.n, size.k, b_by_rows() ? " b-by-rows" : " b-by-columns",
                     expr.steps.empty() ? "" : " epilogue");
  }
};

// Rows [begin, begin + length) of the product.
Problem slice_rows(const Problem& p, int64_t begin, int64_t length) {
  Problem part = p;
  const int64_t axis = p.y.view.rank() - 2;
  part.size.m = length;
  part.a.view = p.a.view.slice(axis, begin, length);
  part.y.view = p.y.view.slice(axis, begin, length);
  for (Operand& e : part.extra) e.view = e.view.slice(axis, begin, length);
  return part;
}

// The parameters that all kernels get, for tiles of y of `tile_m` by `tile_n`.
template <class Params>
Params make_params(const Problem& p, int64_t tile_m, int64_t tile_n) {
  const auto stride = [&](const Operand& o, int64_t from_end) {
    return static_cast<uint32_t>(to_i32(p.stride(o, from_end)));
  };
  return {.m = to_u32(p.size.m),
          .n = to_u32(p.size.n),
          .k = to_u32(p.size.k),
          .a_row = stride(p.a, 2),
          .a_col = stride(p.a, 1),
          .b_row = stride(p.b, 2),
          .b_col = stride(p.b, 1),
          .y_row = stride(p.y, 2),
          .count = to_u32(p.size.batch * p.size.m * p.size.n),
          .m_tiles = to_u32(ceil_div(p.size.m, tile_m)),
          .n_tiles = to_u32(ceil_div(p.size.n, tile_n))};
}

template <class K>
Dispatch make_dispatch(const Lowering& l, const Problem& p, const typename K::Params& params, int64_t groups,
                       const typename K::Spec& spec) {
  const WithEpilogue tail = with_epilogue(K::kernel(), p.expr);
  std::vector<Operand> operands = {p.a, p.b, p.y};
  for (Operand& o : operands) o.outer_rank = o.view.rank() - 2;
  operands.insert(operands.end(), p.extra.begin(), p.extra.end());
  std::vector<uint32_t> words(sizeof(params) / 4);
  std::memcpy(words.data(), &params, sizeof params);
  words.insert(words.end(), tail.words.begin(), tail.words.end());
  return l.make(tail.kernel, std::move(operands), std::as_bytes(std::span(words)), groups, spec.list());
}

int64_t tile_count(const Problem& p, const auto& params) {
  return p.size.batch * int64_t{params.m_tiles} * int64_t{params.n_tiles};
}

// --- the kernels ---

bool is_float_product(const Target&, const Problem& p) { return is_float(p.a.dtype); }

// At `share` of the device's speed, but no faster than a and b can be read and y written.
double product_ns(const Rates& r, const Problem& p, Share share) {
  const auto batch = static_cast<double>(p.size.batch);
  const auto m = static_cast<double>(p.size.m);
  const auto n = static_cast<double>(p.size.n);
  const auto k = static_cast<double>(p.size.k);
  const double bytes = static_cast<double>(device_bytes(p.a.dtype)) * (batch * m * k + k * n + batch * m * n);
  return r.dispatch_ns + std::max(compute_ns(r, 2 * batch * m * n * k, share), bytes / r.bytes_per_ns);
}

std::vector<Candidate> rows_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const double gpu = p.size.m <= 8 && p.b_by_rows() ? 1 : 0.25;
  const double ns = product_ns(r, p, {.cpu = p.b_by_rows() ? 1 : 0.25, .gpu = gpu});
  // As many rows as possible share a load of b, but none should go to waste.
  const auto wanted =
      static_cast<double>(std::bit_floor(static_cast<uint64_t>(std::min<int64_t>(p.size.m, 16))));
  std::vector<Candidate> out;
  for (const uint32_t rows : {1u, 2u, 4u, 8u, 16u}) {
    if (rows / 2 >= p.size.m) break;
    for (const uint32_t lanes : {8u, 32u, 64u, 128u}) {
      out.push_back(
          {ns * misfit(rows, wanted) * misfit(lanes, r.group_lanes), {{"ROWS", rows}, {"LANES", lanes}}});
    }
  }
  return out;
}

Dispatch make_rows(Lowering& l, const Problem& p, const Candidate& c) {
  kernels::matmul_rows::Spec spec;
  spec.ROWS = c.at("ROWS");
  spec.LANES = c.at("LANES");
  spec.A4 = Problem::quads(p.a, p.size.k);
  Operand a_transposed = p.a;
  std::swap(a_transposed.view.strides.end()[-1], a_transposed.view.strides.end()[-2]);
  spec.A4_ROWS = !spec.A4 && spec.ROWS >= 4 && Problem::quads(a_transposed, p.size.m);
  spec.B4 = Problem::quads(p.b, p.size.n);
  spec.Y4 = Problem::quads(p.y, p.size.n);
  const auto params = make_params<kernels::matmul_rows::Params>(p, spec.ROWS, 4 * spec.LANES);
  return make_dispatch<kernels::matmul_rows>(l, p, params, tile_count(p, params), spec);
}

bool tiled_applies(const Target& target, const Problem& p) {
  return is_float(p.a.dtype) && target.caps.max_invocations_per_workgroup >= kernels::matmul_tiled::GROUP;
}

std::vector<Candidate> tiled_candidates(const Target& target, const Problem& p) {
  const double gpu = p.size.m <= 8 ? 0.2 : 0.75;
  return one_candidate(product_ns(rates_of(target.caps), p, {.cpu = 4.0 / 24, .gpu = gpu}));
}

Dispatch make_tiled(Lowering& l, const Problem& p, const Candidate&) {
  const auto params =
      make_params<kernels::matmul_tiled::Params>(p, kernels::matmul_tiled::TILE, kernels::matmul_tiled::TILE);
  return make_dispatch<kernels::matmul_tiled>(l, p, params, tile_count(p, params),
                                              {.A_BY_K = p.stride(p.a, 1) == 1, .B_BY_K = !p.b_by_rows()});
}

std::vector<Candidate> plain_candidates(const Target& target, const Problem& p) {
  return one_candidate(product_ns(rates_of(target.caps), p, {.cpu = 1.0 / 24, .gpu = 0.125}));
}

Dispatch make_plain(Lowering& l, const Problem& p, const Candidate&) {
  const auto params = make_params<kernels::matmul_plain::Params>(p, 1, 1);
  return make_dispatch<kernels::matmul_plain>(
      l, p, params, ceil_div(int64_t{params.count}, int64_t{kernels::matmul_plain::GROUP}), {});
}

using Row = Variant<Problem, Dispatch>;
constexpr Row kVariants[] = {
    {"rows", is_float_product, rows_candidates, make_rows},
    {"tiled", tiled_applies, tiled_candidates, make_tiled},
    {"plain", always, plain_candidates, make_plain},
};

// A part of the product has its own sizes, for which other constants may be best.
Dispatch make_part(Lowering& l, const Row& row, const Problem& part) {
  return l.choose(MatMul::kName, row, part).make(l, part);
}

// --- cutting into parts ---

// Batches that b does not have, and along which a and y are evenly spaced, are just more rows.
void fold_batches(Problem& p) {
  const int64_t batch_axes = p.y.view.rank() - 2;
  const View b_batch = p.b.view.slice_axes(0, batch_axes);
  const bool shared = std::ranges::all_of(b_batch.strides, [](int64_t s) { return s == 0; });
  if (p.size.batch <= 1 || !shared) return;
  const std::vector<int64_t> rows_dims = {p.size.batch * p.size.m};
  const auto fold = [&](const View& v) -> std::optional<View> {
    auto flat = v.slice_axes(0, v.rank() - 1).reshape(rows_dims);
    if (!flat) return std::nullopt;
    flat->dims.push_back(v.dims.back());
    flat->strides.push_back(v.strides.back());
    return flat;
  };
  const auto a = fold(p.a.view);
  const auto y = fold(p.y.view);
  std::vector<View> extra;
  for (const Operand& e : p.extra) {
    if (auto v = fold(e.view)) extra.push_back(*v);
  }
  if (!a || !y || extra.size() != p.extra.size()) return;
  p.a.view = *a;
  p.y.view = *y;
  for (size_t i = 0; i < extra.size(); ++i) p.extra[i].view = extra[i];
  p.b.view = p.b.view.slice_axes(batch_axes, p.b.view.rank());
  p.size.m *= p.size.batch;
  p.size.batch = 1;
}

Problem slice_depth(const Problem& p, int64_t begin, int64_t length, const Operand& sum) {
  Problem part = p;
  part.size.k = length;
  part.a.view = p.a.view.slice(p.a.view.rank() - 1, begin, length);
  part.b.view = p.b.view.slice(p.b.view.rank() - 2, begin, length);
  part.y = sum;
  part.extra.clear();
  part.expr = Expr{};
  return part;
}

// The most rows for which every part of the product can be bound: all, a tile, 8 or 1; 0 if not
// even single rows can.
int64_t row_grain(Lowering& l, const Row& row, const Problem& p) {
  const auto bound = [&](int64_t begin, int64_t length) {
    return fits(make_part(l, row, slice_rows(p, begin, std::min(length, p.size.m - begin))), l.caps());
  };
  if (bound(0, p.size.m)) return p.size.m;
  for (const int64_t grain : {int64_t{kernels::matmul_tiled::TILE}, int64_t{8}, int64_t{1}}) {
    // Not all parts are alike: some reach into one more binding.
    bool all = true;
    for (int64_t begin = 0; all && begin < p.size.m; begin += grain) all = bound(begin, grain);
    if (all) return grain;
  }
  return 0;
}

void emit_rows(Lowering& l, const Row& row, const Problem& p, int64_t grain) {
  l.split(p.size.m, grain,
          [&](int64_t begin, int64_t length) { return make_part(l, row, slice_rows(p, begin, length)); });
}

// A slice of such a b along k is spread over all of its memory; if b were row-major, it would be contiguous.
bool b_by_columns(const Problem& p) { return p.stride(p.b, 2) < p.stride(p.b, 1); }

// Whether single rows can be bound if k is cut into slices, down to a length of 1.
bool slices_fit(Lowering& l, const Row& row, Problem p) {
  if (p.size.k == 0) return false;
  if (b_by_columns(p)) p.b.view = View::contiguous(p.b.view.dims);
  return row_grain(l, row, slice_depth(p, 0, 1, p.y)) > 0;
}

// b is larger than all bindings together: partial products over slices of k are added up. y has the type of
// the sum.
void lower_in_slices(Lowering& l, const Row& row, Problem p) {
  if (b_by_columns(p)) p.b = lower_contiguous(l, p.b);
  const DType type = p.y.dtype;
  Operand sum;
  int64_t depth = p.size.k;
  for (int64_t k = 0; k < p.size.k; k += depth) {
    const auto slice = [&](const Operand& to) {
      return slice_depth(p, k, std::min(depth, p.size.k - k), to);
    };
    while (depth > 1 && row_grain(l, row, slice(p.y)) == 0) depth = ceil_div(depth, 2);
    const bool last = k + depth >= p.size.k;
    const Operand part = k == 0 && last ? p.y : l.scratch(type, p.y.view.dims);
    const int64_t grain = std::max<int64_t>(row_grain(l, row, slice(part)), 1);
    emit_rows(l, row, slice(part), grain);
    if (k == 0) {
      sum = part;
      continue;
    }
    const Operand next = last ? p.y : l.scratch(type, p.y.view.dims);
    lower_expr(l, Expr::parse("add($0,$1)", {type, type}), {sum, part}, next);
    sum = next;
  }
}

void lower_problem(Lowering& l, const Problem& p);

// The product in its own memory, then the epilogue over it: each can be cut separately. An epilogue starts
// from the product as it would be stored; without one it is still of the type in which it is summed.
void lower_apart(Lowering& l, const Problem& p, DType type) {
  Problem bare = p;
  bare.y = l.scratch(p.expr.steps.empty() ? type : p.expr.inputs.at(0), p.y.view.dims);
  bare.extra.clear();
  bare.expr = Expr{};
  std::vector<Operand> inputs = {bare.y};
  fold_batches(bare);
  lower_problem(l, bare);
  inputs.insert(inputs.end(), p.extra.begin(), p.extra.end());
  Expr tail = p.expr;
  if (tail.steps.empty()) {
    tail.inputs = {type};
    tail.cast(Expr::input(0), p.y.dtype);
  }
  lower_expr(l, tail, inputs, p.y);
}

// Halves batches first, then rows, then columns: parts remain contiguous in y.
void lower_halves(Lowering& l, const Problem& p) {
  const std::vector<int64_t>& dims = p.y.view.dims;
  const auto axis = std::ranges::find_if(dims, [](int64_t n) { return n > 1; }) - dims.begin();
  const int64_t from_end = std::ssize(dims) - axis;
  const int64_t length = dims[static_cast<size_t>(axis)];
  const auto part = [&](int64_t begin, int64_t end) {
    Problem half = p;
    (from_end == 1   ? half.size.n
     : from_end == 2 ? half.size.m
                     : half.size.batch) = (from_end > 2 ? p.size.batch / length : 1) * (end - begin);
    half.y.view = p.y.view.slice(axis, begin, end - begin);
    if (from_end != 1) half.a.view = p.a.view.slice(axis, begin, end - begin);
    if (from_end != 2) half.b.view = p.b.view.slice(axis, begin, end - begin);
    return half;
  };
  lower_problem(l, part(0, length / 2));
  lower_problem(l, part(length / 2, length));
}

void lower_problem(Lowering& l, const Problem& p) {
  const Row& row = *l.choose(MatMul::kName, kVariants, p).row;
  const DType type = is_float(p.a.dtype) ? DType::f32 : p.a.dtype;
  // Kernels sum in the type of y: if the epilogue compares or converts, the sum is computed separately.
  const bool one_type = wgsl_type(p.y.dtype) == wgsl_type(type);
  const int64_t grain = one_type ? row_grain(l, row, p) : 0;
  if (grain > 0) {
    emit_rows(l, row, p, grain);
  } else if (!p.expr.steps.empty() || p.y.dtype != type) {
    lower_apart(l, p, type);
  } else if (p.size.batch > 1 || (p.y.view.elements() > 1 && !slices_fit(l, row, p))) {
    lower_halves(l, p);
  } else {
    lower_in_slices(l, row, p);
  }
}

}  // namespace

void MatMul::lower(Lowering& l) const {
  const std::vector<int64_t>& out = l.out().view.dims;
  if (product(out) == 0) return;
  const bool a_vector = l.in(0).view.rank() == 1;
  const bool b_vector = l.in(1).view.rank() == 1;
  Problem p;
  p.size.m = a_vector ? 1 : l.in(0).view.dims[l.in(0).view.dims.size() - 2];
  p.size.k = l.in(0).view.dims.back();
  p.size.n = b_vector ? 1 : l.in(1).view.dims.back();
  const std::vector<int64_t> dims = matrix_dims(out, a_vector, b_vector, p.size.m, p.size.n);
  const std::vector<int64_t> batch(dims.begin(), dims.end() - 2);
  p.size.batch = product(batch);
  p.a = l.in(0).with_view(matrix_view(l.in(0).view, true, batch));
  p.b = l.in(1).with_view(matrix_view(l.in(1).view, false, batch));
  p.y = l.out().with_view(View::contiguous(dims));
  std::vector<DType> extra_types;
  for (int64_t i = 2; i < l.input_count(); ++i) {
    extra_types.push_back(l.in(i).dtype);
    const View full = l.in(i).view.broadcast_to(out);
    const auto as_matrix = full.reshape(dims);  // only axes of length 1 are added
    p.extra.push_back(l.in(i).with_view(*as_matrix));
  }
  p.expr = expr(l.in(0).dtype, extra_types);
  fold_batches(p);

  lower_problem(l, p);
}

void lower_product(Lowering& l, const Operand& a, const Operand& b, const Operand& y) {
  if (y.view.elements() == 0) return;
  const std::vector<int64_t>& dims = y.view.dims;
  Problem p;
  p.size = {product({dims.begin(), dims.end() - 2}), dims[dims.size() - 2], dims.back(), a.view.dims.back()};
  p.a = a;
  p.b = b;
  p.y = y;
  fold_batches(p);
  lower_problem(l, p);
}

void MatMul::reference(RefContext& r) const {
  const RefTensor& a = r.in(0);
  const RefTensor& b = r.in(1);
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
  RefTensor y = RefTensor::zeros(a.dtype, out);
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
            a.dtype == DType::u32 ? static_cast<int64_t>(static_cast<uint32_t>(sum))
                                  : static_cast<int32_t>(sum);
      }
    }
  }
  std::vector<DType> extra_types;
  std::vector<const RefTensor*> inputs = {&y};
  for (int64_t i = 2; i < r.input_count(); ++i) {
    extra_types.push_back(r.in(i).dtype);
    inputs.push_back(&r.in(i));
  }
  const Expr tail = expr(a.dtype, extra_types);
  if (tail.steps.empty()) {
    r.out() = std::move(y);
    return;
  }
  const TensorType type{tail.result_type(), Shape(out)};
  RefContext context(inputs, std::span(&type, 1));
  rlx::reference(tail, context);
  r.out() = std::move(context.out());
}

Tolerance MatMul::tolerance(std::span<const TensorType> inputs) const {
  std::vector<DType> extra;
  for (size_t i = 2; i < inputs.size(); ++i) extra.push_back(inputs[i].dtype);
  const auto k = static_cast<double>(inputs[0].shape[inputs[0].shape.rank() - 1].value());
  const Expr tail = expr(inputs[0].dtype, extra);
  // The product is rounded to its type before the epilogue reads it.
  const double rounding = tail.steps.empty() ? 0 : epsilon(inputs[0].dtype) / epsilon(DType::f32);
  // Inputs are in [-2, 2]: partial sums of k products grow to about 2 sqrt(k), whatever the result is.
  return {.ulps = 2 + rounding + tail.ulps(), .terms = k, .scale = 4 * std::sqrt(std::max(k, 1.0))};
}

Value matmul(Value a, Value b) { return a.graph().add_value(std::make_shared<MatMul>(), {a, b}); }

Value matmul_bias_act(Value a, Value b, Value bias, std::string_view activation) {
  std::vector<ExprAttr::Step> steps = {{find_scalar("add"), DType::f32, {Expr::input(0), Expr::input(1)}}};
  if (!activation.empty()) {
    const ScalarFn* fn = find_scalar(activation);
    if (!fn) fail("matmul_bias_act: '{}' is not an element-wise function", excerpt(activation));
    steps.push_back({fn, DType::f32, {{ExprArg::Kind::step, 0, 0}}});
  }
  auto op = std::make_shared<MatMul>();
  op->epilogue = ExprAttr(std::move(steps));
  return a.graph().add_value(op, {a, b, bias});
}

namespace ops {
void register_matmul(OpTable& table) {
  table.add<MatMul>(
      {.formula = "y[.., m, n] = epilogue(sum_k a[.., m, k] * b[.., k, n])",
       .operands = "a b extra...",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
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
           // Too large for all bindings of 64 KiB: many batches, also with an epilogue that keeps them apart.
           "matmul(T[40,33,31], T[40,31,35])",
           "matmul(T[130,7,64], T[64,90], T[7,90]) {epilogue=\"t0=add($0,$1); relu(t0)\"}"}});
}
}  // namespace ops

}  // namespace rlx
