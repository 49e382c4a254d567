// What a splat looks like from the camera, twenty numbers (docs/splatting.md), and its rank by distance. One that cannot be
// seen is zero, with an empty box, and comes last.
//@ in positions float
//@ in scales float
//@ in rotations float
//@ in opacities float
//@ in colors float
//@ include splat_camera
//@ out records float x4
//@ out ranks any

const COEFFICIENTS: u32 = 0u;  //@ spec        0: colours are RGB
const LOGIT: bool = false;  //@ spec
const XYZW: bool = false;  //@ spec
const FROM_CAMERA: bool = false;  //@ spec
const CLAMP: bool = false;  //@ spec
const BLUR: bool = false;  //@ spec
const ANTIALIASED: bool = false;  //@ spec
const GROUP: u32 = 64u;

struct Params {
  splats: u32,
  height: f32,
  radius_scale: f32,
  cutoff: f32,
  blur: f32,
}

// The columns are the splat's axes in the world.
fn rotation_of(i: u32) -> mat3x3f {
  let given = vec4f(rotations_at(4u * i), rotations_at(4u * i + 1u), rotations_at(4u * i + 2u), rotations_at(4u * i + 3u));
  let q = select(given.yzwx, given, XYZW) / length(given);
  let v = q.xyz;
  return mat3x3f(1.0 - 2.0 * (v.y * v.y + v.z * v.z), 2.0 * (v.x * v.y + q.w * v.z), 2.0 * (v.x * v.z - q.w * v.y),
                 2.0 * (v.x * v.y - q.w * v.z), 1.0 - 2.0 * (v.x * v.x + v.z * v.z), 2.0 * (v.y * v.z + q.w * v.x),
                 2.0 * (v.x * v.z + q.w * v.y), 2.0 * (v.y * v.z - q.w * v.x), 1.0 - 2.0 * (v.x * v.x + v.y * v.y));
}

fn color(i: u32, k: u32) -> vec3f {
  let at = 3u * (i * max(COEFFICIENTS, 1u) + k);
  return vec3f(colors_at(at), colors_at(at + 1u), colors_at(at + 2u));
}

fn color_along(i: u32, d: vec3f) -> vec3f {
  if (COEFFICIENTS == 0u) { return color(i, 0u); }
  var rgb = 0.5 + 0.28209479177387814 * color(i, 0u);
  if (COEFFICIENTS >= 4u) {
    rgb += 0.4886025119029199 * (d.z * color(i, 2u) - d.y * color(i, 1u) - d.x * color(i, 3u));
  }
  let s = d * d;
  if (COEFFICIENTS >= 9u) {
    rgb += 1.0925484305920792 * (d.x * d.y * color(i, 4u) - d.y * d.z * color(i, 5u) - d.x * d.z * color(i, 7u));
    rgb += 0.31539156525252005 * (2.0 * s.z - s.x - s.y) * color(i, 6u);
    rgb += 0.5462742152960396 * (s.x - s.y) * color(i, 8u);
  }
  if (COEFFICIENTS >= 16u) {
    rgb -= 0.5900435899266435 * (d.y * (3.0 * s.x - s.y) * color(i, 9u) + d.x * (s.x - 3.0 * s.y) * color(i, 15u));
    rgb += 2.890611442640554 * d.x * d.y * d.z * color(i, 10u);
    rgb -= 0.4570457994644658 * (4.0 * s.z - s.x - s.y) * (d.y * color(i, 11u) + d.x * color(i, 13u));
    rgb += 0.3731763325901154 * d.z * (2.0 * s.z - 3.0 * s.x - 3.0 * s.y) * color(i, 12u);
    rgb += 1.445305721320277 * d.z * (s.x - s.y) * color(i, 14u);
  }
  return select(rgb, max(rgb, vec3f()), CLAMP);
}

// Around the centre: the squared distance of a ray from it, in standard deviations, is
// ((l.x dx + l.y dy)^2 + (l.z dy)^2) / (1 + 2 (linear . d) + square.x dx^2 + 2 square.y dx dy + square.z dy^2).
struct Shape {
  l: vec3f,
  linear: vec2f,
  square: vec3f,
}

fn shape_of(i: u32, camera: Camera, from_camera: vec3f, depth: f32) -> Shape {
  let exponent = vec3f(scales_at(3u * i), scales_at(3u * i + 1u), scales_at(3u * i + 2u));
  let sigma = vec3f(exp_f32(exponent.x), exp_f32(exponent.y), exp_f32(exponent.z));
  let s = max(3.0 * sigma * params.radius_scale, vec3f(1e-6)) / 3.0;
  let axes = rotation_of(i);
  let a = depth * (camera.right * axes) / s;
  let b = depth * (camera.up * axes) / s;
  let w = (from_camera * axes) / s;
  let far = length(w);
  let n = w / far;
  let p = cross(a, n);
  let q = cross(b, n);
  let first = length(p);
  // The product of both diagonal elements is the area that one standard deviation has; in this form nothing cancels.
  let last = (depth / s.x) * (depth / s.y) * ((depth / s.z) / far) / first;
  let square = vec3f(dot(a, a), dot(a, b), dot(b, b)) / far / far;
  return Shape(vec3f(first, dot(p, q) / first, last), vec2f(dot(a, n), dot(b, n)) / far, square);
}

