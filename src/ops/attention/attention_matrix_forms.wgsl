//@ include attention
//@ include attention_forms
//@ include attention_matrix_loop
