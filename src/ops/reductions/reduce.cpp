#include "ops/reductions/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/reduce.wgsl.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/ops/reductions.h"

namespace rlx {

std::string_view reduce_name(ReduceKind kind) {
  static constexpr std::string_view names[] = {"sum", "mean", "max", "min", "prod"};
  return names[static_cast<size_t>(kind)];
}

std::string_view Reduce::name() const { return reduce_name(kind); }

std::vector<int64_t> reduced_axes(const std::vector<int64_t>& axes, int64_t rank) {
  if (axes.empty()) return axes_from(0, rank);
  std::vector<int64_t> out;
  for (int64_t a : axes) out.push_back(normal_axis(a, rank));
  std::ranges::sort(out);
  return out;
}

Shape reduced_shape(const InferArgs& in, const std::vector<int64_t>& axes, bool keepdims) {
  const Shape& x = in.shape(0);
  for (int64_t a : axes) in.axis(a, x.rank());
  const std::vector<int64_t> inner = reduced_axes(axes, x.rank());
  for (size_t i = 1; i < inner.size(); ++i) {
    if (inner[i] == inner[i - 1]) fail("{}: axis {} is named twice", in.op(), inner[i]);
  }
  Shape y;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!std::ranges::contains(inner, axis)) {
      y.push_back(x[axis]);
    } else if (keepdims) {
      y.push_back(1);
    }
  }
  return y;
}

std::vector<TensorType> Reduce::infer(const InferArgs& in) const {
  if (in.count() == 2 && (kind == ReduceKind::max || kind == ReduceKind::min)) {
    fail("{0}: takes 1 input, not 2; the element-wise op is {0}imum", name());
  }
  in.expect_count(1);
  const DType t = in.dtype(0);
  if (kind == ReduceKind::mean) {
    in.expect_float(0);
  } else {
    in.expect_dtype(0, is_float(t) || is_integer(t), "a float or integer type");
  }
  return {TensorType{t, reduced_shape(in, axes, keepdims)}};
}

namespace {

// What a reduction starts from.
struct Identity {
  double real;
  int64_t integer;
};

Identity identity(ReduceKind kind, DType t) {
  const bool largest = kind == ReduceKind::min;
  if (kind == ReduceKind::prod) return {1, 1};
  if (kind == ReduceKind::sum || kind == ReduceKind::mean) return {0, 0};
  const IntegerRange range = integer_range(t);
  return {largest ? HUGE_VAL : -HUGE_VAL, largest ? range.high : range.low};
}

template <class T>
T merged(ReduceKind kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
  } else if (kind == ReduceKind::sum || kind == ReduceKind::prod) {
    const auto x = static_cast<uint64_t>(a);  // overflow wraps
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(kind == ReduceKind::sum ? x + y : x * y);
  }
  switch (kind) {
    case ReduceKind::max:
      return std::max(a, b);
    case ReduceKind::min:
      return std::min(a, b);
    case ReduceKind::prod:
      return a * b;
    default:
      return a + b;
  }
}

}  // namespace

void Reduce::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  RefTensor& y = r.out();
  Operand source;
  source.view = View::contiguous(x.dims);
  const Operand rows = as_rows(source, reduced(source.view.rank()));
  const int64_t length = row_length(rows);
  const Identity start = identity(kind, x.dtype);
  const auto run = [&](const auto& values, auto& out, auto first) {
    const auto gathered = gather_view(values, rows.view);
    for (size_t row = 0; row < out.size(); ++row) {
      auto all = first;
      for (size_t j = 0; j < static_cast<size_t>(length); ++j) {
        all = merged(kind, all, gathered[row * static_cast<size_t>(length) + j]);
      }
      out[row] = all;
    }
  };
  if (is_float(x.dtype)) {
    run(x.real, y.real, start.real);
    for (double& v : y.real) {
      if (kind == ReduceKind::mean) v = length == 0 ? NAN : v / static_cast<double>(length);
    }
  } else {
    run(x.ints, y.ints, start.integer);
    for (int64_t& v : y.ints) v = wrapped(v, x.dtype);
  }
}

