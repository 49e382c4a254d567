#include "ops/rearrange/concat.h"

#include <bit>

#include "base/format.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/copy_rows.wgsl.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/rearrange.h"

namespace rlx {

std::vector<TensorType> Concat::infer(const InferArgs& in) const {
  if (in.count() == 0) fail("concat: takes at least 1 input, not 0");
  Shape out = in.shape(0);
  const int64_t a = in.axis(axis, out.rank());
  for (int64_t i = 1; i < in.count(); ++i) {
    in.expect_same_dtype(0, i);
    const Shape& part = in.shape(i);
    Shape like = part;
    if (part.rank() == out.rank()) like[a] = in.shape(0)[a];
    if (!(like == in.shape(0))) {
      fail("concat: input {} is {}, but input 0 is {}; all dims except that of axis {} must be equal", i,
           part.text(), in.shape(0).text(), a);
    }
    out[a] += part[a];
  }
  return {TensorType{in.dtype(0), out}};
}

void Concat::reference(RefContext& r) const {
  RefTensor& out = r.out();
  const auto a = static_cast<size_t>(normal_axis(axis, static_cast<int64_t>(out.dims.size())));
  const int64_t inner = product({out.dims.begin() + static_cast<int64_t>(a) + 1, out.dims.end()});
  const int64_t row = out.dims[a] * inner;
  const int64_t outer = product({out.dims.begin(), out.dims.begin() + static_cast<int64_t>(a)});
  int64_t begin = 0;
  for (int64_t i = 0; i < r.input_count(); ++i) {
    const RefTensor& part = r.in(i);
    const int64_t length = part.dims[a] * inner;
    visit_both(part, out, [&](const auto& from, auto& to) {
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(from.begin() + o * length, length, to.begin() + o * row + begin);
      }
    });
    begin += length;
  }
}

namespace {

// One input, as part of each row of the output; a row is everything from the axis on.
struct Part {
  Operand x;
  int64_t begin;   // in the row
  int64_t length;  // elements in each row
};

struct Problem {
  const std::vector<Part>& parts;  // those that are not empty
  const Operand& y;
  int64_t rows, row;

  std::string key() const {
    return formatted("{} parts {} rows{} row{}", to_string(y.dtype), parts.size(), size_class(rows),
                     size_class(row));
  }
};

// Each element that is visited reads and writes a word.
std::vector<Candidate> candidate(const Caps& caps, int64_t dispatches, int64_t elements) {
  const Rates r = rates_of(caps);
  return one_candidate(r.dispatch_ns * static_cast<double>(dispatches) +
                       8 / r.bytes_per_ns * static_cast<double>(elements));
}

std::vector<Candidate> joined_candidates(const Target& target, const Problem& p) {
  const int64_t dispatches =
      ceil_div(static_cast<int64_t>(p.parts.size()), target.caps.max_storage_buffers - 1);
  return candidate(target.caps, dispatches, p.rows == 1 ? p.row : p.rows * p.row * dispatches);
}

// Elements that share a word are written with two atomic operations each.
std::vector<Candidate> copies_candidates(const Target& target, const Problem& p) {
  return candidate(target.caps, static_cast<int64_t>(p.parts.size()),
                   p.rows * p.row * (elements_per_word(p.y.dtype, target.caps) > 1 ? 4 : 1));
}

// y[i] from the one of `count` inputs that holds it; r is the position in the row. With `fours` it is that of
// four neighbours, which are all of one input.
KernelPtr joined_kernel(size_t count, bool fours) {
  Kernel k;
  k.name = fours ? "concat_fours" : "concat";
  k.libs = {fours ? "each" : "flat"};
  std::string members = "  first: u32,\n  end: u32,\n  row: u32,\n  inverse_row: f32,\n";
  if (!fours) members += "  begin: u32,\n  length: u32,\n";
  std::string choices;
  for (size_t i = 0; i < count; ++i) {
    k.operands.push_back({formatted("a{}", i), OperandDecl::Kind::any, false, fours});
    members += formatted("  begin{0}: u32,\n  length{0}: u32,\n", i);
    // Unsigned: a position before the input also fails the test.
    const std::string test =
        i + 1 < count ? formatted("if (r - params.begin{0} < params.length{0}) ", i) : "";
    choices += formatted("  {1}{{ return a{0}_{2}(o * params.length{0} + r - params.begin{0}); }}\n", i, test,
                         fours ? "get4" : "at");
  }
  k.operands.push_back({"y", OperandDecl::Kind::any, true, fours});
  const std::string value = formatted(
      "let o = quotient_by(i, params.row, params.inverse_row);\n  let r = i - o * params.row;\n{}", choices);
  k.source = formatted("struct Params {{\n{}}}\n", members);
  k.source += fours ? formatted(
                          R"(fn four(i: u32) -> vec4<y_t> {{
  {}}}
fn task(i: u32) {{ y_put4(4u * i, four(4u * i)); }}
)",
                          value)
                    : formatted(
                          R"(fn element(i: u32) -> y_t {{
  {}}}
