// State space models and linear attention: layers whose memory of what came before is a state of fixed size.
//
// They read [batch, steps, ...] and return {y, state}, the state after the last step. Given as the initial
// state of the next call, a sequence can be read in pieces, or token by token. States and sums are f32
// whatever the types of the inputs (a causal_conv keeps some of x, in its type); y has the type of x, or v.
// Inputs may have different float types.
#pragma once

#include <optional>
#include <vector>

#include "rlx/export.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// What the functions of this page return: a result for each step, and what the next step begins with, which
// is the `initial_state` of a call that goes on.
struct Scanned {
  Value y;
  Value state;
};

struct SelectiveScanOptions {
  Value d = {};                 // [channels]: d x is added to y
  Value z = {};                 // as x: y is multiplied by silu(z), after d x was added
  Value delta_bias = {};        // [channels], added to delta
  bool delta_softplus = false;  // of delta and its bias
  Value initial_state = {};     // f32 [batch, channels, states]; zeros otherwise
};
// Mamba: h = exp(delta a) h + delta x b and y = sum of c h over the states, for each step and channel. x and
// delta [batch, steps, channels], a [channels, states], b and c [batch, steps, states].
Scanned selective_scan(Value x, Value delta, Value a, Value b, Value c,
                       const SelectiveScanOptions& options = {});

// Each head has a state S [keys, values]. q and k [batch, steps, key heads, keys], v [batch, steps, heads,
// values]; the number of heads is a multiple of that of key heads, and neighbouring heads share one of these.
// Decays are logarithms (what is kept is exp(g), -inf forgets everything): g [batch, steps, heads], one for
// each head, or [batch, steps, heads, keys].
struct LinearAttentionOptions {
  std::optional<double> scale = {};  // of y: 1 / sqrt(keys) otherwise
  Value initial_state = {};          // f32 [batch, heads, keys, values]; zeros otherwise
};
// S = exp(g) S + k v^T, y = scale S^T q. Without g nothing is forgotten.
Scanned gated_linear_attention(Value q, Value k, Value v, Value g = {},
                               const LinearAttentionOptions& options = {});
// S = exp(g) S, S = S + k (beta (v - S^T k))^T, y = scale S^T q. beta [batch, steps, heads].
Scanned gated_delta_net(Value q, Value k, Value v, Value g, Value beta,
                        const LinearAttentionOptions& options = {});
// RWKV-6: y = scale (S + u k v^T)^T r, then S = exp(w) S + k v^T. w as v but of keys, u [heads, keys]. The
// scale is 1 unless given.
Scanned rwkv6(Value r, Value k, Value v, Value w, Value u, const LinearAttentionOptions& options = {});

struct StateSpaceDualOptions {
  Value d = {};                 // [heads]: d x is added to y
  Value z = {};                 // as x: y is multiplied by silu(z), after d x was added
  Value delta_bias = {};        // [heads], added to delta
  bool delta_softplus = false;  // of delta and its bias
  Value initial_state = {};     // f32 [batch, heads, states, values]; zeros otherwise
};
// Mamba-2: one decay for each head and step. S = exp(delta a) S + b (delta x)^T, y = S^T c. x [batch, steps,
// heads, values], delta [batch, steps, heads], a [heads], b and c [batch, steps, groups, states].
Scanned state_space_dual(Value x, Value delta, Value a, Value b, Value c,
                         const StateSpaceDualOptions& options = {});

struct CausalConvOptions {
  Value bias = {};           // [channels]
  bool silu = false;         // of the result
  Value initial_state = {};  // [batch, width - 1, channels], what came before x; zeros otherwise
};
// A short convolution of each channel along the steps: y[t] = sum of w[:, i] x[t - width + 1 + i]. x [batch,
// steps, channels], w [channels, width] with a width of 1 to 32. The state is the last width - 1 steps of x,
// in its type.
Scanned causal_conv(Value x, Value w, const CausalConvOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
