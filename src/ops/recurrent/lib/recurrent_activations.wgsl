// What the gates, the candidate and the output of a recurrent cell go through by default. Lowering puts others in their
// place; `d` is the direction, which may have its own.
fn activation_0(d: u32, x: f32) -> f32 { return sigmoid(x); }
fn activation_1(d: u32, x: f32) -> f32 { return tanh_f32(x); }
fn activation_2(d: u32, x: f32) -> f32 { return tanh_f32(x); }