// Partial sums of n numbers of size m grow like m * sqrt(n), and each is rounded: sqrt(n) such errors add up.
// A mean is that divided by n; a product has a rounding for each factor; a maximum has none.
Tolerance Reduce::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[0].shape;
  double n = 1;
  for (int64_t axis : reduced(x.rank())) n *= static_cast<double>(x[axis].value());
  constexpr double magnitude = 2;  // of the sweep's inputs
  switch (kind) {
    case ReduceKind::sum:
      return {.ulps = 1, .terms = n, .scale = magnitude * std::sqrt(n)};
    case ReduceKind::mean:
      return {.ulps = 4, .terms = n, .scale = magnitude / std::sqrt(std::max(n, 1.0))};
    case ReduceKind::prod:
      return {.ulps = 1, .terms = n};
    default:
      return {.ulps = 0};
  }
}

namespace {

uint32_t identity_bits(ReduceKind kind, DType t) {
  const Identity start = identity(kind, t);
  if (is_float(t)) return std::bit_cast<uint32_t>(static_cast<float>(start.real));
  return static_cast<uint32_t>(start.integer);
}

// What is reduced: rows of x, or of an expression of several operands that all have its axes.
struct Source {
  OperandList rows;
  const Expr* expr = nullptr;

  // One that tells how the rows lie: not one that is the same along them, if there is another.
  const Operand& widest() const {
    const auto spread = [](const Operand& o) {
      return std::ranges::count_if(o.view.strides, [](int64_t s) { return s != 0; });
    };
    return *std::ranges::max_element(rows, {}, spread);
  }
};

// How a kernel reads four neighbours of a row: as a vector, as one number for all of them, or one by one.
enum class Lanes { vector, splat, single };
Lanes lanes_of(const Operand& rows) {
  if (std::ranges::all_of(rows.view.slice_axes(rows.outer_rank, rows.view.rank()).coalesced().strides,
                          [](int64_t s) { return s == 0; }))
    return Lanes::splat;
  return rows_by_four(rows) ? Lanes::vector : Lanes::single;
}

// The kernel `reduce` with the expression in place of x, and the numbers in it, which follow its parameters.
struct MappedKernel {
  KernelPtr kernel;
  std::vector<uint32_t> numbers;
};

// The WGSL of a kernel without the lines that declare its operands and fragments.
std::string without_declarations(std::string_view source) {
  std::string out;
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find('\n', at), source.size() - 1) + 1;
    const std::string_view line = source.substr(at, end - at);
    if (!line.starts_with("//@ ") && !line.starts_with("//# ")) out += line;
    at = end;
  }
  return out;
}

