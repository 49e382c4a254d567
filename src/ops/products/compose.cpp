// Puts the kernel of a product together from its parts.
#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/checked.h"
#include "kernels/fragment.h"
#include "kernels/parse.h"
#include "kernels/rename.h"
#include "ops/products/product.h"

namespace rlx::products {
namespace {

// What a load does not write is derived from what it does.
constexpr std::string_view kFourK = R"(fn x_four_k(r: x_Run, k: u32) -> vec4<mul_t> {
  return vec4<mul_t>(x_one(r, k), x_one(r, k + 1u), x_one(r, k + 2u), x_one(r, k + 3u));
}
)";
constexpr std::string_view kFourLines = R"(fn x_four_lines(q: x_Quad, k: u32) -> vec4<mul_t> {
  return vec4<mul_t>(x_one(q.r0, k), x_one(q.r1, k), x_one(q.r2, k), x_one(q.r3, k));
}
)";
// Loops step through the runs of loads that have x_ahead, and pass k to all others.
constexpr std::string_view kSteps = "const x_STEPS: bool = true;\n";
constexpr std::string_view kNoSteps = R"(const x_STEPS: bool = false;
fn x_ahead(r: x_Run, n: u32) -> x_Run { return r; }
)";
constexpr std::string_view kSkips = "fn x_skips(batch: u32) -> bool { return false; }\n";
constexpr std::string_view kZero = "fn x_zero(batch: u32) -> bool { return false; }\n";
constexpr std::string_view kMisses = "fn x_misses(r: x_Run) -> bool { return false; }\n";

// Four neighbouring lines; past the last one it is repeated.
constexpr std::string_view kQuadLine = R"(fn x_quad_line(batch: u32, line: u32) -> x_QuadLine {
  let last = x_end() - 1u;
  return x_QuadLine(x_line(batch, min(line, last)), x_line(batch, min(line + 1u, last)),
                    x_line(batch, min(line + 2u, last)), x_line(batch, min(line + 3u, last)));
}
)";
constexpr std::string_view kQuads = R"(struct x_QuadLine { l0: x_Line, l1: x_Line, l2: x_Line, l3: x_Line, }
struct x_Quad { r0: x_Run, r1: x_Run, r2: x_Run, r3: x_Run, }
fn x_quad_ahead(q: x_Quad, n: u32) -> x_Quad {
  return x_Quad(x_ahead(q.r0, n), x_ahead(q.r1, n), x_ahead(q.r2, n), x_ahead(q.r3, n));
}
fn x_quad(q: x_QuadLine, run: u32) -> x_Quad {
  return x_Quad(x_run(q.l0, run), x_run(q.l1, run), x_run(q.l2, run), x_run(q.l3, run));
}
)";

// Four lines at k, k + 1, k + 2 and k + 3.
constexpr std::string_view kFourByFour = R"(fn x_four_by_four(q: x_Quad, k: u32) -> array<vec4<mul_t>, 4> {
  if (!x_ALONG_K) {
    return array<vec4<mul_t>, 4>(x_four_lines(q, k), x_four_lines(q, k + 1u), x_four_lines(q, k + 2u),
                                 x_four_lines(q, k + 3u));
  }
  let c0 = x_four_k(q.r0, k);
  let c1 = x_four_k(q.r1, k);
  let c2 = x_four_k(q.r2, k);
  let c3 = x_four_k(q.r3, k);
  return array<vec4<mul_t>, 4>(vec4<mul_t>(c0.x, c1.x, c2.x, c3.x), vec4<mul_t>(c0.y, c1.y, c2.y, c3.y),
                               vec4<mul_t>(c0.z, c1.z, c2.z, c3.z), vec4<mul_t>(c0.w, c1.w, c2.w, c3.w));
}
)";

// A slice of 64 lines by 16 of k in workgroup memory, one k after the other, staged by 256 lanes, four
// elements each. Neighbouring lanes read neighbours in memory. In two levels, so that a bounds check of the
// first serves four lines that are read one after the other.
constexpr std::string_view kStage = R"(const x_TILE_LINES: u32 = 64u;
const x_TILE_DEPTH: u32 = 16u;
var<workgroup> x_tile: array<array<mul_t, x_TILE_LINES>, x_TILE_DEPTH>;
fn x_stage_line(batch: u32, line0: u32, i: u32, lane: u32) -> x_Line {
  let line = line0 + select(lane % 64u, lane / 16u + 16u * i, x_ALONG_K);
  return x_line(batch, min(line, x_end() - 1u));
}
fn x_stage(r: x_Run, i: u32, first: u32, end: u32, lane: u32) {
  let k = select(lane / 64u + 4u * i, lane % 16u, x_ALONG_K);
  let line = select(lane % 64u, lane / 16u + 16u * i, x_ALONG_K);
  var v = mul_t();
  if (first + k < end) { v = x_one(r, first + k); }
  x_tile[k][line] = v;
}
)";

