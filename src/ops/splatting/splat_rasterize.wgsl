// The pixels of a tile, by a workgroup: it walks the list of its bin, keeps in workgroup memory what the tile may show, and
// each invocation blends it from front to back.
//@ in splats float x4
//@ in lists int
//@ in counts int
//@ include splat_camera
//@ out image float x4
//@ out depth float
//@ use splat_bounds splat_boxes

const TILE: u32 = 16u;  //@ spec
const PLAIN: bool = false;  //@ spec         gamma is 1

const BATCH: u32 = TILE * TILE;
const WORDS: u32 = (BATCH + 31u) / 32u;

struct Params {
  width: u32,
  height: u32,
  splats: u32,
  tiles: u32,  // in a row
  across: u32,  // bins in a row
  edge: u32,  // tiles along the side of a bin
  tile_row: u32,  // the first of this dispatch, whose lists begin with the bins of this row
  threshold: f32,
  gamma: f32,
}

var<workgroup> chosen: array<u32, BATCH>;
var<workgroup> firsts: array<vec4f, BATCH>;
var<workgroup> seconds: array<vec4f, BATCH>;
var<workgroup> thirds: array<vec4f, BATCH>;
var<workgroup> marks: array<atomic<u32>, WORDS>;
var<workgroup> open_pixels: atomic<u32>;
var<workgroup> shared_word: u32;

fn record(splat: u32, quarter: u32) -> vec4f { return splats_get4(splats_flat(20u * splat + 4u * quarter)); }

// The place of this lane among those that are marked.
fn place_of(lane: u32) -> u32 {
  var place = countOneBits(atomicLoad(&marks[lane / 32u]) & ((1u << (lane % 32u)) - 1u));
  for (var word = 0u; word < lane / 32u; word++) { place += countOneBits(atomicLoad(&marks[word])); }
  return place;
}

struct Pixel {
  ray: vec2f,
  light: f32,  // that still comes through
  alpha: f32,
  seen: vec4f,  // colour and distance
}

fn blend(pixel: ptr<function, Pixel>, slot: u32) {
  let first = firsts[slot];
  let second = seconds[slot];
  let third = thirds[slot];
  let d = (*pixel).ray - first.xy;
  let u = first.z * d.x + first.w * d.y;
  let v = second.x * d.y;
  let above = u * u + v * v;
  let slope = dot(second.yz, d);
  let below = 1.0 + 2.0 * slope + second.w * d.x * d.x + 2.0 * third.x * d.x * d.y + third.y * d.y * d.y;
  if (!(above <= third.w * below && slope > -1.0 && below > 0.0 && third.z > 0.0)) { return; }
  let alpha = third.z * exp(-0.5 * above / below);
  let weight = (*pixel).light * alpha;
  (*pixel).seen += weight * record(chosen[slot], 3u);
  (*pixel).alpha += weight;
  (*pixel).light *= 1.0 - alpha;
}

fn finish(pixel: Pixel, at: vec2u) {
  let i = (at.y - params.tile_row * TILE) * params.width + at.x;
  var rgb = max(pixel.seen.xyz + pixel.light * camera_vector(12u), vec3f());
  if (!PLAIN) { rgb = vec3f(pow_f32(rgb.x, params.gamma), pow_f32(rgb.y, params.gamma), pow_f32(rgb.z, params.gamma)); }
  image_put4(image_flat(4u * i), vec4f(rgb, pixel.alpha));
  var far = 0.0;
  if (pixel.alpha > 0.0) { far = pixel.seen.w / pixel.alpha; }
  depth_put(depth_flat(i), far);
}

@compute @workgroup_size(BATCH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let task = group_index(group, groups);
  if (task >= group_count()) { return; }
  let size = vec2u(params.width, params.height);
  let tile = vec2u(task % params.tiles, params.tile_row + task / params.tiles);
  let bin = (tile.y / params.edge - params.tile_row / params.edge) * params.across + tile.x / params.edge;
  let at = TILE * tile + vec2u(lane % TILE, lane / TILE);
  let inside = at.x < size.x && at.y < size.y;
  var pixel = Pixel(ray_of(at, size, focal_length(f32(params.height))), 1.0, 0.0, vec4f());
  begin_bounds(lane);
  if (inside) { add_to_bounds(pixel.ray, pixel.ray); }
  let view = end_bounds();
  if (lane == 0u) { shared_word = min(u32(max(counts_at(bin), 0)), params.splats); }
  let total = workgroupUniformLoad(&shared_word);
  for (var start = 0u; start < total; start += BATCH) {
    if (lane < WORDS) { atomicStore(&marks[lane], 0u); }
    if (lane == 0u) { atomicStore(&open_pixels, 0u); }
    workgroupBarrier();
    var splat = 0u;
    var keep = false;
    if (start + lane < total) {
      splat = min(u32(max(lists_at(bin * params.splats + start + lane), 0)), params.splats - 1u);
      keep = boxes_meet(record(splat, 4u), view);
    }
    if (keep) { atomicOr(&marks[lane / 32u], 1u << (lane % 32u)); }
    let is_open = inside && pixel.light >= params.threshold;
    if (is_open) { atomicStore(&open_pixels, 1u); }
    workgroupBarrier();
    if (lane == 0u) { shared_word = atomicLoad(&open_pixels); }
    if (keep) {
      let slot = place_of(lane);
      chosen[slot] = splat;
      firsts[slot] = record(splat, 0u);
      seconds[slot] = record(splat, 1u);
      thirds[slot] = record(splat, 2u);
    }
    if (workgroupUniformLoad(&shared_word) == 0u) { break; }
    var kept = 0u;
    for (var word = 0u; word < WORDS; word++) { kept += countOneBits(atomicLoad(&marks[word])); }
    for (var slot = 0u; slot < kept; slot++) {
      if (!inside || pixel.light < params.threshold) { break; }
      blend(&pixel, slot);
    }
    workgroupBarrier();
  }
  if (inside) { finish(pixel, at); }
}