fn owns(i: u32) -> bool {{
  let o = quotient_by(i, params.row, params.inverse_row);
  return i - o * params.row - params.begin < params.length;
}}
)",
                          value);
  return make_kernel(k);
}

uint32_t inverse_row(const Problem& p) { return std::bit_cast<uint32_t>(1 / static_cast<float>(p.row)); }

// One dispatch that writes the elements of parts [from, to).
Dispatch join(Lowering& l, const Problem& p, size_t from, size_t to) {
  const int64_t begin = p.parts[from].begin;
  const int64_t end = p.parts[to - 1].begin + p.parts[to - 1].length;
  const int64_t pack = elements_per_word(p.y.dtype, l.caps());
  // In a single row the parts are contiguous: only their words need to be visited.
  const int64_t first = p.rows == 1 ? begin / pack * pack : 0;
  const int64_t last = p.rows == 1 ? end : p.rows * p.row;
  std::vector<uint32_t> params = {to_u32(first),  to_u32(last),  to_u32(p.row),
                                  inverse_row(p), to_u32(begin), to_u32(end - begin)};
  OperandList operands;
  for (size_t i = from; i < to; ++i) {
    operands.push_back(p.parts[i].x);
    params.push_back(to_u32(p.parts[i].begin));
    params.push_back(to_u32(p.parts[i].length));
  }
  operands.push_back(p.y);
  Dispatch d = l.make(joined_kernel(to - from, false), std::move(operands), std::as_bytes(std::span(params)),
                      ceil_div(last - first, flat_pieces(l.caps()) * pack));
  d.partial = to - from < p.parts.size();
  return d;
}

// --- Four elements at a time ---

bool in_fours(const Target&, const Problem& p) {
  const auto by_four = [](const Part& part) {
    return part.length % 4 == 0 && part.x.view.is_contiguous() && part.x.view.offset % 4 == 0;
  };
  return p.y.dtype != DType::c64 && std::ranges::all_of(p.parts, by_four);
}

bool fours_apply(const Target& target, const Problem& p) {
  return in_fours(target, p) && std::ssize(p.parts) < target.caps.max_storage_buffers;
}

std::vector<Candidate> fours_candidates(const Target& target, const Problem& p) {
  std::vector<Candidate> one = candidate(target.caps, 1, p.rows * p.row);
  one[0].ns *= 0.5;  // of an element at a time: one quotient for four
  // The lanes of a CPU take every branch: each element is read from each of the parts.
  if (rates_of(target.caps).cpu) one[0].ns *= 0.5 + 0.5 * static_cast<double>(p.parts.size());
  return one;
}

// A dispatch for each part.
std::vector<Candidate> rows_candidates(const Target& target, const Problem& p) {
  std::vector<Candidate> one = candidate(target.caps, std::ssize(p.parts), p.rows * p.row);
  one[0].ns *= 0.5;
  return one;
}

Dispatch join_fours(const Lowering& l, const Problem& p) {
  const int64_t elements = p.rows * p.row;
  std::vector<uint32_t> params = {0, to_u32(elements / 4), to_u32(p.row), inverse_row(p)};
  OperandList operands;
  for (const Part& part : p.parts) {
    operands.push_back(part.x);
    params.push_back(to_u32(part.begin));
    params.push_back(to_u32(part.length));
  }
  operands.push_back(p.y);
  for (Operand& o : operands) o.x4 = true;
  return l.make(joined_kernel(p.parts.size(), true), std::move(operands), std::as_bytes(std::span(params)),
                ceil_div(elements, 4 * flat_pieces(l.caps())));
}

