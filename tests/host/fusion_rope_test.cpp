// Rotary position embeddings written as nodes, and what only looks like them.
#include <gtest/gtest.h>

#include "passes/passes.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

// Pairs are the halves of a row, as in Llama.
struct Halves {
  std::string x = "f32[2, 3, 5, 8]";
  std::string tables = "%a = input : f32[5, 4]\n%t = concat(%a, %a) {axis=-1}\n%c = cos(%t)\n%s = sin(%t)";
  std::string first = "slice(%x) {axis=3, start=0, length=4}";
  std::string second = "slice(%x) {axis=3, start=4, length=4}";
  std::string turned = "concat(%minus, %first) {axis=3}";
  std::string products = "%kept = mul(%x, %c)\n%moved = mul(%turned, %s)";
  std::string sum = "add(%kept, %moved)";
  std::string end = "";

  std::string text() const {
    return "%x = input : " + x + "\n" + tables + "\n%first = " + first + "\n%second = " + second +
           "\n%minus = neg(%second)\n%turned = " + turned + "\n" + products + "\n%y = " + sum +
           "\noutput y = %y\n" + end;
  }
};

// Pairs are neighbours, as in Moonshine, perhaps in a part of a row.
struct Neighbours {
  std::string whole = "f32[2, 3, 5, 10]";
  std::string part = "slice(%whole) {axis=3, start=0, length=8}";
  std::string tables =
      "%a = input : f32[5, 4, 1]\n%two = concat(%a, %a) {axis=2}\n"
      "%t = reshape(%two) {shape=[5, 8]}\n%c = cos(%t)\n%s = sin(%t)";
  std::string first = "slice(%x) {axis=3, start=0, length=4, step=2}";
  std::string second = "slice(%x) {axis=3, start=1, length=4, step=2}";
  std::string order = "%m1, %f1";
  std::string rest = "slice(%whole) {axis=3, start=8, length=2}";
  std::string end = "%y = concat(%z, %rest) {axis=3}\noutput y = %y\n";

  std::string text() const {
    return "%whole = input : " + whole + "\n%x = " + part + "\n" + tables + "\n%first = " + first +
           "\n%second = " + second +
           "\n%minus = neg(%second)\n%m1 = reshape(%minus) {shape=[2, 3, 5, 4, 1]}\n"
           "%f1 = reshape(%first) {shape=[2, 3, 5, 4, 1]}\n%stacked = concat(" +
           order + ") {axis=4}\n%turned = reshape(%stacked) {shape=[2, 3, 5, 8]}\n" +
           "%kept = mul(%x, %c)\n%moved = mul(%turned, %s)\n%z = add(%kept, %moved)\n%rest = " + rest + "\n" +
           end;
  }
};

std::string of_tables(const std::string& tables) { return Halves{.tables = tables}.text(); }