// What loops share. A tile is the part of y that an invocation or a workgroup makes.
constexpr std::string_view kCommon =
    R"(struct Tile { batch: u32, row: u32, col: u32, k_begin: u32, k_end: u32, y_batch: u32, }
const ROWS_FIRST: bool = false;  //@ spec
fn tile_at(g: u32, rows: u32, cols: u32) -> Tile {
  let n_tile = select(g % params.n_tiles, g / params.m_tiles % params.n_tiles, ROWS_FIRST);
  let m_tile = select(g / params.n_tiles % params.m_tiles, g % params.m_tiles, ROWS_FIRST);
  let col = params.col_begin + n_tile * cols;
  let row = params.row_begin + m_tile * rows;
  let slice = g / (params.n_tiles * params.m_tiles);  // of the batch and of k
  let batch = params.batch_begin + slice % params.batches;
  let part = slice / params.batches;
  let k_begin = min(params.k_begin + part * params.k_part, params.k_end);
  let k_end = select(min(k_begin + params.k_part, params.k_end), k_begin, a_zero(batch) || b_zero(batch));
  return Tile(batch, row, col, k_begin, k_end, part * params.batches + batch);
}
fn tile_count() -> u32 { return params.tiles; }
// How many rows the tile has. Loops are made for a few numbers of rows, so that another m needs no other shader.
fn tile_rows(t: Tile) -> u32 { return min(params.tile_rows, params.row_end - t.row); }

// The part of k in one run, from `first` to `end` within the run; the one after the last is empty.
struct Span { run: u32, first: u32, end: u32, }
fn span_at(k: u32, k_end: u32) -> Span {
  if (ONE_RUN) { return Span(0u, k, k_end); }
  let run = k / params.run;
  let first = k - run * params.run;
  return Span(run, first, min(params.run, first + k_end - min(k, k_end)));
}
fn span_after(s: Span, k_end: u32) -> Span {
  if (ONE_RUN) { return Span(); }
  let begin = (s.run + 1u) * params.run;
  return Span(s.run + 1u, 0u, min(params.run, k_end - min(begin, k_end)));
}

fn put(t: Tile, row: u32, col: u32, sum: sum_t) {
  let v = remade_if_nan(t, row, col, unscaled(t, row, col, sum));
  y_store(y_line(t.y_batch, row), col, epilogue(v, t.batch * params.m + row, col));
}
// Four columns, of which those past the last are not stored.
fn put4(t: Tile, row: u32, col: u32, sums: vec4<sum_t>) {
  let v = four_remade_if_nan(t, row, col, four_unscaled(t, row, col, sums));
  store_four(y_line(t.y_batch, row), col, v, t.batch * params.m + row);
}
)";
// put_before leaves out columns from `end` on, which is a multiple of four where columns are stored in fours.
// Two texts, so that a kernel which stores words of four bytes has no store of a single one, which is atomic.
constexpr std::string_view kStoreFour = R"(fn store_four(l: y_Line, col: u32, v: vec4<sum_t>, line: u32) {
  y_store4(l, col, vec4<y_t>(epilogue(v.x, line, col), epilogue(v.y, line, col + 1u), epilogue(v.z, line, col + 2u),
                             epilogue(v.w, line, col + 3u)));
}
fn put_before(t: Tile, row: u32, col: u32, end: u32, v: vec4<sum_t>) {
  if (col < end) { put4(t, row, col, v); }
}
)";
constexpr std::string_view kStoreOneByOne = R"(fn store_four(l: y_Line, col: u32, v: vec4<sum_t>, line: u32) {
  for (var c = 0u; c < min(4u, params.col_end - col); c++) { y_store(l, col + c, epilogue(v[c], line, col + c)); }
}
fn put_before(t: Tile, row: u32, col: u32, end: u32, v: vec4<sum_t>) {
  if (col < end) { put(t, row, col, v.x); }
  if (col + 1u < end) { put(t, row, col + 1u, v.y); }
  if (col + 2u < end) { put(t, row, col + 2u, v.z); }
  if (col + 3u < end) { put(t, row, col + 3u, v.w); }
}
)";

