// The ops of this example.
#pragma once

// posterize(x) {levels=4}: the nearest of `levels` values between 0 and 1.
// l1_share(x) {axis=-1}: each element as its share of the sum of absolute values along an axis.
// Call it once, before graphs use them.
void register_ops();
