// Rotations and writes of caches, and reads that must stay before a write.
#include <gtest/gtest.h>

#include "ir/states.h"
#include "passes/passes.h"
#include "plan/program.h"
#include "rlx/graph.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

struct RopeText {
  std::string x = "%x = input : f32[2, 3, 28]";
  std::string q = "slice(%x) {axis=2, start=0, length=16}";
  std::string k = "slice(%x) {axis=-1, start=16, length=8}";
  std::string rope_q = "rope(%a, %c, %s) {head_dim=8}";
  std::string rope_k = "rope(%b, %c, %s) {head_dim=8}";
  std::string end = "%y = neg(%q)\n%z = exp(%k)\noutput y = %y\noutput z = %z\n";

  std::string text() const {
    return x + "\n%c = input : f32[5, 4]\n%s = input : f32[5, 4]\n%t = input : f32[5, 4]\n" +
           "%p = input : i32[3]\n%half = input : f32[5, 2]\n%a = " + q + "\n%b = " + k + "\n%q = " + rope_q +
           "\n%k = " + rope_k + "\n" + end;
  }
};

TEST(JoinRopes, JoinsNeighboursWithTheSameTables) {
  expect_cases(
      join_ropes, ".joined = rope(",
      {
          {"plain", RopeText{}.text(), true},
          {"not from the start of a head",
           RopeText{.q = "slice(%x) {axis=2, start=3, length=16}",
                    .k = "slice(%x) {axis=2, start=19, length=8}"}
               .text(),
           true},
          {"the second in the graph lies first",
           RopeText{.q = "slice(%x) {axis=2, start=8, length=8}",
                    .k = "slice(%x) {axis=2, start=0, length=8}"}
               .text(),
           true},
          {"with positions",
           RopeText{.rope_q = "rope(%a, %c, %s, %p) {head_dim=8}",
                    .rope_k = "rope(%b, %c, %s, %p) {head_dim=8}"}
               .text(),
           true},
          {"interleaved, half of a head",
           RopeText{.rope_q = "rope(%a, %half, %half) {head_dim=8, rotated=4, interleaved=true}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4, interleaved=true}"}
               .text(),
           true},
          {"16-bit floats", RopeText{.x = "%x = input : bf16[2, 3, 28]"}.text(), true},
          {"a third that lies apart",
           RopeText{.x = "%x = input : f32[2, 3, 40]",
                    .end = "%d = slice(%x) {axis=2, start=32, length=8}\n%v = rope(%d, %c, %s) {head_dim=8}\n"
                           "%y = neg(%q)\n%z = exp(%k)\n%w = neg(%v)\noutput y = %y\noutput z = %z\n"
                           "output w = %w\n"}
               .text(),
           true},
          {"a slice that others read too",
           RopeText{.end = "%y = neg(%q)\n%z = mul(%k, %b)\noutput y = %y\noutput z = %z\n"}.text(), true},
          {"a gap", RopeText{.k = "slice(%x) {axis=2, start=18, length=8}"}.text(), false},
          {"an overlap", RopeText{.k = "slice(%x) {axis=2, start=8, length=8}"}.text(), false},
          {"the same slice", RopeText{.q = "slice(%x) {axis=2, start=16, length=8}"}.text(), false},
          {"along another axis",
           RopeText{.x = "%x = input : f32[2, 6, 8]",
                    .q = "slice(%x) {axis=1, start=0, length=3}",
                    .k = "slice(%x) {axis=1, start=3, length=3}"}
               .text(),
           false},
          {"every second element",
           RopeText{.q = "slice(%x) {axis=2, start=0, length=8, step=2}",
                    .k = "slice(%x) {axis=2, start=8, length=8, step=2}"}
               .text(),
           false},
          {"backwards", RopeText{.q = "slice(%x) {axis=2, start=15, length=16, step=-1}"}.text(), false},
          {"other cosines", RopeText{.rope_k = "rope(%b, %t, %s) {head_dim=8}"}.text(), false},
          {"other sines", RopeText{.rope_k = "rope(%b, %c, %t) {head_dim=8}"}.text(), false},
          {"positions for one of them", RopeText{.rope_k = "rope(%b, %c, %s, %p) {head_dim=8}"}.text(),
           false},
          {"pairs of other elements",
           RopeText{.rope_k = "rope(%b, %c, %s) {head_dim=8, interleaved=true}"}.text(), false},
          {"heads of another size",
           RopeText{.rope_q = "rope(%a, %half, %half) {head_dim=4}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4}"}
               .text(),
           false},
          {"another part of a head is rotated",
           RopeText{.rope_q = "rope(%a, %c, %s) {head_dim=8}",
                    .rope_k = "rope(%b, %half, %half) {head_dim=8, rotated=4}"}
               .text(),
           false},
          {"slices of different values",
           RopeText{.x = "%x = input : f32[2, 3, 28]\n%other = neg(%x)",
                    .k = "slice(%other) {axis=2, start=16, length=8}"}
               .text(),
           false},
          {"one after the other",
           RopeText{.k = "slice(%x) {axis=2, start=16, length=8}",
                    .rope_q = "rope(%a, %c, %s) {head_dim=8}\n"
                              "%r = slice(%q) {axis=2, start=8, length=8}",
                    .rope_k = "rope(%r, %c, %s) {head_dim=8}"}
               .text(),
           false},
          {"one is an output", RopeText{.end = "%y = neg(%q)\noutput y = %y\noutput z = %k\n"}.text(), false},
          {"before and after a write of the state that they are slices of",
           RopeText{.x = "%u = input : f32[2, 1, 28]\n%old = state : f32[2, 3, 28]\n"
                         "%x = write_state(%old, %u) {axis=1, start=1}",
                    .q = "slice(%old) {axis=2, start=0, length=16}"}
               .text(),
           false},
      });
}