TEST(FuseRope, TakesHalves) {
  expect_cases(
      fuse_rope, "= rope(",
      {
          {"plain", Halves{}.text(), true},
          {"the other way around",
           Halves{.products = "%kept = mul(%c, %x)\n%moved = mul(%s, %turned)", .sum = "add(%moved, %kept)"}
               .text(),
           true},
          {"a pair alone",
           Halves{
               .x = "f32[3, 2]",
               .tables = "%a = input : f32[3, 1]\n%t = concat(%a, %a) {axis=1}\n%c = cos(%t)\n%s = sin(%t)",
               .first = "slice(%x) {axis=1, start=0, length=1}",
               .second = "slice(%x) {axis=1, start=1, length=1}",
               .turned = "concat(%minus, %first) {axis=1}"}
               .text(),
           true},
          {"nothing at all",
           Halves{
               .x = "f32[2, 3, 0, 8]",
               .tables = "%a = input : f32[0, 4]\n%t = concat(%a, %a) {axis=-1}\n%c = cos(%t)\n%s = sin(%t)"}
               .text(),
           true},
          {"a difference", Halves{.sum = "sub(%kept, %moved)"}.text(), false},
          {"the first is negative",
           Halves{.first = "slice(%x) {axis=3, start=4, length=4}",
                  .second = "slice(%x) {axis=3, start=0, length=4}"}
               .text(),
           false},
          {"in the same order", Halves{.turned = "concat(%first, %minus) {axis=3}"}.text(), false},
          {"no half",
           Halves{.first = "slice(%x) {axis=3, start=0, length=3}",
                  .second = "slice(%x) {axis=3, start=3, length=5}"}
               .text(),
           false},
          {"not its begin", Halves{.first = "slice(%x) {axis=3, start=1, length=4}"}.text(), false},
          {"along another axis",
           Halves{
               .x = "f32[2, 3, 8, 8]",
               .tables = "%a = input : f32[8, 4]\n%t = concat(%a, %a) {axis=-1}\n%c = cos(%t)\n%s = sin(%t)",
               .first = "slice(%x) {axis=2, start=0, length=4}",
               .second = "slice(%x) {axis=2, start=4, length=4}",
               .turned = "concat(%minus, %first) {axis=2}"}
               .text(),
           false},
          {"of another value",
           Halves{.products = "%w = input : f32[2, 3, 5, 8]\n%kept = mul(%w, %c)\n%moved = mul(%turned, %s)"}
               .text(),
           false},
          {"16 bits",
           Halves{
               .x = "f16[2, 3, 5, 8]",
               .tables = "%a = input : f16[5, 4]\n%t = concat(%a, %a) {axis=-1}\n%c = cos(%t)\n%s = sin(%t)"}
               .text(),
           true},
          {"tables that make the result larger",
           Halves{
               .x = "f32[1, 3, 5, 8]",
               .tables =
                   "%a = input : f32[2, 1, 5, 4]\n%t = concat(%a, %a) {axis=-1}\n%c = cos(%t)\n%s = sin(%t)"}
               .text(),
           false},
      });
}

TEST(FuseRope, SeesThatTablesHaveEachNumberTwice) {
  const std::string use = "\n%c = cos(%t)\n%s = sin(%t)";
  expect_cases(
      fuse_rope, "= rope(",
      {
          {"scaled, and another shape",
           of_tables("%a = input : f32[1, 5, 4]\n%h = concat(%a, %a) {axis=2}\n%b = cos(%h)\n%d = sin(%h)\n"
                     "%g = constant {value=tensor f32[] fill 0.5}\n%e = mul(%b, %g)\n%f = mul(%d, %g)\n"
                     "%c = reshape(%e) {shape=[1, 1, 5, 8]}\n%s = reshape(%f) {shape=[1, 1, 5, 8]}"),
           true},
          {"for each text of a batch",
           of_tables("%a = input : f32[2, 1, 5, 4]\n%t = concat(%a, %a) {axis=3}" + use), true},
          {"for each head", of_tables("%a = input : f32[3, 5, 4]\n%t = concat(%a, %a) {axis=2}" + use), true},
          {"along the axis before",
           of_tables("%a = input : f32[3, 1, 4]\n%t = concat(%a, %a) {axis=2}" + use), true},
          {"one row for all", of_tables("%a = input : f32[1, 4]\n%t = concat(%a, %a) {axis=1}" + use), true},
          {"rows of a longer table",
           of_tables("%a = input : f32[9, 4]\n%i = constant {value=tensor i64[5] (3, 8, 0, 1, 1)}\n"
                     "%h = concat(%a, %a) {axis=1}\n%t = gather(%h, %i) {axis=0}" +
                     use),
           true},
          {"a part of a longer table",
           of_tables("%a = input : f32[9, 4]\n%h = concat(%a, %a) {axis=1}\n"
                     "%t = slice(%h) {axis=0, start=2, length=5}" +
                     use),
           true},
          {"turned",
           of_tables("%a = input : f32[4, 5]\n%b = transpose(%a)\n%t = concat(%b, %b) {axis=1}" + use), true},
          {"constants",
           of_tables("%c = constant {value=tensor f32[1, 8] (1, 2, 3, 4, 1, 2, 3, 4)}\n"
                     "%s = constant {value=tensor f32[1, 8] (5, 6, 7, 8, 5, 6, 7, 8)}"),
           true},
          {"all the same", of_tables("%a = input : f32[5, 1]\n%t = expand(%a) {shape=[5, 8]}" + use), true},
          {"other constants",
           of_tables("%c = constant {value=tensor f32[1, 8] (1, 2, 3, 4, 1, 2, 3, 4)}\n"
                     "%s = constant {value=tensor f32[1, 8] (5, 6, 7, 8, 5, 6, 7, 9)}"),
           false},
          {"constants with NaN",
           of_tables("%c = constant {value=tensor f32[1, 8] (1, 2, 3, 4, 1, 2, 3, 4)}\n"
                     "%s = constant {value=tensor f32[1, 8] (5, 6, nan, 8, 5, 6, nan, 8)}"),
           false},
          {"anything", of_tables("%c = input : f32[5, 8]\n%s = input : f32[5, 8]"), false},
          {"two halves",
           of_tables("%a = input : f32[5, 4]\n%b = input : f32[5, 4]\n%t = concat(%a, %b) {axis=1}" + use),
           false},
          {"changed afterwards",
           of_tables(
               "%a = input : f32[5, 4]\n%w = input : f32[8]\n%h = concat(%a, %a) {axis=1}\n%t = mul(%h, %w)" +
               use),
           false},
          {"only the cosines",
           of_tables(
               "%a = input : f32[5, 4]\n%t = concat(%a, %a) {axis=1}\n%c = cos(%t)\n%s = input : f32[5, 8]"),
           false},
          {"tables for neighbours",
           of_tables("%a = input : f32[5, 4, 1]\n%two = concat(%a, %a) {axis=2}\n%t = reshape(%two) "
                     "{shape=[5, 8]}" +
                     use),
           false},
          {"one number each", of_tables("%c = input : f32[5, 1]\n%s = input : f32[5, 1]"), false},
          {"of other sizes",
           of_tables("%a = input : f32[5, 4]\n%t = concat(%a, %a) {axis=1}\n%c = cos(%t)\n"
                     "%b = input : f32[1, 4]\n%u = concat(%b, %b) {axis=1}\n%s = sin(%u)"),
           false},
      });
}

