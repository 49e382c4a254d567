#include "ops/reductions/cumulative.h"

#include <bit>
#include <cmath>

#include "base/fail.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/cumulative.wgsl.h"
#include "kernels/rates.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/integer_range.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "rlx/ops/reductions.h"

namespace rlx {
namespace {

constexpr std::string_view kNames[] = {"cumsum", "cumprod", "cummax", "cummin"};

std::string_view scan_name(ScanKind kind) { return kNames[static_cast<size_t>(kind)]; }

template <class T>
T joined(ScanKind kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
  } else if (kind == ScanKind::sum || kind == ScanKind::prod) {
    const auto x = static_cast<uint64_t>(a);  // overflow wraps
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(kind == ScanKind::sum ? x + y : x * y);
  }
  switch (kind) {
    case ScanKind::sum:
      return a + b;
    case ScanKind::prod:
      return a * b;
    case ScanKind::max:
      return std::max(a, b);
    case ScanKind::min:
      return std::min(a, b);
  }
  return a;
}

// What changes nothing: the first element of an exclusive scan.
template <class T>
T identity(ScanKind kind, DType dtype) {
  if (kind == ScanKind::sum) return 0;
  if (kind == ScanKind::prod) return 1;
  if constexpr (std::is_floating_point_v<T>) {
    return kind == ScanKind::max ? -static_cast<T>(HUGE_VAL) : static_cast<T>(HUGE_VAL);
  } else {
    const IntegerRange range = integer_range(dtype);
    return kind == ScanKind::max ? range.low : range.high;
  }
}

uint32_t identity_bits(ScanKind kind, DType dtype) {
  if (is_float(dtype)) return std::bit_cast<uint32_t>(identity<float>(kind, dtype));
  return static_cast<uint32_t>(identity<int64_t>(kind, dtype));
}

}  // namespace

std::string_view Cumulative::name() const { return scan_name(kind); }

std::vector<TensorType> Cumulative::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_dtype(0, is_float(in.dtype(0)) || is_integer(in.dtype(0)), "a float or integer type");
  in.axis(axis, in.shape(0).rank());
  return {in[0]};
}

void Cumulative::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const auto along = static_cast<size_t>(normal_axis(axis, std::ssize(x.dims)));
  const int64_t length = x.dims[along];
  const int64_t stride = row_major_strides(x.dims)[along];
  visit_both(x, r.out(), [&](const auto& from, auto& to) {
    using T = std::ranges::range_value_t<decltype(from)>;
    if constexpr (std::is_arithmetic_v<T>) {
      for (int64_t row = 0; length > 0 && row < x.elements() / length; ++row) {
        const int64_t base = row / stride * stride * length + row % stride;
        T all = identity<T>(kind, x.dtype);
        for (int64_t j = 0; j < length; ++j) {
          const auto at = static_cast<size_t>(base + (reverse ? length - 1 - j : j) * stride);
          const T with = joined(kind, all, from[at]);
          to[at] = exclusive ? all : with;
          all = with;
        }
      }
    }
  });
  if (is_integer(x.dtype)) {
    for (int64_t& v : r.out().ints) v = wrapped(v, x.dtype);
  }
}

// As for reductions: partial sums of n numbers of size m grow like m * sqrt(n), and each is rounded.
Tolerance Cumulative::tolerance(std::span<const TensorType> inputs) const {
  const Shape& x = inputs[0].shape;
  const auto n = static_cast<double>(x[normal_axis(axis, x.rank())].value());
  constexpr double magnitude = 2;  // of the sweep's inputs
  switch (kind) {
    case ScanKind::sum:
      return {.ulps = 1, .terms = n, .scale = magnitude * std::sqrt(n)};
    case ScanKind::prod:
      return {.ulps = 1, .terms = n};
    default:
      return {.ulps = 0};
  }
}

