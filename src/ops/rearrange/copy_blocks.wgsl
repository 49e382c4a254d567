// y = x for a transpose: neighbours of y lie apart in x, and those of another axis side by side. Blocks of four by four
// are read and written in fours; the views walk from block to block.
//@ in x any x4
//@ out y any x4
//@ use each

struct Params {
  first: u32,
  end: u32,
  x_step: u32,  // between neighbours of y
  y_step: u32,  // between neighbours of x
}

fn task(i: u32) {
  let at = x_flat(i);
  let a = x_get4(at);
  let b = x_get4(at + params.x_step);
  let c = x_get4(at + 2u * params.x_step);
  let d = x_get4(at + 3u * params.x_step);
  let to = y_flat(i);
  y_put4(to, vec4<y_t>(a.x, b.x, c.x, d.x));
  y_put4(to + params.y_step, vec4<y_t>(a.y, b.y, c.y, d.y));
  y_put4(to + 2u * params.y_step, vec4<y_t>(a.z, b.z, c.z, d.z));
  y_put4(to + 3u * params.y_step, vec4<y_t>(a.w, b.w, c.w, d.w));
}
