//@ include attention
//@ include attention_dense
//@ include attention_plain_loop
