// The reverse of fft_unpack: from the bins 0 .. m of 2 m floats to the spectrum of m pairs of them, whose real parts are the
// even elements and whose imaginary parts the odd ones.
//@ in x float
//@ in roots float
//@ out z float

const GROUP: u32 = 256u;

struct Params {
  count: u32,  // of elements of z in all rows
  m: u32,
  x_length: u32,  // bins that x has; the others are zero
  low_roots: u32,  // a power of two: roots are products of one of these and a high one
}

fn pair_of_roots(i: u32) -> vec2f { return vec2f(roots_at(2u * i), roots_at(2u * i + 1u)); }

// Bins that are their own mirror images have no imaginary part.
fn bin(row: u32, k: u32) -> vec2f {
  if (k >= params.x_length) { return vec2f(); }
  let p = x_base(row) + x_step(2u * k);
  let own = k == 0u || k == params.m;
  return vec2f(x_get(p), select(x_get(p + 1u), 0.0, own));
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  var row = 0u;
  if (i >= params.m) { row = i / params.m; }
  let k = i - row * params.m;
  let a = bin(row, k);
  let b = complex_conj(bin(row, params.m - k));
  let low = k & (params.low_roots - 1u);
  let high = k >> firstTrailingBit(params.low_roots);
  let root = complex_mul(pair_of_roots(low), pair_of_roots(params.low_roots + high));
  let odd = complex_mul(complex_conj(root), a - b);
  let p = z_flat(2u * i);
  z_put(p, a.x + b.x - odd.y);
  z_put(p + 1u, a.y + b.y + odd.x);
}
