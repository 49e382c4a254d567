//@ include attention
//@ include attention_dense
//@ include attention_matrix_loop
