// The camera of splatting kernels: position, target, up, field of view, near, far, background and, if DISTORTED, the
// coefficients of a lens. In the plane at depth 1 before the camera, places are x along `right` and y along `up`.
//@ in camera float

const DISTORTED: bool = false;  //@ spec

struct Camera {
  position: vec3f,
  right: vec3f,
  up: vec3f,
  forward: vec3f,
}

fn camera_vector(i: u32) -> vec3f { return vec3f(camera_at(i), camera_at(i + 1u), camera_at(i + 2u)); }

fn unit_vector(v: vec3f) -> vec3f {
  let size = length(v);
  if (size < 1e-8) { return vec3f(0.0, 0.0, 1.0); }
  return v / size;
}

fn load_camera() -> Camera {
  let position = camera_vector(0u);
  let forward = unit_vector(camera_vector(3u) - position);
  let right = unit_vector(cross(camera_vector(6u), forward));
  return Camera(position, right, unit_vector(cross(forward, right)), forward);
}

// In pixels. The angle is in degrees.
fn focal_length(height: f32) -> f32 { return 0.5 * height / tan_f32(camera_at(9u) * 0.008726646259971648); }

fn lens(i: u32) -> f32 { return camera_at(15u + i); }

// Newton steps towards the place whose image through the lens is at `seen`.
fn undistorted(seen: vec2f) -> vec2f {
  let k = array<f32, 8>(lens(0u), lens(1u), lens(2u), lens(3u), lens(4u), lens(5u), lens(6u), lens(7u));
  var p = seen;
  for (var step = 0; step < 8; step++) {
    let r = dot(p, p);
    let top = 1.0 + r * (k[0] + r * (k[1] + r * k[4]));
    let bottom = 1.0 + r * (k[5] + r * (k[6] + r * k[7]));
    let radial = top / bottom;
    let slope = (k[0] + r * (2.0 * k[1] + r * 3.0 * k[4]) - radial * (k[5] + r * (2.0 * k[6] + r * 3.0 * k[7]))) / bottom;
    let skew = 2.0 * p.x * p.y;
    let error = p * radial + vec2f(k[2] * skew + k[3] * (r + 2.0 * p.x * p.x),
                                   k[2] * (r + 2.0 * p.y * p.y) + k[3] * skew) - seen;
    let xx = radial + 2.0 * p.x * p.x * slope + 2.0 * k[2] * p.y + 6.0 * k[3] * p.x;
    let xy = skew * slope + 2.0 * (k[2] * p.x + k[3] * p.y);
    let yy = radial + 2.0 * p.y * p.y * slope + 6.0 * k[2] * p.y + 2.0 * k[3] * p.x;
    p -= vec2f(yy * error.x - xy * error.y, xx * error.y - xy * error.x) / (xx * yy - xy * xy);
  }
  return p;
}

// Where the ray through the middle of a pixel meets the plane.
fn ray_of(pixel: vec2u, size: vec2u, focal: f32) -> vec2f {
  let p = (vec2f(pixel) + 0.5 - 0.5 * vec2f(size)) / focal;
  if (DISTORTED) { return undistorted(p); }
  return p;
}
