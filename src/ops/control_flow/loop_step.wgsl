// The end of an iteration: counts it unless the loop had ended before, and notes whether the loop goes on.
//@ in more int
//@ out going int atomic
//@ out iteration int atomic

@compute @workgroup_size(1)
fn main() {
  if (going_add(going_flat(0u), 0) == 0) { return; }
  iteration_add(iteration_flat(0u), 1);
  if (more_at(0u) == 0) { going_exchange(going_flat(0u), 0); }
}
