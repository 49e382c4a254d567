// Boxes are x and y of the lower corner, and of the upper one.
fn boxes_meet(a: vec4f, b: vec4f) -> bool { return all(a.xy <= b.zw) && all(b.xy <= a.zw); }