// What is read before a write is not read after it.
TEST(Fusions, DoNotMoveReadsPastAWrite) {
  const auto expect_schedule = [](const Graph& g) { EXPECT_NO_THROW(schedule(g)) << to_text(g); };
  expect_schedule(fuse_epilogue(graph_of("%s = state : f32[4, 4]\n%u = input : f32[4, 4]\n"
                                         "%m = matmul(%s, %u)\n%n = write_state(%s, %u) {start=0}\n"
                                         "%y = add(%m, %n)\noutput y = %y"),
                                7));
  expect_schedule(
      fuse_residual_norm(graph_of("%s = state : f32[4]\n%u = input : f32[4]\n%a = add(%s, %u)\n"
                                  "%n = write_state(%s, %u) {start=0}\n%y = rms_norm(%a, %n)\n"
                                  "output y = %y")));
  expect_schedule(
      fuse_attention(graph_of("%s = state : f32[1, 1, 4, 4]\n%u = input : f32[1, 1, 4, 4]\n"
                              "%v = reshape(%s) {shape=[1, 1, 4, 4]}\n%m = matmul(%v, %u)\n"
                              "%p = softmax(%m)\n%n = write_state(%s, %u) {start=0}\n"
                              "%y = matmul(%p, %n)\noutput y = %y")));
  expect_schedule(
      fuse_norms(graph_of("%s = state : f32[4]\n%u = input : f32[4]\n%q = square(%s)\n"
                          "%m = mean(%q) {axes=[-1], keepdims=true}\n%e = add(%m, 1e-5)\n"
                          "%d = sqrt(%e)\n%a = div(%s, %d)\n%n = write_state(%s, %u) {start=0}\n"
                          "%y = mul(%a, %n)\noutput y = %y")));
  expect_schedule(fuse_elementwise(graph_of("%s = state : f32[4]\n%u = input : f32[4]\n%a = exp(%s)\n"
                                            "%n = write_state(%s, %u) {start=0}\n%y = add(%a, %n)\n"
                                            "output y = %y"),
                                   7));
}

// Two writes, of %s and %t.
struct WriteText {
  std::string before = "";
  std::string write_s = "write_state(%s, %u) {axis=1, start=3}";
  std::string between = "";
  std::string write_t = "write_state(%t, %v) {axis=1, start=3}";
  std::string end = "";

  std::string text() const {
    return "%s = state : f32[2, 8]\n%t = state : f32[2, 8]\n%u = input : f32[2, 1]\n%v = input : f32[2, "
           "1]\n" +
           before + "\n%m = " + write_s + "\n" + between + "\n%n = " + write_t +
           "\noutput m = %m\noutput n = %n\n" + end;
  }
};