TEST(FuseRope, TakesNeighbours) {
  const std::string whole = "output y = %z\n";
  expect_cases(
      fuse_rope, "= rope(",
      {
          {"plain", Neighbours{.end = whole}.text(), true},
          {"tables for halves",
           Neighbours{
               .tables = "%a = input : f32[5, 4]\n%t = concat(%a, %a) {axis=1}\n%c = cos(%t)\n%s = sin(%t)",
               .end = whole}
               .text(),
           false},
          {"in the same order", Neighbours{.order = "%f1, %m1", .end = whole}.text(), false},
          {"the first is negative",
           Neighbours{.first = "slice(%x) {axis=3, start=1, length=4, step=2}",
                      .second = "slice(%x) {axis=3, start=0, length=4, step=2}",
                      .end = whole}
               .text(),
           false},
          {"halves",
           Neighbours{.first = "slice(%x) {axis=3, start=0, length=4}",
                      .second = "slice(%x) {axis=3, start=4, length=4}",
                      .end = whole}
               .text(),
           false},
      });
  // With what lies behind the part that is rotated.
  expect_cases(
      fuse_rope, "head_dim=10, interleaved=true, rotated=8",
      {
          {"the rest", Neighbours{}.text(), true},
          {"also read alone",
           Neighbours{.end = "%y = concat(%z, %rest) {axis=3}\noutput y = %y\noutput z = %z\n"}.text(), true},
          {"the rest comes first",
           Neighbours{.end = "%y = concat(%rest, %z) {axis=3}\noutput y = %y\n"}.text(), false},
          {"another rest", Neighbours{.rest = "slice(%whole) {axis=3, start=7, length=2}"}.text(), false},
          {"a rest that is too short", Neighbours{.whole = "f32[2, 3, 5, 12]"}.text(), false},
          {"not from the begin",
           Neighbours{.part = "slice(%whole) {axis=3, start=2, length=8}",
                      .rest = "slice(%whole) {axis=3, start=0, length=2}"}
               .text(),
           false},
      });
}

}  // namespace
}  // namespace rlx::testing
