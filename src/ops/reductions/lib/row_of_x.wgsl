// What is reduced, where it is x itself. Kernels of mapped reductions have functions of these names that compute it
// (ops/reductions/reduce.cpp), and a row is known by its number.
fn row_start(row: u32) -> u32 { return x_base(row); }
fn one(base: u32, j: u32) -> x_t { return x_get(base + x_step(j)); }