// From and to where a tile sums along k, the same for all lanes: barriers depend on it. If the first is more,
// the tile is skipped.
constexpr std::string_view kRangeOfSizes =
    "fn k_range_of(t: Tile, lane: u32) -> vec2u { return vec2u(t.k_begin, t.k_end); }\n";
// What a load reads from a table is the same too, which only a way through workgroup memory makes certain.
constexpr std::string_view kRangeOfTables = R"(var<workgroup> depth: vec2u;
fn k_range_of(t: Tile, lane: u32) -> vec2u {
  if (lane == 0u) {
    depth = select(vec2u(t.k_begin, t.k_end), vec2u(1u, 0u), a_skips(t.batch) || b_skips(t.batch));
  }
  return workgroupUniformLoad(&depth);
}
)";

// Sums of factors that were multiplied by powers of two. In two steps, since the two exponents together may
// be beyond f32.
constexpr std::string_view kNoScales =
    R"(fn unscaled(t: Tile, row: u32, col: u32, v: sum_t) -> sum_t { return v; }
fn four_unscaled(t: Tile, row: u32, col: u32, v: vec4<sum_t>) -> vec4<sum_t> { return v; }
)";
constexpr std::string_view kScales =
    R"(fn unscaled(t: Tile, row: u32, col: u32, v: sum_t) -> sum_t {
  let e = -(a_exponent(t.batch, row) + b_exponent(t.batch, col));
  return v * power_of_two(e / 2) * power_of_two(e - e / 2);
}
fn four_unscaled(t: Tile, row: u32, col: u32, v: vec4<sum_t>) -> vec4<sum_t> {
  let last = params.col_end - 1u;
  return vec4<sum_t>(unscaled(t, row, col, v.x), unscaled(t, row, min(col + 1u, last), v.y),
                     unscaled(t, row, min(col + 2u, last), v.z), unscaled(t, row, min(col + 3u, last), v.w));
}
)";
constexpr std::string_view kExponent = R"(//@ in x_exponents int
fn x_exponent(batch: u32, line: u32) -> i32 { return x_exponents_at(batch * x_TOTAL + line); }
)";
constexpr std::string_view kNoExponent = "fn x_exponent(batch: u32, line: u32) -> i32 { return 0; }\n";

constexpr std::string_view kTaken =
    R"(fn remade_if_nan(t: Tile, row: u32, col: u32, v: sum_t) -> sum_t { return v; }
fn four_remade_if_nan(t: Tile, row: u32, col: u32, v: vec4<sum_t>) -> vec4<sum_t> { return v; }
)";
// Loops multiply zeros where a load misses a run, which is NaN if the other factor is infinite or NaN, and a
// factor that is rounded to f16 may become a zero as well. Such sums, and those that are NaN anyway, are made
// again without these runs and from the factors as they are: numbers that are infinite or NaN are rare, and a
// test in the loops would cost more than the products.
constexpr std::string_view kRemade =
    R"(fn remade_if_nan(t: Tile, row: u32, col: u32, v: sum_t) -> sum_t {
  if (!is_nan(v)) { return v; }
  let a_at = a_line(t.batch, row);
  let b_at = b_line(t.batch, col);
  var sum = sum_t();
  for (var s = span_at(t.k_begin, t.k_end); s.first < s.end; s = span_after(s, t.k_end)) {
    let a = a_run(a_at, s.run);
    let b = b_run(b_at, s.run);
    if (a_misses(a) || b_misses(b)) { continue; }
    for (var i = s.first; i < s.end; i++) { sum = mad_one(a_one(a, i), b_one(b, i), sum); }
  }
  return sum;
}
fn four_remade_if_nan(t: Tile, row: u32, col: u32, v: vec4<sum_t>) -> vec4<sum_t> {
  if (!(is_nan(v.x) || is_nan(v.y) || is_nan(v.z) || is_nan(v.w))) { return v; }
  var sums = v;
  for (var c = 0u; c < min(4u, params.col_end - col); c++) { sums[c] = remade_if_nan(t, row, col + c, v[c]); }
  return sums;
}
)";

constexpr std::string_view kHead[] = {
    "batch_begin", "batches", "row_begin", "row_end", "col_begin", "col_end", "k_begin", "k_end",
    "k_part",      "m",       "n",         "run",     "m_tiles",   "n_tiles", "tiles",   "tile_rows"};