void copy_part(Lowering& l, const Problem& p, const Part& part) {
  const View y = View::contiguous({p.rows, p.row}).slice(1, part.begin, part.length);
  lower_copy_into(l, part.x, p.y.with_view(y));
}

// As many parts in a dispatch as can be bound; a part that is too large for the bindings is copied in pieces.
void lower_joined(Lowering& l, const Problem& p, const Candidate&) {
  for (size_t from = 0; from < p.parts.size();) {
    size_t to = from + 1;
    while (to < p.parts.size() && to - from + 2 <= l.caps().max_storage_buffers &&
           fits(join(l, p, from, to + 1), l.caps()))
      ++to;
    Dispatch d = join(l, p, from, to);
    if (fits(d, l.caps())) {
      l.emit(std::move(d));
    } else {
      copy_part(l, p, p.parts[from]);
    }
    from = to;
  }
}

void lower_fours(Lowering& l, const Problem& p, const Candidate& c) {
  Dispatch d = join_fours(l, p);
  if (!fits(d, l.caps())) return lower_joined(l, p, c);
  l.emit(std::move(d));
}

void lower_rows_of_parts(Lowering& l, const Problem& p, const Candidate&) {
  for (const Part& part : p.parts) {
    const uint32_t length = to_u32(part.length);
    if (!l.each<kernels::copy_rows>({.x = part.x, .y = p.y},
                                    {.length = length,
                                     .inverse_length = 1 / static_cast<float>(length),
                                     .begin = to_u32(part.begin),
                                     .skipped = to_u32(p.row - part.length)},
                                    p.rows * part.length / 4))
      copy_part(l, p, part);
  }
}

void lower_copies(Lowering& l, const Problem& p, const Candidate&) {
  for (const Part& part : p.parts) copy_part(l, p, part);
}

constexpr Variant<Problem, void> kVariants[] = {
    {"joined", always, joined_candidates, lower_joined},
    {"fours", fours_apply, fours_candidates, lower_fours},
    {"rows", in_fours, rows_candidates, lower_rows_of_parts},
    {"copies", always, copies_candidates, lower_copies},
};

}  // namespace

void Concat::lower(Lowering& l) const {
  const Operand& y = l.out();
  if (y.view.elements() == 0) return;
  const auto a = normal_axis(axis, y.view.rank());
  const int64_t rows = product({y.view.dims.begin(), y.view.dims.begin() + a});
  const int64_t row = y.view.elements() / rows;
  std::vector<Part> parts;
  int64_t begin = 0;
  for (const Operand& x : l.inputs()) {
    const int64_t length = x.view.elements() / rows;
    if (length > 0) parts.push_back({x, begin, length});
    begin += length;
  }
  if (parts.size() == 1) {
    lower_copy(l, parts[0].x, y);
    return;
  }
  const Problem problem{parts, y, rows, row};
  l.choose("concat", kVariants, problem).make(l, problem);
}

Value concat(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) fail("concat: takes at least 1 input, not 0");
  auto op = std::make_shared<Concat>();
  op->axis = axis;
  return add_node(op, parts);
}

namespace ops {
void register_concat(OpTable& table) {
  table.add<Concat>(
      {.formula = "the inputs one after the other along axis",
       .operands = "parts...: at least one; all have the same dims, except along the axis",
       .attributes = "axis: along which they are joined",
       .types = "f32 f16 bf16 i32 u32 i64 bool i8 u8 c64",
       .variants = names_of(kVariants),
       .samples = {"concat(T[3,17], T[3,5]) {axis=1}", "concat(T[3,1,5], T[3,2,5], T[3,3,5]) {axis=-2}",
                   "concat(T[257]) {axis=0}", "concat(T[0,3], T[2,3], T[0,3], T[1,3]) {axis=0}",
                   "concat(T[0], T[0]) {axis=0}",
                   "concat(T[1], T[3], T[5], T[7], T[9], T[11], T[13], T[15], T[17], T[19]) {axis=0}",
                   "concat(T[3,1], T[3,3], T[3,5], T[3,1], T[3,1], T[3,3], T[3,5], T[3,1], T[3,7]) {axis=1}",
                   "concat(T[65537], T[17]) {axis=0}", "concat(T[1,4,5,3], T[1,8,5,3], T[1,4,5,3]) {axis=1}",
                   "concat(T[3,30001], T[3,30003], T[3,1]) {axis=1}"}});
}
}  // namespace ops

}  // namespace rlx
