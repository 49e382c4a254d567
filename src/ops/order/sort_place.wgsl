// Moves ranks and their indices to where they belong when ordered by one digit (see sort_count): `before` has, for each
// digit of each block, how many elements of the row come before its first. Equal digits stay in order. Without `ids`,
// the indices are those in the row; only the first `count` of each row are kept.
//@ in x any
//@ in ids any
//@ in before any
//@ out sorted any
//@ out y any
//@ use team_serial digits

const TEAM: u32 = 1u;  //@ spec

struct Params {
  first: u32,
  end: u32,
  blocks: u32,  // of each row, as far as this dispatch has them
  length: u32,  // of rows, likewise
  share: u32,
  shift: u32,
  index: u32,  // of the first element in the whole row
  count: u32,
}

alias team_t = vec4u;

fn merge(a: vec4u, b: vec4u) -> vec4u { return a + b; }

fn row_task(task: u32, lane: u32, width: u32) {
  let row = task / params.blocks;
  let block = task - row * params.blocks;
  let base = x_base(row);
  let begin = (block * TEAM + lane) * params.share;
  let end = min(begin + params.share, params.length);
  var next = Counts();
  if (TEAM > 1u) {
    for (var j = begin; j < end; j++) { next[digit_of(u32(x_get(base + x_step(j))))]++; }
    next = unpacked_counts(team_scan(packed_counts(next, 0u), vec4u(0u), lane, width).before,
                           team_scan(packed_counts(next, 8u), vec4u(0u), lane, width).before);
  }
  for (var d = 0u; d < DIGITS; d++) {
    next[d] += u32(before_get(before_base(row) + before_step(d * params.blocks + block)));
  }
  for (var j = begin; j < end; j++) {
    let rank = u32(x_get(base + x_step(j)));
    let digit = digit_of(rank);
    let place = next[digit];
    next[digit] = place + 1u;
    if (place >= params.count) { continue; }
    var index = params.index + j;
    if (ids_present) { index = u32(ids_get(ids_base(row) + ids_step(j))); }
    let to = y_base(row) + y_step(place);
    if (y_has(to)) { y_put(to, y_t(index)); }
    if (!sorted_present) { continue; }
    let sorted_to = sorted_base(row) + sorted_step(place);
    if (sorted_has(sorted_to)) { sorted_put(sorted_to, sorted_t(rank)); }
  }
}
