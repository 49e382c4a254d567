// Writes four neighbours of a row of y from inner index j on, the counterpart of lib/four.wgsl.
fn put_four(base: u32, j: u32, v: vec4<y_t>) {
  if (FOUR) {
    y_put4(base + j, v);
  } else {
    y_put(base + y_step(j), v.x);
    y_put(base + y_step(j + 1u), v.y);
    y_put(base + y_step(j + 2u), v.z);
    y_put(base + y_step(j + 3u), v.w);
  }
}
