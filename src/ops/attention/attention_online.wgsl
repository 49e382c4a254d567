//@ include attention
//@ include attention_dense
//@ include attention_online_loop