namespace {

// Parts are walked three times, not twice. What the estimates of rows do not know is that a CPU has several
// cores, of which few rows would use only some.
std::vector<Candidate> scan_split_candidates(const Target& target, const RowProblem& p) {
  const double ns = split_candidates(target, p).front().ns;
  return one_candidate(ns * (rates_of(target.caps).cpu && p.rows < 8 ? 0.75 : 1.5));
}

constexpr RowVariant kVariants[] = {
    kSerialRows, kWorkgroupRows, kSubgroupRows, {"split", split_applies, scan_split_candidates, run_split}};

// A scan of rows that continues one of what is before them.
struct Piece {
  Operand x, y;
  Operand base;   // [rows]: what is before, or absent
  Operand total;  // [rows]: what is before the next piece, or absent
  bool exclusive = false;
};

class ScanLowering {
 public:
  // Partial results have the accumulator's type, but start from the identity of `type`.
  ScanLowering(Lowering& l, ScanKind kind, DType type) : l_(l), kind_(kind), type_(type) {}

  void run(const Piece& piece) {
    RowProblem p = row_problem(piece.x, 2);
    p.run = [&](const Team& team) {
      return l_.rows(task(piece, team, p.rows, p.length), p.rows, team.rows_per_group);
    };
    p.split = [&] { return split(piece, p); };
    if (l_.choose(scan_name(kind_), kVariants, p).make(l_, p)) return;
    p.split = nullptr;
    if (!emit_rows(l_, scan_name(kind_), p)) in_pieces(piece);
  }

 private:
  // The task of each part of `chunk` elements of each row; `base` and `total` are theirs.
  Dispatch task(const Piece& piece, const Team& team, int64_t tasks, int64_t chunk) const {
    const bool grows = kind_ == ScanKind::sum || kind_ == ScanKind::prod;
    return row_dispatch<kernels::cumulative>(
        l_, team, tasks,
        {.x = piece.x,
         .base = piece.base,
         .y = piece.y,
         .total = piece.total,
         .overflow = grows ? l_.overflow(type_) : Operand{}},
        {.rows = to_u32(row_count(piece.x)),
         .length = to_u32(row_length(piece.x)),
         .chunk = to_u32(chunk),
         .identity = identity_bits(kind_, type_)},
        {.KIND = static_cast<uint32_t>(kind_), .FLOAT = is_float(type_), .EXCLUSIVE = piece.exclusive});
  }

  // The totals of parts of rows, what comes before each part, then the parts: no workgroup waits for another
  // one. False if the device cannot bind all parts at once.
  bool split(const Piece& piece, const RowProblem& p) {
    const int64_t chunk = split_chunk(l_.caps(), p);
    const int64_t parts = ceil_div(p.length, chunk);
    const Operand totals = l_.scratch(accumulator(type_), {parts, p.rows});
    const Operand before = l_.scratch(accumulator(type_), {parts, p.rows});
    const auto by_task = [](const Operand& o) { return o.with_view(o.view, 2); };
    Piece first{.x = piece.x, .total = by_task(totals)};
    Piece last = piece;
    last.base = by_task(before);
    last.total = {};
    RowProblem some = p;
    some.rows = p.rows * parts;
    some.length = chunk;
    some.split = nullptr;
    const auto make = [&](const Piece& q, const Team& team) {
      Dispatch d = task(q, team, some.rows, chunk);
      d.variant = {.row = kSplitRows.name};  // whichever team it has
      return d;
    };
    const auto emit = [&](const Piece& q) {
      some.run = [&](const Team& team) {
        l_.emit(make(q, team));
        return true;
      };
      l_.choose(scan_name(kind_), kRowVariants, some).make(l_, some);
    };
    constexpr Team kAnyTeam{"team_serial"};
    if (!fits(make(first, kAnyTeam), l_.caps())) return false;
    if (!fits(make(last, kAnyTeam), l_.caps())) return false;
    emit(first);
    run({.x = as_rows(totals, {0}),
         .y = as_rows(before, {0}),
         .base = piece.base,
         .total = piece.total,
         .exclusive = true});
    emit(last);
    return true;
  }

  // Rows too long to be bound: one piece after the other, each of which takes up where the last one ended.
  void in_pieces(const Piece& piece) {
    const int64_t length = row_length(piece.x);
    if (length == 1) fail_to_bind(l_.caps());
    const auto axis = piece.x.outer_rank;
    const int64_t middle = ceil_div(length, 8) * 4;
    const auto cut = [&](const Operand& o, int64_t begin, int64_t count) {
      return o.present() ? o.with_view(o.view.slice(axis, begin, count), o.outer_rank) : o;
    };
    const auto part = [&](int64_t begin, int64_t count) {
      return Piece{.x = cut(piece.x, begin, count),
                   .y = cut(piece.y, begin, count),
                   .base = piece.base,
                   .total = piece.total,
                   .exclusive = piece.exclusive};
    };
    Operand between = l_.scratch(accumulator(type_), {row_count(piece.x)});
    between.outer_rank = 1;
    Piece first = part(0, middle);
    first.total = between;
    run(first);
    Piece second = part(middle, length - middle);
    second.base = between;
    run(second);
  }

