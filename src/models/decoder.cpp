#include <cmath>
#include <string>
#include <vector>

#include "base/border.h"
#include "base/fail.h"
#include "rlx/models.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/rearrange.h"

namespace rlx::models {
namespace {

class Decoder {
 public:
  Decoder(Graph& graph, const DecoderConfig& config) : g_(graph), c_(config) {}

  Value step(Value ids) {
    const Dim length = "length";
    cos_ = slice(rotations([](double x) { return std::cos(x); }), 0, length - 1, 1);
    sin_ = slice(rotations([](double x) { return std::sin(x); }), 0, length - 1, 1);
    Value x = gather(weight("model.embed_tokens", {c_.vocab, c_.hidden}), ids);
    for (int64_t i = 0; i < c_.layers; ++i) {
      const std::string name = "model.layers." + std::to_string(i);
      x = x + attend(name, norm(name + ".input_layernorm", x));
      const Value h = norm(name + ".post_attention_layernorm", x);
      const Value gate = silu(linear(name + ".mlp.gate_proj", h, c_.hidden, c_.intermediate));
      const Value up = linear(name + ".mlp.up_proj", h, c_.hidden, c_.intermediate);
      x = x + linear(name + ".mlp.down_proj", gate * up, c_.intermediate, c_.hidden);
    }
    return linear("lm_head", norm("model.norm", x), c_.hidden, c_.vocab);
  }

 private:
  int64_t head() const { return c_.hidden / c_.heads; }

  Value weight(const std::string& name, Shape shape) {
    return g_.param(name + ".weight", DType::f32, std::move(shape));
  }
  Value norm(const std::string& name, Value x) { return rms_norm(x, weight(name, {c_.hidden}), {}, c_.eps); }
  Value linear(const std::string& name, Value x, int64_t from, int64_t to) {
    return matmul(x, transpose(weight(name, {to, from})));
  }

  // Of each position and each pair of a head's elements.
  template <class F>
  Value rotations(F&& of) {
    const int64_t pairs = head() / 2;
    std::vector<float> values;
    for (int64_t position = 0; position < c_.capacity; ++position) {
      for (int64_t i = 0; i < pairs; ++i) {
        const double turn = std::pow(c_.rope_theta, -static_cast<double>(i) / static_cast<double>(pairs));
        values.push_back(static_cast<float>(of(static_cast<double>(position) * turn)));
      }
    }
    return g_.constant(Tensor::of({c_.capacity, pairs}, values));
  }

  // All values so far, the newest included.
  Value cached(const std::string& name, Value newest) {
    const Dim length = "length";
    const Value state = g_.state(name, DType::f32, {1, c_.capacity, c_.kv_heads * head()});
    return slice(write_state(state, newest, 1, length - 1), 1, 0, length);
  }

  Value attend(const std::string& layer, Value x) {
    const std::string name = layer + ".self_attn";
    const int64_t kv = c_.kv_heads * head();
    const Value q = rope(linear(name + ".q_proj", x, c_.hidden, c_.hidden), cos_, sin_, head());
    const Value k = rope(linear(name + ".k_proj", x, c_.hidden, kv), cos_, sin_, head());
    const Value v = linear(name + ".v_proj", x, c_.hidden, kv);
    const Value y = attention(q, cached(name + ".keys", k), cached(name + ".values", v),
                              {.heads = c_.heads, .kv_heads = c_.kv_heads, .layout = AttentionLayout::bsd});
    return linear(name + ".o_proj", y, c_.hidden, c_.hidden);
  }

  Graph& g_;
  const DecoderConfig& c_;
  Value cos_, sin_;
};

}  // namespace

Graph decoder_step(const DecoderConfig& c) try {
  if (c.heads < 1 || c.hidden % c.heads != 0 || c.hidden / c.heads % 2 != 0) {
    fail(ErrorKind::invalid_argument, "a decoder with {} elements in {} heads: each must have an even number",
         c.hidden, c.heads);
  }
  if (c.kv_heads < 1 || c.heads % c.kv_heads != 0) {
    fail(ErrorKind::invalid_argument, "{} heads cannot share {} heads of keys and values", c.heads,
         c.kv_heads);
  }
  Graph g;
  g.name = "decoder";
  g.set_capacity("length", c.capacity);
  g.output("logits", Decoder(g, c).step(g.input("input_ids", DType::i64, {1, 1})));
  return g;
} catch (...) {
  throw_as_error("building a decoder");
}

}  // namespace rlx::models
