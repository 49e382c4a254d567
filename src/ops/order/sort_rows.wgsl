// The first elements of each row of ranks in ascending order, by their indices in `ids` (or in the row); of equal ranks
// the smaller index comes first. A bitonic network in workgroup memory, which holds one row or several short ones.
//@ in x any
//@ in ids any
//@ out y any

const SIZE: u32 = 64u;  //@ spec
const SLOTS: u32 = 512u;  //@ spec
const GROUP: u32 = 256u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  length: u32,
  count: u32,  // of those wanted
}

var<workgroup> slots: array<vec2u, SLOTS>;  // rank, index

fn is_before(a: vec2u, b: vec2u) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let index = group_index(group, groups);
  if (index >= group_count()) { return; }
  let rows = params.first + index * (SLOTS / SIZE);
  for (var i = lane; i < SLOTS; i += GROUP) {
    let row = rows + i / SIZE;
    let j = i % SIZE;
    var slot = vec2u(0xffffffffu);
    if (row < params.end && j < params.length) {
      slot = vec2u(u32(x_get(x_base(row) + x_step(j))), j);
      if (ids_present) { slot.y = u32(ids_get(ids_base(row) + ids_step(j))); }
    }
    slots[i] = slot;
  }
  for (var width = 2u; width <= SIZE; width *= 2u) {
    for (var distance = width / 2u; distance > 0u; distance /= 2u) {
      workgroupBarrier();
      for (var i = lane; i < SLOTS / 2u; i += GROUP) {
        let low = 2u * i - (i & (distance - 1u));
        let high = low + distance;
        let a = slots[low];
        let b = slots[high];
        let ascends = ((low % SIZE) & width) == 0u;
        if (is_before(b, a) == ascends) {
          slots[low] = b;
          slots[high] = a;
        }
      }
    }
  }
  workgroupBarrier();
  for (var i = lane; i < SLOTS; i += GROUP) {
    let row = rows + i / SIZE;
    let j = i % SIZE;
    if (row < params.end && j < params.count) { y_put(y_base(row) + y_step(j), y_t(slots[i].y)); }
  }
}
