#include "ops/attention/rope.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/rope.wgsl.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/ops/attention.h"

namespace rlx {

std::vector<TensorType> Rope::infer(const InferArgs& in) const {
  in.expect_count(3, 4);
  check_inputs(in);
  return {in[0]};
}

void Rope::check_inputs(const InferArgs& in) const {
  for (int64_t i = 0; i < 3; ++i) in.expect_float(i);
  const Shape& x = in.shape(0);
  if (x.rank() < 2)
    fail("rope: the input has rank {}; it needs an axis of positions and one of heads", x.rank());
  if (head_dim < 2 || head_dim % 2 != 0) fail("rope: head_dim is {}; it must be even and positive", head_dim);
  if (rotated < 0 || rotated > head_dim || rotated % 2 != 0) {
    fail("rope: {} of {} elements of a head cannot be rotated in pairs", rotated, head_dim);
  }
  const Dim& width = x[x.rank() - 1];
  if (!Dim::exact_div(width, Dim(head_dim))) {
    fail("rope: the last axis has {} elements, which is not a multiple of head_dim, {}", width.text(),
         head_dim);
  }
  const Shape& table = in.shape(1);
  if (table.rank() != 2 || !table[1].is(pairs()) || !(in.shape(2) == table)) {
    fail("rope: the tables are {} and {}; both must be [positions, {}]", table.text(), in.shape(2).text(),
         pairs());
  }
  const Dim& length = x[x.rank() - 2];
  if (!in.has(3) && length.is_static() && table[0].is_static() && length.value() > table[0].value()) {
    fail("rope: the input has {} positions, the tables only {}", length.value(), table[0].value());
  }
  if (table[0].is(0) && !length.is(0)) fail("rope: the tables have no rows");
  if (in.has(3)) {
    in.expect_dtype(3, in.dtype(3) == DType::i32 || in.dtype(3) == DType::i64 || in.dtype(3) == DType::u32,
                    "i32, i64 or u32");
    const Shape rows(std::vector<Dim>(x.begin(), x.end() - 1));
    if (in.shape(3).rank() > rows.rank() || !(broadcast(rows, in.shape(3), "rope") == rows)) {
      fail("rope: the positions {} do not broadcast to {}", in.shape(3).text(), rows.text());
    }
  }
}

void Rope::reference(RefContext& r) const {
  const RefTensor& x = r.in(0);
  const int64_t width = x.dims.back();
  const int64_t length = x.dims[x.dims.size() - 2];
  const int64_t last = r.in(1).dims[0] - 1;
  const std::vector<int64_t> rows(x.dims.begin(), x.dims.end() - 1);
  std::vector<int64_t> positions;
  if (r.has(3)) positions = gather_view(r.in(3).ints, View::contiguous(r.in(3).dims).broadcast_to(rows));
  r.out().real = x.real;
  for (int64_t row = 0; row < product(rows); ++row) {
    const int64_t wanted = positions.empty() ? row % length : positions[static_cast<size_t>(row)];
    const int64_t table = std::clamp<int64_t>(wanted, 0, last) * pairs();
    for (int64_t head = 0; head < width; head += head_dim) {
      for (int64_t i = 0; i < pairs(); ++i) {
        const auto a = static_cast<size_t>(row * width + head + (interleaved ? 2 * i : i));
        const size_t b = a + static_cast<size_t>(interleaved ? 1 : pairs());
        const double c = r.in(1).real[static_cast<size_t>(table + i)];
        const double s = r.in(2).real[static_cast<size_t>(table + i)];
        r.out().real[a] = x.real[a] * c - x.real[b] * s;
        r.out().real[b] = x.real[b] * c + x.real[a] * s;
      }
    }
  }
}

// The difference of two products of numbers up to 2, which may be rounded to 16 bits.
Tolerance Rope::tolerance(std::span<const TensorType> inputs) const {
  const double rounded = round_products ? 2 * epsilon(inputs[0].dtype) / epsilon(DType::f32) : 0;
  return {.ulps = 3 + rounded, .terms = 0, .scale = 4};
}

namespace {

struct Problem {
  const Rope* op;
  Operand x, y;       // any rank, the last axis whole heads
  Operand positions;  // like x without the last axis, or absent
  Operand cos, sin;
};

Dispatch make_dispatch(const Lowering& l, const Problem& p) {
  kernels::rope::Params params;
  params.length = to_u32(p.x.view.dims[p.x.view.dims.size() - 2]);
  params.width = to_u32(p.x.view.dims.back());
  params.head = to_u32(p.op->head_dim);
  params.pairs = to_u32(p.op->pairs());
  params.last_position = to_i32(p.cos.view.dims[0] - 1);
  return l.make<kernels::rope>(
      {.x = p.x, .cosines = p.cos, .sines = p.sin, .positions = p.positions, .y = p.y}, params, 0,
      {.INTERLEAVED = p.op->interleaved, .ROUNDED = p.op->round_products ? held_kind(p.x.dtype) : 0});
}

// A flat dispatch, in halves until it can be bound. Cut between rows, and a single row between heads, since
// the elements of a head are read together; heads are of even length, so that no word is cut.
void emit_parts(Lowering& l, const Problem& p) {
  Dispatch d = make_dispatch(l, p);
  const Dims& dims = p.x.view.dims;
  const int64_t last = p.x.view.rank() - 1;
  const auto axis =
      std::find_if(dims.begin(), dims.begin() + last, [](int64_t n) { return n > 1; }) - dims.begin();
  const int64_t grain = axis == last ? p.op->head_dim : 1;
  const int64_t length = dims[static_cast<size_t>(axis)];
  if (length == grain || fits(d, l.caps())) {
    l.flat(std::move(d));
    return;
  }
  const int64_t middle = length / grain / 2 * grain;
  for (const auto& [begin, end] : {std::pair(int64_t{0}, middle), std::pair(middle, length)}) {
    Problem part = p;
    for (Operand* o : {&part.x, &part.y}) o->view = o->view.slice(axis, begin, end - begin);
    if (axis < last && part.positions.present())
      part.positions.view = part.positions.view.slice(axis, begin, end - begin);
    // Where the index is the position, a part needs only its rows of the tables.
    if (axis == last - 1 && !part.positions.present()) {
      for (Operand* o : {&part.cos, &part.sin}) o->view = o->view.slice(0, begin, end - begin);
    }
    emit_parts(l, part);
  }
}

}  // namespace

void Rope::lower(Lowering& l) const {
  lower_rope(l, *this, l.in(0), l.in(1), l.in(2), l.optional_in(3), l.out());
}

void lower_rope(Lowering& l, const Rope& op, Operand x, Operand cos, Operand sin, Operand positions,
                const Operand& y) {
  if (y.view.elements() == 0) return;
  Problem p{&op, std::move(x), y, std::move(positions), std::move(cos), std::move(sin)};
  if (p.positions.present()) {
    const Dims& dims = p.x.view.dims;
    p.positions.view = p.positions.view.broadcast_to({dims.begin(), dims.end() - 1});
  }
  // If not even one row can be bound, inputs that are not contiguous are copied first.
  Problem row = p;
  for (Operand* o : {&row.x, &row.y, &row.positions}) {
    for (int64_t axis = 0; o->present() && axis < p.x.view.rank() - 1; ++axis)
      o->view = o->view.slice(axis, 0, 1);
  }
  if (!row.positions.present()) {
    for (Operand* o : {&row.cos, &row.sin}) o->view = o->view.slice(0, 0, 1);
  }
  if (!fits(make_dispatch(l, row), l.caps())) {
    for (Operand* o : {&p.x, &p.cos, &p.sin}) {
      if (!o->view.is_contiguous()) *o = lower_contiguous(l, *o);
    }
  }
  emit_parts(l, p);
}

Value rope(Value x, Value cos, Value sin, int64_t head_dim, bool interleaved, int64_t rotated,
           Value positions) {
  auto op = std::make_shared<Rope>();
  op->head_dim = head_dim;
  op->interleaved = interleaved;
  op->rotated = rotated;
  return add_node(std::move(op), {x, cos, sin, positions});
}

namespace ops {
void register_rope(OpTable& table) {
  table.add<Rope>(
      {.formula = "pairs (a, b) of each head become (a cos - b sin, b cos + a sin) at their position",
       .operands = "x: [.., sequence, heads * head_dim], heads side by side\n"
                   "cos (float): [positions, rotated / 2], the cosine for each position and pair\n"
                   "sin (float): likewise, the sine\n"
                   "positions? (i32 i64 u32): broadcast to x without its last axis; the index along the "
                   "sequence if left out",
       .attributes = "head_dim: how many elements a head has\n"
                     "interleaved: pairs are neighbours, instead of elements half of rotated apart\n"
                     "rotated: how many elements of a head are rotated, the first ones; 0: all\n"
                     "round_products: products are rounded to the type of x before they are added",
       .outputs = "y: of the shape of x",
       .types = "f32 f16 bf16",
       .variants = {"flat"},
       .samples = {"rope(T[2,17,24], T[17,4], T[17,4]) {head_dim=8}",
                   "rope(T[2,17,24], T[20,4], T[20,4]) {head_dim=8, interleaved=true}",
                   "rope(T[3,2,5,10], f32[5,3], f32[5,3]) {head_dim=10, rotated=6}",
                   "rope(T[2,7,24], T[7,4], T[7,4]) {head_dim=8, round_products=true}",
                   "rope(T[3,2,5,10], T[5,2], T[5,2]) {head_dim=10, rotated=4, interleaved=true}",
                   "rope(T[2,3,16], T[9,8], T[9,8], i32[2,3] in -3..12) {head_dim=16}",
                   "rope(T[2,4,3,16], T[9,8], T[9,8], i64[2,1,3] in 0..8) {head_dim=16}",
                   "rope(T[4,2,6], T[9,1], T[9,1], i32[] in 0..8) {head_dim=2}",
                   "rope(T[1,2], T[1,1], T[1,1], none) {head_dim=2}",
                   "rope(T[0,3,8], T[3,4], T[3,4]) {head_dim=8}",
                   "rope(T[3,257,128], T[257,32], T[257,32]) {head_dim=64}",
                   "rope(T[1,300,258], T[300,3], T[300,3], i32[300] in 0..299) {head_dim=6}",
                   "rope(T[2,1,131076], T[5,6], T[5,6], i32[2,1] in 0..4) {head_dim=12}"}});
}
}  // namespace ops

}  // namespace rlx
