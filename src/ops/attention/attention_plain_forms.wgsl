//@ include attention
//@ include attention_forms
//@ include attention_plain_loop