MappedKernel mapped_kernel(const Source& s, bool four) {
  const Kernel& plain = *kernels::reduce::kernel();
  Kernel k = {.name = "mapped_reduce", .source = without_declarations(plain.source)};
  std::vector<std::string> names;
  std::string parameters, ones, vectors;
  std::string parts[4];
  for (size_t i = 0; i < s.rows.size(); ++i) {
    const Lanes lanes = lanes_of(s.rows[i]);
    const char* const comma = i ? ", " : "";
    names.push_back(formatted("v{}", i));
    k.operands.push_back(
        {formatted("a{}", i), OperandDecl::Kind::any, false, four && lanes == Lanes::vector});
    parameters += formatted("{}v{}: a{}_t", comma, i, i);
    ones += formatted("{0}a{1}_get(a{1}_base(row) + a{1}_step(j))", comma, i);
    vectors += lanes == Lanes::vector
                   ? formatted("  let q{0} = a{0}_get4(a{0}_base(row) + j);\n", i)
                   : formatted("  let q{0} = vec4<a{0}_t>(a{0}_get(a{0}_base(row)));\n", i);
    for (size_t c = 0; c < 4; ++c) parts[c] += formatted("{}q{}.{}", comma, i, "xyzw"[c]);
  }
  k.operands.insert(k.operands.end(), plain.operands.begin() + 1, plain.operands.end());
  for (const std::string& lib : plain.libs) {
    if (lib != "row_of_x" && lib != "four") k.libs.push_back(lib);
  }
  const ExprCode code = generate(*s.expr, names);
  std::string members;
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  const size_t end = k.source.find("}\n", k.source.find("struct Params {"));
  k.source.insert(end, members);
  // A node's result is a number of its type before anything is added up, and compilers see no further.
  const DType type = s.expr->result_type();
  const std::string result =
      type == DType::f32 ? formatted("as_is({})", code.result) : rounded(code.result, type);
  k.source += formatted(R"(
alias x_t = f32;
fn mapped({}) -> f32 {{
{}  return {};
}}
fn row_start(row: u32) -> u32 {{ return row; }}
fn one(row: u32, j: u32) -> f32 {{ return mapped({}); }}
)",
                        parameters, code.statements, result, ones);
  k.source += four ? formatted(
                         "fn four(row: u32, j: u32) -> vec4f {{\n{}  return vec4f(mapped({}), mapped({}), "
                         "mapped({}), mapped({}));\n}}\n",
                         vectors, parts[0], parts[1], parts[2], parts[3])
                   : "fn four(row: u32, j: u32) -> vec4f {\n  return vec4f(one(row, j), one(row, j + 1u), "
                     "one(row, j + 2u), one(row, j + 3u));\n}\n";
  return {make_kernel(k), code.words};
}

class ReduceLowering {
 public:
  // `count` is what a mean divides by. Partial results have the accumulator's type, but start from the
  // identity of `type`.
  ReduceLowering(Lowering& l, ReduceKind kind, DType type, int64_t count)
      : l_(l), kind_(kind), type_(type), count_(count) {}

  // y[row] = the reduction of the row of x; `last` when y is the result, else a part of it.
  // False, and nothing emitted, if the device cannot bind the operands of an expression.
  bool run(const Source& x, const Operand& y, bool last, bool may_split) {
    RowProblem p = row_problem(x.widest(), 1);
    p.run = [&](const Team& team) {
      return l_.rows(task(x, y, team, p.rows, p.length, last), p.rows, team.rows_per_group);
    };
    if (may_split) {
      p.split = [&] { return split(x, y, p, last); };
      if (l_.choose(family(x), kSplittableRows, p).make(l_, p)) return true;
      p.split = nullptr;
    }
    if (emit_rows(l_, family(x), p)) return true;
    if (x.expr) return false;
    in_pieces(x.rows[0], y, last);
    return true;
  }

 private:
  std::string_view family(const Source& x) const { return x.expr ? "mapped_reduce" : reduce_name(kind_); }

  Dispatch task(const Source& x, const Operand& y, const Team& team, int64_t tasks, int64_t chunk,
                bool last) const {
    const auto kernel_kind = [&]() -> uint32_t {
      switch (kind_) {
        case ReduceKind::max:
          return kernels::reduce::MAX;
        case ReduceKind::min:
          return kernels::reduce::MIN;
        case ReduceKind::prod:
          return kernels::reduce::PROD;
        default:
          return kernels::reduce::SUM;
      }
    };
    const bool grows = kind_ == ReduceKind::sum || kind_ == ReduceKind::prod;
    const kernels::reduce::Params params{.rows = to_u32(row_count(x.rows[0])),
                                         .length = to_u32(row_length(x.rows[0])),
                                         .chunk = to_u32(chunk),
                                         .identity = identity_bits(kind_, type_),
                                         .count = static_cast<float>(count_)};
    const kernels::reduce::Spec spec{
        .KIND = kernel_kind(), .FLOAT = is_float(type_), .MEAN = kind_ == ReduceKind::mean && last};
    if (x.expr) return mapped_task(x, y, team, tasks, params, spec);
    return row_dispatch<kernels::reduce>(
        l_, team, tasks, {.x = x.rows[0], .y = y, .overflow = grows ? l_.overflow(type_) : Operand{}}, params,
        spec);
  }

