#include "ops/attention/rope_write.h"

#include <algorithm>

#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/rope_write.wgsl.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

WriteState RopeWrite::write() const {
  WriteState op;
  op.axis = axis;
  op.start = start;
  op.states = 2;
  return op;
}

std::vector<TensorType> RopeWrite::infer(const InferArgs& in) const {
  in.expect_count(5);
  std::vector<TensorType> out(3);
  infer_again(in, out);
  return out;
}

void RopeWrite::infer_again(const InferArgs& in, std::vector<TensorType>& types) const {
  const int64_t last = in.shape(2).rank() - 1;
  if (last < 1) fail("rope_write: x has rank {}; it needs an axis of positions and one of heads", last + 1);
  const Dim& width = in.shape(2)[last];
  if (queries < 0 || keys < 0 || !width.is_static() || width.value() < queries + keys) {
    fail("rope_write: {} elements cannot be {} of queries, {} of keys and the values", width.text(), queries,
         keys);
  }
  // A part of x after the other, in the place of the type of the queries.
  TensorType& part = types[2];
  const auto take = [&](int64_t elements) {
    part = in[2];
    part.shape[last] = elements;
  };
  take(queries + keys);
  rope.check_inputs(InferArgs(rope, InferArgs::Types{&part, &in[3], &in[4]}));
  take(keys);
  const WriteState write = this->write();
  write.check_write(InferArgs(write, InferArgs::Types{&in[0], &part}), 0, 1);
  take(width.value() - queries - keys);
  write.check_write(InferArgs(write, InferArgs::Types{&in[1], &part}), 0, 1);
  take(queries);
  types[0] = in[0];
  types[1] = in[1];
}

void RopeWrite::reference(RefContext& r) const {
  const std::vector<int64_t> dims = r.in(2).dims;
  const auto part = [&](const RefTensor& x, int64_t begin, int64_t end) {
    const View all = View::contiguous(x.dims);
    const View some = all.slice(all.rank() - 1, begin, end - begin);
    RefTensor out = RefTensor::zeros(x.dtype, some.dims);
    out.real = gather_view(x.real, some);
    return out;
  };
  const RefTensor turning = part(r.in(2), 0, queries + keys);
  const TensorType turned{turning.dtype, Shape(turning.dims)};
  RefContext turn({&turning, &r.in(3), &r.in(4)}, std::span(&turned, 1));
  rope.reference(turn);
  const RefTensor new_keys = part(turn.out(), queries, queries + keys);
  const RefTensor new_values = part(r.in(2), queries + keys, dims.back());
  const TensorType states[] = {{r.in(0).dtype, Shape(r.in(0).dims)}, {r.in(1).dtype, Shape(r.in(1).dims)}};
  RefContext both({&r.in(0), &r.in(1), &new_keys, &new_values}, states);
  write().reference(both);
  r.out(0) = both.out(0);
  r.out(1) = both.out(1);
  r.out(2) = part(turn.out(), 0, queries);
}

namespace {

Operand columns(const Operand& x, int64_t begin, int64_t end) {
  return x.with_view(x.view.slice(x.view.rank() - 1, begin, end - begin));
}

}  // namespace

