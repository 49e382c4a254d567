// Where an index points along an axis of this size. Negative ones count from the end; those outside are clamped.
fn clamped_index(index: i32, size: u32) -> u32 {
  if (!SIGNED) { return min(u32(index), size - 1u); }
  let length = i32(size);
  return u32(clamp(select(index, index + length, index < 0), 0, length - 1));
}