  Dispatch mapped_task(const Source& x, const Operand& y, const Team& team, int64_t tasks,
                       kernels::reduce::Params params, kernels::reduce::Spec spec) const {
    spec.TEAM = to_u32(team.size);
    params.end = to_u32(tasks);
    OperandList operands = x.rows;
    const bool four =
        std::ranges::none_of(operands, [](const Operand& o) { return lanes_of(o) == Lanes::single; });
    for (Operand& o : operands) o.x4 = four && lanes_of(o) == Lanes::vector;
    operands.push_back(y);
    operands.emplace_back();  // no sum of floats overflows
    const MappedKernel made = mapped_kernel(x, four);
    std::vector<uint32_t> words(sizeof(params) / sizeof(uint32_t));
    std::memcpy(words.data(), &params, sizeof(params));
    words.insert(words.end(), made.numbers.begin(), made.numbers.end());
    return for_team(l_.make(made.kernel, std::move(operands), std::as_bytes(std::span(words)),
                            ceil_div(tasks, team.rows_per_group), spec.list()),
                    team);
  }

  // Reduces parts of rows into scratch memory, then the parts of each row. False if the device cannot bind
  // all parts at once.
  bool split(const Source& x, const Operand& y, const RowProblem& p, bool last) {
    const int64_t chunk = split_chunk(l_.caps(), p);
    const int64_t parts = ceil_div(p.length, chunk);
    const Operand partial = l_.scratch(accumulator(type_), {parts, p.rows});
    RowProblem first = p;
    first.rows = p.rows * parts;
    first.length = chunk;
    first.split = nullptr;
    first.run = [&](const Team& team) {
      Dispatch d = task(x, partial.with_view(partial.view, 2), team, first.rows, chunk, false);
      d.variant = {.row = kSplitRows.name};  // whichever team it has
      if (!fits(d, l_.caps())) return false;
      l_.emit(std::move(d));
      return true;
    };
    if (!l_.choose(family(x), kRowVariants, first).make(l_, first)) return false;
    return run({{as_rows(partial, {0})}}, y, last, false);
  }

  // Rows too long to be bound: cut the axis that reaches farthest, reduce each piece, then the pieces.
  void in_pieces(const Operand& x, const Operand& y, bool last) {
    int64_t axis = -1;
    int64_t reach = 0;
    for (int64_t a = x.outer_rank; a < x.view.rank(); ++a) {
      const auto i = static_cast<size_t>(a);
      const int64_t r = (x.view.dims[i] - 1) * std::abs(x.view.strides[i]);
      if (r > reach) {
        reach = r;
        axis = a;
      }
    }
    if (axis < 0) fail_to_bind(l_.caps());
    constexpr int64_t kPieces = 8;
    const int64_t dim = x.view.dims[static_cast<size_t>(axis)];
    const int64_t length = ceil_div(dim, kPieces);
    const int64_t pieces = ceil_div(dim, length);
    const Operand partial = l_.scratch(accumulator(type_), {row_count(x), pieces});
    for (int64_t k = 0; k < pieces; ++k) {
      const int64_t begin = k * length;
      const Operand piece =
          x.with_view(x.view.slice(axis, begin, std::min(length, dim - begin)), x.outer_rank);
      run({{piece}}, partial.with_view(partial.view.slice(1, k, 1), 2), false, false);
    }
    run({{partial.with_view(partial.view, 1)}}, y, last, false);
  }

  Lowering& l_;
  ReduceKind kind_;
  DType type_;
  int64_t count_;
};

}  // namespace

void lower_reduce(Lowering& l, ReduceKind kind, const Operand& x, const std::vector<int64_t>& inner,
                  const Operand& y) {
  if (y.view.elements() == 0) return;
  const Operand rows = as_rows(x, inner);
  ReduceLowering(l, kind, x.dtype, row_length(rows))
      .run({{rows}}, y.with_view(y.view, y.view.rank()), true, true);
}