void RopeWrite::lower(Lowering& l) const {
  const Operand& x = l.in(2);
  if (x.view.elements() == 0) return;
  const int64_t turned = queries + keys;
  const int64_t width = x.view.dims.back();
  const WriteState writes = write();
  const Operand new_keys = writes.replaced(l.out(0), columns(x, queries, turned).view.dims);
  const Operand new_values = writes.replaced(l.out(1), columns(x, turned, width).view.dims);
  kernels::rope_write::Params params;
  params.count = to_u32(x.view.elements());
  params.length = to_u32(x.view.dims[x.view.dims.size() - 2]);
  params.width = to_u32(width);
  params.head = to_u32(rope.head_dim);
  params.pairs = to_u32(rope.pairs());
  params.last_position = to_u32(l.in(3).view.dims[0] - 1);
  params.queries = to_u32(queries);
  params.turned = to_u32(turned);
  Dispatch d = l.make<kernels::rope_write>(
      {.x = x, .cosines = l.in(3), .sines = l.in(4), .y = l.out(2), .keys = new_keys, .values = new_values},
      params, ceil_div(x.view.elements(), int64_t{kernels::rope_write::GROUP}),
      {.INTERLEAVED = rope.interleaved, .ROUNDED = rope.round_products ? held_kind(x.dtype) : 0});
  // No invocation may read what another has overwritten.
  const auto is_read = [&](const Operand& state) {
    return std::ranges::any_of(l.inputs().begin() + 2, l.inputs().end(),
                               [&](const Operand& o) { return o.storage == state.storage; });
  };
  if (!is_read(new_keys) && !is_read(new_values) && fits(d, l.caps())) {
    l.emit(std::move(d));
    return;
  }
  const Operand all = lower_contiguous(l, x);
  const Operand rotated = l.scratch(x.dtype, columns(x, 0, turned).view.dims);
  lower_rope(l, rope, columns(all, 0, turned), l.in(3), l.in(4), {}, rotated);
  if (queries > 0) lower_copy(l, columns(rotated, 0, queries), l.out(2));
  if (keys > 0) lower_copy_into(l, columns(rotated, queries, turned), new_keys);
  if (turned < width) lower_copy_into(l, columns(all, turned, width), new_values);
}

namespace ops {
void register_rope_write(OpTable& table) {
  table.add<RopeWrite>(
      {.formula = "the rope of queries; that of keys and the values as they are, in their states",
       .operands = "keys: the state that keeps keys\n"
                   "values: the state that keeps values\n"
                   "x: [.., sequence, columns]: queries, keys and values side by side\n"
                   "cos (float): [positions, rotated / 2], the cosine for each position and pair\n"
                   "sin (float): likewise, the sine",
       .attributes = "queries: how many columns of x are queries\n"
                     "keys: how many columns of x are keys; those after them are values\n"
                     "head_dim: how many elements a head has\n"
                     "interleaved: pairs are neighbours, instead of elements half of rotated apart\n"
                     "rotated: how many elements of a head are rotated, the first ones; 0: all\n"
                     "round_products: products are rounded to the type of x before they are added\n"
                     "axis: of the states, along which rows are replaced\n"
                     "start: the first row that is replaced",
       .outputs = "keys: the state with the new keys, rotated\n"
                  "values: the state with the new values\n"
                  "y: [.., sequence, queries], the queries, rotated",
       .types = "f32 f16 bf16",
       .variants = {"rope_write"},
       .samples =
           {"rope_write(state T[1,9,8], state T[1,9,10], T[1,1,34], T[1,4], T[1,4]) {queries=16, keys=8, "
            "head_dim=8, axis=1, start=5}",
            "rope_write(state T[2,17,6], state T[2,17,5], T[2,3,17], f32[4,2], f32[4,2]) {queries=6, keys=6, "
            "head_dim=6, rotated=4, interleaved=true, axis=1, start=14}",
            "rope_write(state T[1,9,8], state T[1,9,8], T[1,3,24], T[4,4], T[4,4]) {queries=8, keys=8, "
            "head_dim=8, round_products=true, axis=1, start=2}",
            "rope_write(state T[5,2], state T[5,2], T[3,4], T[9,1], T[9,1]) {queries=0, keys=2, head_dim=2}",
            "rope_write(state T[5,0], state T[5,3], T[2,7], T[9,1], T[9,1]) {queries=4, keys=0, head_dim=2}",
            "rope_write(state T[1,5,8], state T[1,5,8], T[1,0,24], T[1,4], T[1,4]) {queries=8, keys=8, "
            "head_dim=8, axis=1}",
            "rope_write(state T[1,300,128], state T[1,300,128], T[1,257,512], T[257,32], T[257,32]) "
            "{queries=256, keys=128, head_dim=64, axis=1, start=2}"},
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
