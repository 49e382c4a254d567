// The spectrum of 2 m floats from that of m pairs of them, z: even elements are real parts and odd ones imaginary parts, so
// that each bin of z and its mirror image have the bins of both, e and o, and the result is e + root o.
//@ in z float
//@ in roots float
//@ out y float

const GROUP: u32 = 256u;

struct Params {
  count: u32,  // of bins in all rows
  m: u32,
  y_length: u32,  // bins that are wanted
  low_roots: u32,  // a power of two: roots are products of one of these and a high one
  scale: f32,
  turn: f32,  // of the imaginary parts: 1, or -1 for the inverse
}

fn pair_of_roots(i: u32) -> vec2f { return vec2f(roots_at(2u * i), roots_at(2u * i + 1u)); }

fn pair_of_z(i: u32) -> vec2f { return vec2f(z_at(2u * i), z_at(2u * i + 1u)); }

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  var row = 0u;
  if (i >= params.y_length) { row = i / params.y_length; }
  let bin = i - row * params.y_length;
  let mirrored = bin > params.m;
  let k = select(bin, 2u * params.m - bin, mirrored);
  let a = pair_of_z(row * params.m + select(k, 0u, k == params.m));
  let b = complex_conj(pair_of_z(row * params.m + select(params.m - k, 0u, k == 0u)));
  let even = 0.5 * (a + b);
  let d = 0.5 * (a - b);
  let low = k & (params.low_roots - 1u);
  let high = k >> firstTrailingBit(params.low_roots);
  let root = complex_mul(pair_of_roots(low), pair_of_roots(params.low_roots + high));
  let v = params.scale * (even + complex_mul(root, vec2f(d.y, -d.x)));
  let p = y_base(row) + y_step(2u * bin);
  y_put(p, v.x);
  y_put(p + 1u, v.y * select(params.turn, -params.turn, mirrored));
}