void lower_mapped_reduce(Lowering& l, ReduceKind kind, const Expr& expr, const OperandList& inputs,
                         const Dims& dims, const std::vector<int64_t>& inner, const Operand& y) {
  if (y.view.elements() == 0) return;
  Source source{.rows = {}, .expr = &expr};
  for (const Operand& o : inputs)
    source.rows.push_back(as_rows(o.with_view(o.view.broadcast_to(dims)), inner));
  ReduceLowering lowering(l, kind, expr.result_type(), row_length(source.rows[0]));
  if (lowering.run(source, y.with_view(y.view, y.view.rank()), true, true)) return;
  const Operand mapped = l.scratch(expr.result_type(), dims);
  lower_expr(l, expr, inputs, mapped);
  lower_reduce(l, kind, mapped, inner, y);
}

void Reduce::lower(Lowering& l) const {
  lower_reduce(l, kind, l.in(0), reduced(l.in(0).view.rank()), l.out());
}

namespace {
Value reduce(ReduceKind kind, Value x, std::vector<int64_t> axes, bool keepdims) {
  auto op = std::make_shared<Reduce>(kind);
  op->axes = std::move(axes);
  op->keepdims = keepdims;
  return add_node(op, {x});
}
}  // namespace

Value sum(Value x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(ReduceKind::sum, x, std::move(axes), keepdims);
}
Value mean(Value x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(ReduceKind::mean, x, std::move(axes), keepdims);
}
Value max(Value x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(ReduceKind::max, x, std::move(axes), keepdims);
}
Value min(Value x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(ReduceKind::min, x, std::move(axes), keepdims);
}
Value prod(Value x, std::vector<int64_t> axes, bool keepdims) {
  return reduce(ReduceKind::prod, x, std::move(axes), keepdims);
}

namespace ops {

void register_reduce(OpTable& table) {
  struct Row {
    ReduceKind kind;
    std::string_view formula;
  };
  static constexpr Row rows[] = {
      {ReduceKind::sum, "sum of x over axes; integers wrap; 0 if there are no elements"},
      {ReduceKind::mean, "mean of x over axes; NaN if there are no elements"},
      {ReduceKind::max,
       "largest of x over axes, NaN if there is one; the type's lowest if there are no elements"},
      {ReduceKind::min,
       "smallest of x over axes, NaN if there is one; the type's largest if there are no elements"},
      {ReduceKind::prod, "product of x over axes; integers wrap; 1 if there are no elements"},
  };
  for (const Row& row : rows) {
    OpInfo info;
    info.name = reduce_name(row.kind);
    info.formula = row.formula;
    info.operands = "x: what is reduced";
    info.attributes =
        "axes: which axes are reduced; all if empty\n"
        "keepdims: reduced axes stay, with length 1";
    info.outputs = "y: of the shape of x without the reduced axes";
    info.types = row.kind == ReduceKind::mean ? "f32 f16 bf16" : "f32 f16 bf16 i32 u32 i64 i8 u8";
    info.variants = names_of(kSplittableRows);
    const std::string op = info.name;
    // Long products of random numbers leave the range of every type.
    const std::string tame = row.kind == ReduceKind::prod ? " in 0.9..1.1" : "";
    info.samples = {op + "(T[3,17] in -2..2) {axes=[1]}",
                    op + "(T[3,17] in -2..2) {axes=[-2], keepdims=true}",
                    op + "(T[2,3,4,5]" + tame + ") {axes=[2,0]}",
                    op + "(T[2,3,4,5]" + tame + ") {axes=[-1,1], keepdims=true}",
                    op + "(T[257]" + tame + ")",
                    op + "(T[8,256]" + tame + ") {axes=[1]}",
                    op + "(T[0,3]) {axes=[0]}",
                    op + "(T[3,0]) {axes=[0]}",
                    op + "(T[65537]" + tame + ")",
                    op + "(T[1031,257]" + tame + ") {axes=[0]}",
                    op + "(T[257,1031]" + tame + ") {axes=[1]}",
                    op + "(T[] in -2..2)",
                    op + "(T[5,1,3] in -2..2) {axes=[1]}"};
    info.make = [kind = row.kind] { return std::make_shared<Reduce>(kind); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
