// y[bin] = the box around the rays of all pixels of a bin, a square of `edge` pixels.
//@ include splat_camera
//@ out y float
//@ use splat_bounds

const GROUP: u32 = 64u;

struct Params {
  width: u32,
  height: u32,
  across: u32,  // bins
  edge: u32,
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let bin = group_index(group, groups);
  if (bin >= group_count()) { return; }
  begin_bounds(lane);
  let size = vec2u(params.width, params.height);
  let focal = focal_length(f32(params.height));
  let first = vec2u(bin % params.across, bin / params.across) * params.edge;
  let extent = min(size - first, vec2u(params.edge));
  var low = vec2f(1e30);
  var high = vec2f(-1e30);
  for (var i = lane; i < extent.x * extent.y; i += GROUP) {
    let ray = ray_of(first + vec2u(i % extent.x, i / extent.x), size, focal);
    if (!is_nan(ray.x + ray.y)) {
      low = min(low, ray);
      high = max(high, ray);
    }
  }
  add_to_bounds(low, high);
  let box = end_bounds();
  if (lane < 4u) { y_put(y_flat(bin * 4u + lane), box[lane]); }
}
