// y = epilogue(a x b), one output element per invocation: any type, any strides.
//@ in a any
//@ in b any
//@ out y any
//@ include matmul

const GROUP: u32 = 64u;

@compute @workgroup_size(GROUP)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = group_index(group, groups) * GROUP + lane;
  if (i >= params.count) { return; }
  let col = i % params.n;
  let row = (i / params.n) % params.m;
  let batch = i / (params.n * params.m);
  var a_at_k = a_base(batch) + row * params.a_row;
  var b_at_k = b_base(batch) + col * params.b_col;
  var sum = y_t();
  for (var k = 0u; k < params.k; k++) {
    sum += y_t(a_get(a_at_k)) * y_t(b_get(b_at_k));
    a_at_k += params.a_col;
    b_at_k += params.b_row;
  }
  y_put(y_base(batch) + row * params.y_row + col, epilogue(sum, i));
}