TEST(JoinWrites, JoinsTwoThatDoNotDependOnEachOther) {
  const auto pass = [](const Graph& g) {
    Graph joined = join_writes(g);
    EXPECT_NO_THROW(schedule(joined)) << to_text(joined);
    return joined;
  };
  expect_cases(
      pass, "states=2",
      {
          {"plain", WriteText{}.text(), true},
          {"the first is read between them",
           WriteText{.between = "%r = slice(%m) {axis=1, start=0, length=4}\n%e = exp(%r)",
                     .end = "output e = %e"}
               .text(),
           true},
          {"the second's update is made between them",
           WriteText{.between = "%w = exp(%v)", .write_t = "write_state(%t, %w) {axis=1, start=3}"}.text(),
           true},
          {"the second's old contents are read between them",
           WriteText{.between = "%o = exp(%t)", .end = "output o = %o"}.text(), true},
          {"both old contents are read before",
           WriteText{.before = "%o = add(%s, %t)", .end = "output o = %o"}.text(), true},
          {"an update that is a part of its own state",
           WriteText{.between = "%w = slice(%t) {axis=1, start=2, length=2}",
                     .write_t = "write_state(%t, %w) {axis=1, start=3}"}
               .text(),
           true},
          {"updates and states of different sizes and types",
           "%s = state : f32[2, 8]\n%t = state : f16[3, 9]\n%u = input : f32[2, 8]\n%v = input : f16[1, 9]\n"
           "%m = write_state(%s, %u)\n%n = write_state(%t, %v)\noutput m = %m\noutput n = %n",
           true},
          {"another place", WriteText{.write_t = "write_state(%t, %v) {axis=1, start=4}"}.text(), false},
          {"another axis",
           WriteText{.before = "%w = input : f32[1, 8]", .write_t = "write_state(%t, %w) {axis=0, start=1}"}
               .text(),
           false},
          {"the second follows from the first",
           WriteText{.between = "%r = slice(%m) {axis=1, start=0, length=1}\n%w = exp(%r)",
                     .write_t = "write_state(%t, %w) {axis=1, start=3}"}
               .text(),
           false},
          {"the second takes a part of the first",
           WriteText{.between = "%r = slice(%m) {axis=1, start=3, length=1}",
                     .write_t = "write_state(%t, %r) {axis=1, start=3}"}
               .text(),
           false},
          {"the second's old contents are read with the first's new ones",
           WriteText{.between = "%o = add(%m, %t)", .end = "output o = %o"}.text(), false},
          {"the first takes a part of the second's old contents",
           WriteText{.before = "%o = slice(%t) {axis=1, start=5, length=1}",
                     .write_s = "write_state(%s, %o) {axis=1, start=3}"}
               .text(),
           false},
          {"the state that the first returned",
           WriteText{.write_t = "write_state(%m, %v) {axis=1, start=3}"}.text(), false},
          {"a body between them that reads the second",
           WriteText{.before = "%c = input : bool[]",
                     .between =
                         "%e = if(%c) {then=graph a { %t = state : f32[2, 8] %r = neg(%t) output r = %r }, "
                         "else=graph b { %t = state : f32[2, 8] %r = exp(%t) output r = %r }}",
                     .end = "output e = %e"}
               .text(),
           false},
          {"another write between them",
           WriteText{.between = "%r = state : f32[4]\n%w = input : f32[4]\n%o = write_state(%r, %w)",
                     .end = "output o = %o"}
               .text(),
           false},
      });
}

// The rope of queries and keys of a joint product, and the writes of keys and values.
struct CacheText {
  std::string x = "%x = input : f32[2, 1, 28]";
  std::string turned = "slice(%x) {axis=2, start=0, length=24}";
  std::string rope = "rope(%a, %c, %i) {head_dim=8}";
  std::string q = "slice(%r) {axis=-1, start=0, length=16}";
  std::string k = "slice(%r) {axis=2, start=16, length=8}";
  std::string v = "slice(%x) {axis=2, start=24, length=4}";
  std::string before = "";
  std::string write = "write_state(%s, %t, %k, %v) {axis=1, start=3, states=2}";
  std::string end = "%y = neg(%q)\noutput y = %y\n";