// Widens the shape by a variance, and returns by how much its area shrinks in comparison.
fn widen(shape: ptr<function, Shape>, variance: f32) -> f32 {
  let l = (*shape).l;
  let yy = 1.0 / (l.z * l.z);
  let xx = (1.0 + (l.y * l.y) * yy) / (l.x * l.x);
  let xy = -l.y * yy / l.x;
  let area = yy / (l.x * l.x);
  let wide = area + variance * (xx + yy + variance);
  let wide_yy = yy + variance;
  (*shape).l.x = sqrt(wide_yy / wide);
  (*shape).l.y = -xy / (wide * (*shape).l.x);
  (*shape).l.z = 1.0 / sqrt(wide_yy);
  return sqrt(area / wide);
}

// Around all places where the squared distance is at most `most`; everything where that is no ellipse.
fn box_around(shape: Shape, center: vec2f, most: f32) -> vec4f {
  let m = vec3f(shape.l.x * shape.l.x, shape.l.x * shape.l.y, shape.l.y * shape.l.y + shape.l.z * shape.l.z);
  let k = m - most * shape.square;
  let sizes = abs(m) + most * abs(shape.square);
  let slack = 2e-6 * (sizes.x * sizes.z + sizes.y * sizes.y);
  let determinant = k.x * k.z - k.y * k.y;
  let everything = vec4f(-1e30, -1e30, 1e30, 1e30);
  if (!(k.x > 0.0 && k.z > 0.0 && determinant > 4.0 * slack)) { return everything; }
  let d = -most * shape.linear;
  let middle = (k.y * d.yx - k.zx * d) / determinant;
  let size = most - dot(d, middle);
  let error = slack / determinant;
  let half = sqrt(max(k.zx * size / determinant, vec2f())) * (1.0001 + error) + 2.0 * error * abs(middle) +
             1e-6 * abs(center);
  return vec4f(center + middle - half, center + middle + half);
}

fn hide(i: u32) {
  for (var k = 0u; k < 16u; k += 4u) { records_put4(records_flat(20u * i + k), vec4f()); }
  records_put4(records_flat(20u * i + 16u), vec4f(1e30, 1e30, -1e30, -1e30));
  ranks_put(ranks_flat(i), ranks_t(0xffffffffu));
}

fn is_finite4(v: vec4f) -> bool {
  let sum = dot(abs(v), vec4f(1.0));
  return !is_nan(sum) && !is_inf(sum);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.splats) { return; }
  let camera = load_camera();
  let focal = focal_length(params.height);
  let from_camera = vec3f(positions_at(3u * i), positions_at(3u * i + 1u), positions_at(3u * i + 2u)) - camera.position;
  let m = vec3f(dot(camera.right, from_camera), dot(camera.up, from_camera), dot(camera.forward, from_camera));
  let is_far = camera_at(11u) > camera_at(10u) && m.z >= camera_at(11u);
  if (!(m.z > max(camera_at(10u), 1e-4)) || is_far) {
    hide(i);
    return;
  }
  var shape = shape_of(i, camera, from_camera, m.z);
  var opacity = opacities_at(i);
  if (LOGIT) { opacity = 1.0 / (1.0 + exp_f32(-opacity)); }
  if (!is_nan(opacity)) { opacity = clamp(opacity, 0.0, 1.0); }
  if (BLUR) {
    let less = widen(&shape, params.blur / (focal * focal));
    if (ANTIALIASED) { opacity *= less; }
  }
  let distance = length(from_camera);
  var direction = vec3f();
  if (distance >= 1e-8) { direction = select(-from_camera, from_camera, FROM_CAMERA) / distance; }
  let center = m.xy / m.z;
  let most = max(0.0, 2.0 * log_f32(opacity / params.cutoff));
  let first = vec4f(center, shape.l.xy);
  let second = vec4f(shape.l.z, shape.linear, shape.square.x);
  let third = vec4f(shape.square.yz, opacity, most);
  let fourth = vec4f(color_along(i, direction), distance);
  if (!(opacity >= params.cutoff) || !is_finite4(first) || !is_finite4(second) || !is_finite4(third) ||
      !is_finite4(fourth)) {
    hide(i);
    return;
  }
  let at = 20u * i;
  records_put4(records_flat(at), first);
  records_put4(records_flat(at + 4u), second);
  records_put4(records_flat(at + 8u), third);
  records_put4(records_flat(at + 12u), fourth);
  records_put4(records_flat(at + 16u), box_around(shape, center, most));
  ranks_put(ranks_flat(i), ranks_t(bitcast<u32>(distance)));
}
