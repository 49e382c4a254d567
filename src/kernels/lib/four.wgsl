// Four neighbours of a row of x from inner index j on, in one piece when the kernel's FOUR says that rows allow it.
fn four(base: u32, j: u32) -> vec4<x_t> {
  if (FOUR) { return x_get4(base + j); }
  return vec4<x_t>(x_get(base + x_step(j)), x_get(base + x_step(j + 1u)), x_get(base + x_step(j + 2u)),
                   x_get(base + x_step(j + 3u)));
}
