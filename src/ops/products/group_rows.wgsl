// Sorts rows by expert into slots of `tile` rows, each slot for one expert. Rows without an expert have slots of their
// own, for the expert past the last; slots that are not used have the expert -1, and so have places for the row.
//@ in expert int
//@ out slot int
//@ out place int

struct Params {
  rows: u32,
  experts: u32,
  tile: u32,
  slots: u32,
}

const GROUP: u32 = 256u;
const MOST_EXPERTS: u32 = 1024u;

var<workgroup> rows_of: array<atomic<u32>, MOST_EXPERTS + 1u>;
var<workgroup> first_slot: array<u32, MOST_EXPERTS + 2u>;

fn expert_of(row: u32) -> u32 { return min(u32(expert_at(row)), params.experts); }

@compute @workgroup_size(GROUP)
fn main(@builtin(local_invocation_index) lane: u32) {
  for (var s = lane; s < params.slots; s += GROUP) { slot_put(s, -1); }
  for (var p = lane; p < params.slots * params.tile; p += GROUP) { place_put(p, -1); }
  for (var e = lane; e <= params.experts; e += GROUP) { atomicStore(&rows_of[e], 0u); }
  storageBarrier();
  workgroupBarrier();
  for (var r = lane; r < params.rows; r += GROUP) { atomicAdd(&rows_of[expert_of(r)], 1u); }
  workgroupBarrier();
  if (lane == 0u) {
    var next = 0u;
    for (var e = 0u; e <= params.experts; e++) {
      first_slot[e] = next;
      next += (atomicExchange(&rows_of[e], 0u) + params.tile - 1u) / params.tile;
    }
    first_slot[params.experts + 1u] = next;
  }
  workgroupBarrier();
  for (var e = lane; e <= params.experts; e += GROUP) {
    for (var s = first_slot[e]; s < first_slot[e + 1u]; s++) { slot_put(s, i32(e)); }
  }
  for (var r = lane; r < params.rows; r += GROUP) {
    let e = expert_of(r);
    place_put(first_slot[e] * params.tile + atomicAdd(&rows_of[e], 1u), i32(r));
  }
}
