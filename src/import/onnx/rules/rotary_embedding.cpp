// RotaryEmbedding of ONNX and of com.microsoft.
#include "import/onnx/rules.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"

namespace rlx::onnx {
namespace {

struct Rotation {
  Value cos, sin;        // [positions, pairs]
  Value positions = {};  // broadcasts to [batch, sequence]; the index in the sequence if it is not given
};

// x is [batch, heads, sequence, head] or [batch, sequence, heads * head].
Value rotated(Call& c, Value x, const Rotation& r, int64_t heads) {
  const Shape& s = x.shape();
  const int64_t partial = c.integer("rotary_embedding_dim", 0);
  const Dim pairs = r.cos.shape()[1];
  if (!pairs.is_static()) fail("its table {} has an unknown number of columns", r.cos.shape().text());
  Dim head = s.rank() == 4 ? s[3] : Dim(2 * pairs.value());
  if (s.rank() == 3 && heads > 0) {
    const auto each = Dim::exact_div(s[2], Dim(heads));
    if (!each) fail("{} elements at each position cannot be divided among {} heads", s[2].text(), heads);
    head = *each;
  }
  const bool interleaved = c.flag("interleaved", false);
  Value positions = r.positions;
  if (positions && s.rank() == 4 && positions.shape().rank() == 2)
    positions = reshape(positions, {positions.shape()[0], 1, positions.shape()[1]});
  return rope(x, r.cos, r.sin, head.value(), interleaved, partial, positions);
}

void check_input(const Call& c) {
  if (c.rank(0) != 3 && c.rank(0) != 4)
    fail("its input {} is neither [batch, sequence, hidden] nor [batch, heads, sequence, head]",
         c.shape(0).text());
}

void rotary_embedding_rule(Call& c) {
  c.expect_inputs(3, 4);
  check_input(c);
  const int64_t heads = c.integer("num_heads", 0);
  if (c.rank(0) == 3 && heads < 1) fail("its attribute 'num_heads' is not given");
  if (c.has(3)) return c.out(rotated(c, c.in(0), {c.in(1), c.in(2), c.in(3)}, heads));
  // Tables [batch, sequence, pairs], a row for each element of the batch and the sequence.
  const Shape rows = c.shape(1);
  if (rows.rank() != 3) fail("its table {} is not [batch, sequence, pairs]", rows.text());
  const Shape flat{rows[0] * rows[1], rows[2]};
  Rotation r{.cos = reshape(c.in(1), flat), .sin = reshape(c.in(2), flat)};
  if (!rows[0].is(1)) r.positions = reshape(range(c.graph(), flat[0], 0, 1, DType::i32), {rows[0], rows[1]});
  c.out(rotated(c, c.in(0), r, heads));
}

// The positions are given, or only the first one. ONNX Runtime does not use the attribute scale.
void microsoft_rule(Call& c) {
  c.expect_inputs(4, 4);
  c.ignores("scale");
  check_input(c);
  if (c.flag("is_packed_batching", false))
    c.refuse(Refusal::other, "the attribute is_packed_batching is not supported");
  const Shape s = c.shape(0);
  Value positions = c.in(1);
  if (positions.shape().rank() < 2) {
    const Dim& length = s[s.rank() - 2];
    positions =
        reshape(range(c.graph(), length, 0, 1, positions.dtype()), {1, length}) + reshape(positions, {1, 1});
  }
  c.out(rotated(c, c.in(0), {c.in(2), c.in(3), positions}, c.integer("num_heads", 0)));
}

}  // namespace

namespace rules {
void register_rotary_embedding(RuleTable& table) {
  table.add("RotaryEmbedding", rotary_embedding_rule);
  table.add(kMicrosoft, "RotaryEmbedding", microsoft_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