// Takes the `//@ param NAME: TYPE` lines out of a text.
std::string take_params(std::string& text) {
  constexpr std::string_view kMark = "//@ param ";
  std::string members;
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark)) {
    const size_t end = text.find('\n', at);
    members += formatted("  {},\n", text.substr(at + kMark.size(), end - at - kMark.size()));
    text.erase(at, end + 1 - at);
  }
  return members;
}

std::string load_text(const Load& load, std::string_view name, std::string_view loop) {
  const std::string own = load.wgsl();
  std::string text = own;
  const auto uses = [&](std::string_view hook) { return loop.contains(formatted("{}_{}(", name, hook)); };
  text += own.contains("fn x_ahead(") ? kSteps : kNoSteps;
  if (!own.contains("fn x_four_k(")) text += kFourK;
  if (!own.contains("fn x_skips(")) text += kSkips;
  if (!own.contains("fn x_zero(")) text += kZero;
  if (!own.contains("fn x_misses(")) text += kMisses;
  if (!own.contains("fn x_four_lines(")) text += kFourLines;
  text += kQuads;
  if (!own.contains("fn x_quad_line(")) text += kQuadLine;
  if (!own.contains("fn x_four_by_four(")) text += kFourByFour;
  if (uses("stage") && !own.contains("fn x_stage(")) text += kStage;
  text += load.along_k() ? "const x_ALONG_K: bool = true;\n" : "const x_ALONG_K: bool = false;\n";
  return for_operand(text, name);
}

// The text of the epilogue, of one of all rows of all batches, whose members of Params go to `members`.
std::string epilogue_text(const Expr& expr, const ExprCode& code, std::string& members) {
  if (expr.steps.empty()) return "fn epilogue(v: sum_t, line: u32, col: u32) -> y_t { return y_t(v); }\n";
  std::string text;
  for (size_t i = 1; i < expr.inputs.size(); ++i) text += formatted("//@ in e{} any\n", i);
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  // The product is rounded as if it had been stored.
  return text + formatted(
                    "fn epilogue(v: sum_t, line: u32, col: u32) -> y_t {{\n  let product = {};\n{}  return "
                    "{};\n}}\n",
                    rounded("v", expr.inputs[0]), code.statements, code.result);
}

ExprCode epilogue_code(const Expr& expr) {
  if (expr.steps.empty()) return {};
  std::vector<std::string> inputs = {"product"};
  for (size_t i = 1; i < expr.inputs.size(); ++i)
    inputs.push_back(formatted("e{0}_get(e{0}_base(line) + e{0}_step(col))", i));
  return generate(expr, inputs);
}

// WGSL and the file it comes from.
struct Part {
  std::string place;
  std::string text;
};

// How a product is added to a sum: one and four of them.
std::string multiply_add(const Product& p) {
  std::string one = "sum_t(a) * sum_t(b) + c";
  std::string four = p.sum_type() == DType::f32 ? "fma(vec4<sum_t>(a), vec4<sum_t>(b), c)"
                                                : "vec4<sum_t>(a) * vec4<sum_t>(b) + c";
  if (p.fours) {
    const auto dot = [&](std::string_view part) {
      return formatted("sum_t({}(a{}, b{}))", *p.fours == DType::i8 ? "dot4I8Packed" : "dot4U8Packed", part,
                       part);
    };
    one = dot("") + " + c";
    four = formatted("vec4<sum_t>({}, {}, {}, {}) + c", dot(".x"), dot(".y"), dot(".z"), dot(".w"));
  }
  return formatted(
      "fn mad_one(a: mul_t, b: mul_t, c: sum_t) -> sum_t {{ return {}; }}\n"
      "fn mad(a: vec4<mul_t>, b: vec4<mul_t>, c: vec4<sum_t>) -> vec4<sum_t> {{ return {}; }}\n",
      one, four);
}

// Four of them for each of four sums.
std::string four_multiply_adds(const Product& p) {
  const std::string head =
      "fn mad4(a: vec4<mul_t>, b: array<vec4<mul_t>, 4>, c: vec4<sum_t>) -> vec4<sum_t> {\n";
  if (p.fours == DType::i8) return head + "  return add_products_of_i8(a, b, c);\n}\n";
  // All updates of a sum one after the other: on CPUs it then stays in a register.
  return head +
         "  return mad(vec4<mul_t>(a.w), b[3], mad(vec4<mul_t>(a.z), b[2],\n"
         "             mad(vec4<mul_t>(a.y), b[1], mad(vec4<mul_t>(a.x), b[0], c))));\n}\n";
}

