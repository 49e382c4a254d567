// y[r, c, i, j] = the mean, or the largest, of points in bin (i, j) of region r of channel c. A point is interpolated
// between its four neighbours; the largest is that of the weighted neighbours themselves.
//@ in x float
//@ in rois float
//@ in images int
//@ out y float
//@ use flat

const MAX: bool = false;  //@ spec
// Only what these rows of x give: the parts of a sum, or of a maximum, which are joined later.
const PART: bool = false;  //@ spec

struct Params {
  first: u32,
  end: u32,
  channels: u32,
  height: u32,  // of y
  width: u32,
  rows: u32,  // of x
  columns: u32,
  row: u32,  // those of this dispatch
  end_row: u32,
  row_step: u32,  // in memory, modulo 2^32
  column_step: u32,
  sampling: u32,  // 0: as many points as a bin has pixels
  images: u32,  // all there are
  image: u32,  // those of this dispatch
  end_image: u32,
  channel: u32,
  end_channel: u32,
  scale: f32,
  shift: f32,
  least: f32,  // height and width of a region
}

struct Place {
  r: u32,
  c: u32,
  i: u32,
  j: u32,
}
fn place(index: u32) -> Place {
  let line = index / params.width;
  let plane = line / params.height;
  let r = plane / params.channels;
  return Place(r, plane - r * params.channels, line - plane * params.height, index - line * params.width);
}

// Indices outside are clamped.
fn image_of(r: u32) -> u32 { return u32(clamp(images_at(r), 0, i32(params.images) - 1)); }

// The smallest whole number of pieces of that length that cover `all`. Division is not exact, a product is.
fn pieces(all: f32, length: f32) -> u32 {
  if (!(all > 0.0) || is_inf(all)) { return 0u; }
  var n = ceil(all / length);
  if ((n - 1.0) * length >= all) { n -= 1.0; }
  if (n * length < all) { n += 1.0; }
  return u32(n);
}

// Along one axis: two neighbours and the weight of the second.
struct Between {
  low: u32,
  high: u32,
  weight: f32,
  outside: bool,
}
fn between(at: f32, length: u32) -> Between {
  let n = f32(length);
  if (!(at >= -1.0 && at <= n)) { return Between(0u, 0u, 0.0, true); }
  let p = max(at, 0.0);
  let low = u32(p);
  if (low + 1u >= length) { return Between(length - 1u, length - 1u, 0.0, false); }
  return Between(low, low + 1u, p - f32(low), false);
}

fn has_row(row: u32) -> bool { return !PART || (row >= params.row && row < params.end_row); }
// What a point outside x has. It counts once.
fn outside() -> f32 { return select(0.0, -infinity(), MAX && PART && params.row > 0u); }

fn coordinate(r: u32, i: u32) -> f32 { return rois_at(4u * r + i) * params.scale - params.shift; }

fn element(index: u32) -> y_t {
  let at = place(index);
  let base = x_base((image_of(at.r) - params.image) * (params.end_channel - params.channel) + at.c - params.channel);
  let left = coordinate(at.r, 0u);
  let top = coordinate(at.r, 1u);
  let wide = max(coordinate(at.r, 2u) - left, params.least);
  let high = max(coordinate(at.r, 3u) - top, params.least);
  let bin = vec2f(high / f32(params.height), wide / f32(params.width));
  var points = vec2u(params.sampling);
  if (params.sampling == 0u) { points = vec2u(pieces(high, f32(params.height)), pieces(wide, f32(params.width))); }
  var sum = 0.0;
  var any = false;
  for (var i = 0u; i < points.x; i++) {
    let y = between(top + f32(at.i) * bin.x + (f32(i) + 0.5) * bin.x / f32(points.x), params.rows);
    for (var j = 0u; j < points.y; j++) {
      let x = between(left + f32(at.j) * bin.y + (f32(j) + 0.5) * bin.y / f32(points.y), params.columns);
      var v = vec4f(outside());
      if (!y.outside && !x.outside) {
        if (MAX && PART) { v = vec4f(-infinity()); }
        if (has_row(y.low)) {
          let low = base + (y.low - params.row) * params.row_step;
          v.x = (1.0 - y.weight) * (1.0 - x.weight) * x_get(low + x.low * params.column_step);
          v.y = (1.0 - y.weight) * x.weight * x_get(low + x.high * params.column_step);
        }
        if (has_row(y.high)) {
          let high_row = base + (y.high - params.row) * params.row_step;
          v.z = y.weight * (1.0 - x.weight) * x_get(high_row + x.low * params.column_step);
          v.w = y.weight * x.weight * x_get(high_row + x.high * params.column_step);
        }
      }
      if (MAX) {
        let most = max_nan(max_nan(v.x, v.y), max_nan(v.z, v.w));
        sum = select(most, max_nan(sum, most), any);
        any = true;
      } else {
        sum += (v.x + v.y) + (v.z + v.w);
      }
    }
  }
  if (MAX) { return y_t(select(outside(), sum, any)); }
  return y_t(sum / f32(max(points.x * points.y, 1u)));
}

fn owns(index: u32) -> bool {
  let at = place(index);
  let image = image_of(at.r);
  return at.c >= params.channel && at.c < params.end_channel && image >= params.image && image < params.end_image;
}
