// A number that the host reads.
//@ in x int
//@ out y int

@compute @workgroup_size(1)
fn main() { y_put(y_flat(0u), x_at(0u)); }
