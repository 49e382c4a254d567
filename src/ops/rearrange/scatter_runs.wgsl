// Joins the updates of each slot with y[slot]. Updates are in the order of their slots, or `order` says where they lie, so
// that those of a slot are a run. An invocation walks one column, or four, of a block of them. A run that has more of its updates in
// the block before or behind is not finished here: its part goes to `parts`, which has one for each end of each block, in
// the order of their slots again, to be joined in the same way.
//@ in slots any
//@ in order any
//@ in updates any x4
//@ out y any x4
//@ out part_slots any
//@ out parts any x4
//@ out overflow int atomic
const PRODUCT: bool = false;  //@ spec
const FOUR: bool = false;  //@ spec
const BLOCK: u32 = 64u;

struct Params {
  blocks: u32,
  count: u32,  // of updates
  inner: u32,  // elements of an update
  skip: u32,  // slots before the first update of this dispatch: 0 or 1
  more: u32,  // slots after the last one: 0 or 1
}

const GROUP: u32 = 256u;
const NOWHERE: u32 = 0xffffffffu;  // the slot of a part that is none

alias value_t = vec4<y_t>;  // of which only the first counts unless FOUR

fn left_range() { overflow_max(0u, 1); }

fn joined_i64(a: y_t, b: y_t) -> y_t {
  if (PRODUCT) { return y_t(mul_i64(i32(a), i32(b))); }
  return y_t(add_i64(i32(a), i32(b)));
}

fn joined(a: value_t, b: value_t) -> value_t {
  if (overflow_present) {
    return value_t(joined_i64(a.x, b.x), joined_i64(a.y, b.y), joined_i64(a.z, b.z), joined_i64(a.w, b.w));
  }
  if (PRODUCT) { return a * b; }
  return a + b;
}

fn slot_at(j: u32) -> u32 { return u32(slots_at(params.skip + j)); }

fn update_at(j: u32, column: u32) -> value_t {
  var u = j;
  if (order_present) { u = u32(order_at(j)); }
  if (FOUR) { return value_t(updates_get4(updates_base(u) + column)); }
  return value_t(y_t(updates_get(updates_base(u) + updates_step(column))));
}

fn put_part(block: u32, end: u32, column: u32, slot: u32, value: value_t) {
  if (!parts_present) { return; }
  let at = 2u * block + end;
  if (column == 0u) { part_slots_put(part_slots_flat(at), part_slots_t(slot)); }
  let to = parts_flat(at * params.inner + column);
  if (FOUR) {
    parts_put4(to, vec4<parts_t>(value));
  } else {
    parts_put(to, parts_t(value.x));
  }
}

fn finish(slot: u32, column: u32, value: value_t) {
  if (slot == NOWHERE) { return; }
  let to = y_flat(slot * params.inner + column);
  if (!y_has(to)) { return; }
  if (FOUR) {
    y_put4(to, joined(y_get4(to), value));
  } else {
    y_put(to, joined(value_t(y_get(to)), value).x);
  }
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  let columns = select(params.inner, params.inner / 4u, FOUR);
  var block = i;
  if (columns > 1u) { block = i / columns; }  // divisions take long
  if (block >= params.blocks) { return; }
  let column = (i - block * columns) * select(1u, 4u, FOUR);
  let begin = block * BLOCK;
  let end = min(begin + BLOCK, params.count);
  let none = value_t(y_t(PRODUCT));
  var slot = slot_at(begin);
  var value = update_at(begin, column);
  // Whether the run began before the block; such a part is the first of the block.
  var began = (begin + params.skip > 0u) && u32(slots_at(params.skip + begin - 1u)) == slot;
  if (!began) { put_part(block, 0u, column, NOWHERE, none); }
  for (var j = begin + 1u; j < end; j++) {
    let next = slot_at(j);
    let update = update_at(j, column);
    if (next == slot) {
      value = joined(value, update);
      continue;
    }
    if (began) {
      put_part(block, 0u, column, slot, value);
    } else {
      finish(slot, column, value);
    }
    began = false;
    slot = next;
    value = update;
  }
  let goes_on = (end < params.count || params.more > 0u) && slot_at(end) == slot;
  if (began) { put_part(block, 0u, column, slot, value); }
  if (!goes_on) {
    if (!began) { finish(slot, column, value); }
    put_part(block, 1u, column, NOWHERE, none);
  } else if (began) {
    put_part(block, 1u, column, slot, none);  // what comes before and behind is one run
  } else {
    put_part(block, 1u, column, slot, value);
  }
}
