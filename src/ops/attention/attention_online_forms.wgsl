//@ include attention
//@ include attention_forms
//@ include attention_online_loop
