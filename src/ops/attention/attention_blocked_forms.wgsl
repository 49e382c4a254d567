//@ include attention
//@ include attention_forms
//@ include attention_blocked_loop