  std::string text() const {
    return x + "\n%s = state : f32[2, 5, 8]\n%t = state : f32[2, 5, 4]\n%c = input : f32[3, 4]\n" +
           "%i = input : f32[3, 4]\n%p = input : i32[1]\n%a = " + turned + "\n%r = " + rope + "\n%q = " + q +
           "\n%k = " + k + "\n%v = " + v + "\n" + before + "\n%w = " + write + "\n" + end + "output w = %w\n";
  }
};

TEST(FuseRopeWrite, FusesWhatReadsNeighbouringColumns) {
  const auto pass = [](const Graph& g) {
    Graph fused = fuse_rope_write(g);
    EXPECT_NO_THROW(schedule(fused)) << to_text(fused);
    return fused;
  };
  expect_cases(
      pass, " = rope_write(",
      {
          {"plain", CacheText{}.text(), true},
          {"values first",
           CacheText{.write = "write_state(%t, %s, %v, %k) {axis=1, start=3, states=2}"}.text(), true},
          {"not from the start",
           CacheText{.x = "%x = input : f32[2, 1, 35]",
                     .turned = "slice(%x) {axis=2, start=3, length=24}",
                     .v = "slice(%x) {axis=2, start=27, length=4}"}
               .text(),
           true},
          {"16-bit floats",
           "%x = input : bf16[1, 1, 24]\n%s = state : bf16[1, 5, 8]\n%t = state : bf16[1, 5, 8]\n"
           "%c = input : f32[3, 4]\n%a = slice(%x) {axis=2, start=0, length=16}\n"
           "%r = rope(%a, %c, %c) {head_dim=8}\n%q = slice(%r) {axis=2, start=0, length=8}\n"
           "%k = slice(%r) {axis=2, start=8, length=8}\n%v = slice(%x) {axis=2, start=16, length=8}\n"
           "%w = write_state(%s, %t, %k, %v) {axis=1, start=3, states=2}\n"
           "output q = %q\noutput w = %w\n",
           true},
          {"interleaved", CacheText{.rope = "rope(%a, %c, %i) {head_dim=8, interleaved=true}"}.text(), true},
          {"the values are read elsewhere too",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%v)\noutput y = %y\noutput z = %z\n"}.text(), true},
          {"the old contents are read before",
           CacheText{.before = "%o = exp(%s)", .end = "%y = neg(%q)\noutput y = %y\noutput o = %o\n"}.text(),
           true},
          {"positions", CacheText{.rope = "rope(%a, %c, %i, %p) {head_dim=8}"}.text(), false},
          {"a gap before the values",
           CacheText{.x = "%x = input : f32[2, 1, 29]", .v = "slice(%x) {axis=2, start=25, length=4}"}.text(),
           false},
          {"values of another input",
           CacheText{.x = "%x = input : f32[2, 1, 28]\n%other = neg(%x)",
                     .v = "slice(%other) {axis=2, start=24, length=4}"}
               .text(),
           false},
          {"every second value",
           CacheText{.x = "%x = input : f32[2, 1, 32]", .v = "slice(%x) {axis=2, start=24, length=4, step=2}"}
               .text(),
           false},
          {"keys before the queries",
           CacheText{.q = "slice(%r) {axis=2, start=8, length=16}",
                     .k = "slice(%r) {axis=2, start=0, length=8}"}
               .text(),
           false},
          {"a gap before the keys", CacheText{.q = "slice(%r) {axis=2, start=0, length=8}"}.text(), false},
          {"the keys are read elsewhere too",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%k)\noutput y = %y\noutput z = %z\n"}.text(), false},
          {"all of the rope is read",
           CacheText{.end = "%y = neg(%q)\n%z = exp(%r)\noutput y = %y\noutput z = %z\n"}.text(), false},
          {"the rope is an output", CacheText{.end = "%y = neg(%q)\noutput y = %y\noutput r = %r\n"}.text(),
           false},
          {"the queries are read before the write",
           CacheText{.before = "%y = neg(%q)", .end = "output y = %y\n"}.text(), false},
          {"a table is a part of the state",
           CacheText{.x = "%x = input : f32[2, 1, 28]\n%table = state : f32[3, 4]",
                     .rope = "rope(%a, %table, %i) {head_dim=8}",
                     .before = ""}
               .text(),
           false},
          {"one write alone", CacheText{.write = "write_state(%s, %k) {axis=1, start=3}"}.text(), false},
      });
}

}  // namespace
}  // namespace rlx::testing