  Lowering& l_;
  ScanKind kind_;
  DType type_;
};

}  // namespace

void lower_scan(Lowering& l, const ScanProblem& p) {
  if (p.x.view.elements() == 0) return;
  ScanLowering(l, p.kind, p.x.dtype).run({.x = p.x, .y = p.y, .exclusive = p.exclusive});
}

void Cumulative::lower(Lowering& l) const {
  const int64_t along = normal_axis(axis, l.in(0).view.rank());
  const auto rows = [&](const Operand& o) {
    const int64_t length = o.view.dims[static_cast<size_t>(along)];
    const bool backwards = reverse && length > 0;
    return as_rows(backwards ? o.with_view(o.view.slice(along, length - 1, length, -1)) : o, {along});
  };
  lower_scan(l, {.kind = kind, .x = rows(l.in(0)), .y = rows(l.out()), .exclusive = exclusive});
}

namespace {

Value cumulative(ScanKind kind, Value x, int64_t axis, bool exclusive, bool reverse) {
  auto op = std::make_shared<Cumulative>(kind);
  op->axis = axis;
  op->exclusive = exclusive;
  op->reverse = reverse;
  return add_node(op, {x});
}

}  // namespace

Value cumsum(Value x, int64_t axis, bool exclusive, bool reverse) {
  return cumulative(ScanKind::sum, x, axis, exclusive, reverse);
}
Value cumprod(Value x, int64_t axis, bool exclusive, bool reverse) {
  return cumulative(ScanKind::prod, x, axis, exclusive, reverse);
}
Value cummax(Value x, int64_t axis, bool exclusive, bool reverse) {
  return cumulative(ScanKind::max, x, axis, exclusive, reverse);
}
Value cummin(Value x, int64_t axis, bool exclusive, bool reverse) {
  return cumulative(ScanKind::min, x, axis, exclusive, reverse);
}

namespace ops {

void register_cumulative(OpTable& table) {
  static constexpr std::string_view kWhat[] = {"sum", "product", "maximum", "minimum"};
  for (const ScanKind kind : {ScanKind::sum, ScanKind::prod, ScanKind::max, ScanKind::min}) {
    const std::string name(scan_name(kind));
    OpInfo info;
    info.name = name;
    info.formula = formatted(
        "y[i] = the {} of x[0] to x[i] along the axis; without x[i] if exclusive, from the end if reverse",
        kWhat[static_cast<size_t>(kind)]);
    info.operands = "x (float integer): what is accumulated";
    info.attributes =
        "axis: along which to accumulate\n"
        "exclusive: without the element itself\n"
        "reverse: from the end to the beginning";
    info.outputs = "y (float integer): as x";
    info.types = "f32 f16 bf16 i32 u32 i64 i8 u8";
    info.variants = names_of(kVariants);
    // Products of larger integers leave their range, and long ones of other floats vanish.
    const std::string small = kind == ScanKind::prod ? " in -2..1" : "";
    const std::string range = kind == ScanKind::prod ? " in 0.98..1.02" : "";
    info.samples = {name + "(T[3,17]" + small + ")",
                    name + "(T[2,5,7]) {axis=1, exclusive=true}",
                    name + "(T[257]" + (small.empty() ? "" : " in -1..1") + ") {reverse=true}",
                    name + "(T[1]) {exclusive=true, reverse=true}",
                    name + "(T[0,4])",
                    name + "(T[4,0])",
                    name + "(T[1031,257]" + range + ") {axis=0}",
                    name + "(i32[2,8192] in 0..2000000000)",
                    name + "(T[600001]" + range + ")"};
    info.make = [kind] { return std::make_shared<Cumulative>(kind); };
    table.add(std::move(info));
  }
}

}  // namespace ops
}  // namespace rlx