std::vector<Part> kernel_parts(const Product& p, const Launch& launch, bool four, const ExprCode& code) {
  std::vector<Part> parts = {{formatted("load_{}.h", p.a->name()), load_text(*p.a, "a", launch.wgsl)},
                             {formatted("load_{}.h", p.b->name()), load_text(*p.b, "b", launch.wgsl)},
                             {formatted("store_{}.h", p.y->name()), p.y->wgsl()}};
  if (p.halved) {
    const auto text = [](const Operand& exponents, std::string_view name, std::string_view total) {
      return renamed(for_operand(exponents.present() ? kExponent : kNoExponent, name),
                     {{formatted("{}_TOTAL", name), total}});
    };
    parts.push_back(
        {"exponents", text(p.a_exponents, "a", "params.m") + text(p.b_exponents, "b", "params.n")});
  }
  std::string members;
  for (const std::string_view word : kHead) members += formatted("  {}: u32,\n", word);
  for (Part& part : parts) members += take_params(part.text);
  parts.push_back({"epilogue", epilogue_text(p.expr, code, members)});
  std::string common = formatted("struct Params {{\n{}}}\nalias mul_t = {};\nalias sum_t = {};\n", members,
                                 wgsl_type(p.mul_type()), wgsl_type(p.sum_type()));
  common += multiply_add(p);
  common += four_multiply_adds(p);
  common += "fn a_end() -> u32 { return params.row_end; }\nfn b_end() -> u32 { return params.col_end; }\n";
  common += formatted("const ONE_RUN: bool = {};\n", p.run == 0);
  common += kCommon;
  common += four ? kStoreFour : kStoreOneByOne;
  const auto either = [&](std::string_view hook) {
    return p.a->wgsl().contains(hook) || p.b->wgsl().contains(hook);
  };
  common += either("fn x_skips(") || either("fn x_zero(") ? kRangeOfTables : kRangeOfSizes;
  common += either("fn x_misses(") || p.halved ? kRemade : kTaken;
  common += p.halved ? kScales : kNoScales;
  parts.push_back({"compose.cpp", std::move(common)});
  parts.push_back({formatted("loop_{}.h", launch.name), std::string(launch.wgsl)});
  return parts;
}

// One text, without declarations that nothing uses, which would only take the device's compiler time.
std::string needed_text(const std::vector<Part>& parts) {
  std::string out = formatted("//# {} 1\n", parts.back().place);
  constexpr std::string_view kUse = "//@ use ";
  std::vector<std::string_view> used;  // fragments
  std::vector<Declaration> all;
  for (const Part& part : parts) {
    for (std::string_view rest = part.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      if (line.starts_with("//@ ") || line.starts_with("enable ")) out += line;
      if (line.starts_with(kUse)) used.push_back(line.substr(kUse.size(), line.size() - kUse.size() - 1));
      rest.remove_prefix(line.size());
    }
    std::ranges::move(parse_fragment(part.place, part.text).declarations, std::back_inserter(all));
  }
  std::set<std::string_view> needed;
  std::vector<std::string_view> asked = {"main", "Params"};
  for (const std::string_view name : used) {
    for (const Declaration& d : find_fragment(name)->declarations)
      asked.insert(asked.end(), d.uses.begin(), d.uses.end());
  }
  while (!asked.empty()) {
    const std::string_view one = asked.back();
    asked.pop_back();
    if (!needed.insert(one).second) continue;
    const auto found = std::ranges::find(all, one, &Declaration::name);
    if (found != all.end()) asked.insert(asked.end(), found->uses.begin(), found->uses.end());
  }
  for (const Declaration& d : all) {
    if (needed.contains(d.name) || d.text.contains("//@ spec")) out += d.text;
  }
  return out;
}

