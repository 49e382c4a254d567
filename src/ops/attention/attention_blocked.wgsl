//@ include attention
//@ include attention_dense
//@ include attention_blocked_loop