// Kernels by what their text depends on: putting one together takes longer than all the rest of lowering.
KernelPtr kernel_of(const Product& p, const Launch& launch, bool four, const ExprCode& code) {
  struct Known {
    std::mutex mutex;
    std::unordered_map<std::string, std::weak_ptr<const Kernel>> kernels;
  };
  static Known& known = *new Known;  // never destroyed: other statics may lower
  const auto exponents = [](const Operand& o) { return o.present() ? "exponents" : ""; };
  std::string key = formatted("{}|{} {}|{} {}|{} {}|{}|{} {}|{} {}", p.fours ? to_string(*p.fours) : "",
                              launch.name, launch.id, p.a->id(), p.a->along_k(), p.b->id(), p.b->along_k(),
                              p.y->id(), wgsl_type(p.mul_type()), wgsl_type(p.sum_type()), four, p.run == 0);
  if (p.halved) key += formatted("|halved {} {}", exponents(p.a_exponents), exponents(p.b_exponents));
  if (!p.expr.steps.empty()) {
    key += formatted("|{}|{}|{}|{}", p.expr.inputs.size(), rounded("v", p.expr.inputs[0]), code.statements,
                     code.result);
  }
  {
    const std::scoped_lock lock(known.mutex);
    const auto found = known.kernels.find(key);
    if (found != known.kernels.end()) {
      if (KernelPtr kernel = found->second.lock()) return kernel;
    }
  }
  KernelPtr kernel = parse_kernel(needed_text(kernel_parts(p, launch, four, code)));
  const std::scoped_lock lock(known.mutex);
  std::erase_if(known.kernels, [](const auto& entry) { return entry.second.expired(); });
  known.kernels[key] = kernel;
  return kernel;
}

}  // namespace

Dispatch make_dispatch(const Lowering& l, const Product& p, const Launch& launch) {
  const Region& r = p.region;
  const bool four = launch.four_columns && p.y->offers_four() && r.cols.begin % 4 == 0 && r.cols.end % 4 == 0;
  const ExprCode code = epilogue_code(p.expr);
  const int64_t m_tiles = ceil_div(r.rows.length(), launch.tile_rows);
  const int64_t n_tiles = launch.n_tiles ? launch.n_tiles : ceil_div(r.cols.length(), launch.tile_cols);
  const int64_t tiles = m_tiles * n_tiles * r.batch.length() * p.k_parts;
  const int64_t groups = launch.groups ? launch.groups : ceil_div(tiles, launch.tiles_per_group);
  const int64_t run = p.run == 0 ? std::max<int64_t>(p.size.k, 1) : p.run;
  const int64_t part = round_up(ceil_div(r.k.length(), p.k_parts), std::max<int64_t>(p.grain(), 4));
  std::vector<uint32_t> words;
  for (const int64_t word : {r.batch.begin, r.batch.length(), r.rows.begin, r.rows.end, r.cols.begin,
                             r.cols.end, r.k.begin, r.k.end, p.k_parts == 1 ? r.k.length() : part, p.size.m,
                             p.size.n, run, m_tiles, n_tiles, tiles, launch.tile_rows}) {
    words.push_back(to_u32(word));
  }

  const KernelPtr kernel = kernel_of(p, launch, four, code);
  OperandList operands;
  SpecList specs = launch.specs;
  // A CPU runs workgroups one after the other: those that share columns of b find them in its cache. Where
  // a workgroup has many tiles, its lanes stay side by side along n.
  specs.push_back(spec_value("ROWS_FIRST", l.caps().software() && launch.tiles_per_group == 1));
  const auto add = [&](Binding part_of, std::string_view name) {
    std::ranges::move(part_of.operands, std::back_inserter(operands));
    words.insert(words.end(), part_of.words.begin(), part_of.words.end());
    for (const SpecValue& s : part_of.specs) {
      const auto decl = std::ranges::find(kernel->specs, for_operand(s.name, name), &SpecDecl::name);
      check(decl != kernel->specs.end(), "a spec constant is in the kernel source");
      specs.push_back({decl->name, s.value, s.is_bool});
    }
  };
  add(p.a->bind(launch.a, {r.batch, r.rows, r.k}), "a");
  add(p.b->bind(launch.b, {r.batch, r.cols, r.k}), "b");
  Region stored = r;
  if (p.k_parts > 1) stored.batch = {0, p.k_parts * p.size.batch};
  add(p.y->bind(four, stored), "y");
  for (const Operand& exponents : {p.a_exponents, p.b_exponents}) {
    if (exponents.present()) operands.push_back(exponents);
  }
  for (const Grouped& e : p.extra) {
    Operand bound = e.operand;
    bound.outer_rank = e.first_axes + e.second_axes;
    if (r.is_part(p.size.batch, p.size.m, p.size.n)) bound.window = e.reach(r.batch, r.rows, r.cols);
    operands.push_back(std::move(bound));
  }
  words.insert(words.end(), code.words.begin(), code.words.end());
  return l.make(kernel, std::move(operands), std::as_bytes(std::span(words)), groups, std::move(specs));
}

}  // namespace rlx::products
