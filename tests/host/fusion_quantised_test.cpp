// Products, pools and moves of dequantised bytes become those of the bytes.
#include <gtest/gtest.h>

#include "base/format.h"
#include "passes/pass_order.h"
#include "passes/passes.h"
#include "rlx/graph.h"
#include "tests/support/fusion_cases.h"

namespace rlx::testing {
namespace {

const std::string kX = "%q = input : u8[1, 4, 6, 5]\n%x = dequantize(%q, %s, %z)\n";
const std::string kNumbers =
    "%s = constant {value=tensor f32[] fill 0.0625}\n%t = constant {value=tensor f32[] fill 0.125}\n%z = "
    "constant {value=tensor u8[] fill 17}\n";
const std::string kWeight =
    "%v = param : i8[3, 4, 3, 3]\n%vs = param : f32[3]\n%w = dequantize(%v, %vs) {axis=0}\n";
const std::string kEnd = "%y = quantize(%c, %t, %z) {to=u8}\noutput y = %y";

TEST(FuseQuantized, ConvolutionsOfBytes) {
  const auto fuse = [](const Graph& g) { return fuse_quantized(g); };
  const std::string conv = "%c = conv(%x, %w) {pads=[1,1,1,1]}\n";
  expect_cases(
      fuse, "byte_conv(",
      {
          {"a scale for each filter", kNumbers + kX + kWeight + conv + kEnd, true},
          {"one scale, a zero point of the weight, a bias",
           kNumbers + kX +
               "%v = param : u8[3, 4, 3, 3]\n%vz = param : u8[1]\n%w = dequantize(%v, %t, %vz)\n"
               "%vb = param : i32[3]\n%b = dequantize(%vb, %t)\n%c = conv(%x, %w, %b) {strides=[2,1]}\n" +
               kEnd,
           true},
          {"channels last, the result is a float",
           kNumbers + "%q = input : u8[1, 6, 5, 4]\n%x = dequantize(%q, %s, %z)\n" + kWeight +
               "%c = conv(%x, %w) {layout=\"channels_last\"}\noutput y = %c",
           true},
          {"the bytes are dequantised for others too",
           kNumbers + kX + kWeight + conv + "%n = neg(%x)\noutput n = %n\n" + kEnd, true},
          {"x has a scale for each channel",
           kNumbers + "%q = input : u8[1, 4, 6, 5]\n%xs = param : f32[4]\n%x = dequantize(%q, %xs)\n" +
               kWeight + conv + kEnd,
           false},
          {"the weight has a scale for each channel",
           kNumbers + kX + "%v = param : i8[3, 4, 3, 3]\n%vs = param : f32[4]\n%w = dequantize(%v, %vs)\n" +
               conv + kEnd,
           false},
          {"the weight has scales in blocks",
           kNumbers + kX +
               "%v = param : i8[3, 4, 3, 3]\n%vs = param : f32[2, 4, 3, 3]\n%w = dequantize(%v, %vs) "
               "{axis=0, "
               "block=2}\n" +
               conv + kEnd,
           false},
          {"the scale of x is not known",
           "%s = input : f32[]\n%t = constant {value=tensor f32[] fill 0.125}\n%z = constant {value=tensor "
           "u8[] fill 17}\n" +
               kX + kWeight + conv + kEnd,
           false},
          {"the scale of x makes others infinite",
           "%s = constant {value=tensor f32[] fill 1e30}\n%t = constant {value=tensor f32[] fill 0.125}\n%z "
           "= constant {value=tensor u8[] fill 17}\n" +
               kX + kWeight + conv + kEnd,
           false},
          {"the weight is a float", kNumbers + kX + "%w = param : f32[3, 4, 3, 3]\n" + conv + kEnd, false},
          {"integers of 32 bits",
           kNumbers + "%q = input : i32[1, 4, 6, 5]\n%x = dequantize(%q, %s)\n" + kWeight + conv + kEnd,
           false},
      });
}

// Where no window reaches out of x.
TEST(FuseQuantized, ZeroPointsOfXAreTakenFromTheSumsOfEachFilter) {
  const auto fuse = [](const Graph& g) { return fuse_quantized(g); };
  const std::string conv = "%c = conv(%x, %w) {strides=[2,1]}\n";
  expect_cases(
      fuse, " = neg(",
      {{"windows inside of x", kNumbers + kX + kWeight + conv + kEnd, true},
       {"a weight with a zero point",
        kNumbers + kX + "%v = param : u8[3, 4, 3, 3]\n%vz = param : u8[1]\n%w = dequantize(%v, %t, %vz)\n" +
            conv + kEnd,
        true},
       {"padding", kNumbers + kX + kWeight + "%c = conv(%x, %w) {pads=[0,1,0,0]}\n" + kEnd, false},
       {"a zero point of 0",
        kNumbers +
            "%o = constant {value=tensor u8[] fill 0}\n%q = input : u8[1, 4, 6, 5]\n"
            "%x = dequantize(%q, %s, %o)\n" +
            kWeight + conv + kEnd,
        false},
       {"a weight that is an input",
        kNumbers + kX + "%v = input : i8[3, 4, 3, 3]\n%w = dequantize(%v, %t)\n" + conv + kEnd, false}});
}

TEST(FuseQuantized, MatricesOfBytes) {
  const auto fuse = [](const Graph& g) { return fuse_quantized(g); };
  const std::string a = kNumbers + "%q = input : u8[4, 8]\n%x = dequantize(%q, %s, %z)\n";
  const std::string product = "%c = matmul(%x, %w)\n" + kEnd;
  expect_cases(
      fuse, "matmul(%q, %v",
      {
          {"a scale for each column",
           a + "%v = param : i8[8, 6]\n%vs = param : f32[6]\n%w = dequantize(%v, %vs) {axis=1}\n" + product,
           true},
          {"a scale for each row",
           a + "%v = param : i8[8, 6]\n%vs = param : f32[8]\n%w = dequantize(%v, %vs) {axis=0}\n" + product,
           false},
          {"a weight that is transposed",
           a +
               "%o = param : i8[6, 8]\n%vs = param : f32[6]\n%d = dequantize(%o, %vs) {axis=0}\n"
               "%v = transpose(%d)\n%c = matmul(%x, %v)\n" +
               kEnd,
           true},
          {"a zero point of the weight",
           a + "%v = param : i8[8, 6]\n%vz = param : i8[]\n%w = dequantize(%v, %t, %vz)\n" + product, false},
          {"x has a zero point, and nothing is a weight",
           a + "%v = input : u8[8, 6]\n%w = dequantize(%v, %t)\n" + product, false},
          {"nothing has one",
           kNumbers +
               "%q = input : u8[4, 8]\n%x = dequantize(%q, %s)\n%v = input : u8[2, 8, 6]\n"
               "%w = dequantize(%v, %t)\n" +
               product,
           true},
          {"a vector",
           kNumbers +
               "%q = input : u8[8]\n%x = dequantize(%q, %s)\n%v = param : i8[8, 6]\n"
               "%w = dequantize(%v, %t)\n" +
               product,
           false},
      });
}

TEST(FuseQuantized, BytesMoveWithoutTheirScales) {
  const auto fuse = [](const Graph& g) { return fuse_quantized(g); };
  const std::string same = "%y = quantize(%c, %s, %z) {to=u8}\noutput y = %y";
  expect_cases(
      fuse, "quantize(",
      {
          {"there and back", kNumbers + kX + "%c = reshape(%x) {shape=[4, 30]}\n" + same, false},
          {"views",
           kNumbers + kX +
               "%e = transpose(%x) {perm=[0,2,3,1]}\n%c = slice(%e) {axis=1, start=1, length=3}\n" + same,
           false},
          {"the largest of a window",
           kNumbers + kX + "%c = max_pool(%x) {kernel=[2,2], pads=[1,1,0,0]}\n" + same, false},
          {"parts that were bytes of that scale",
           kNumbers + kX +
               "%p = input : u8[1, 2, 6, 5]\n%d = dequantize(%p, %s, %z)\n"
               "%c = concat(%x, %d) {axis=1}\n" +
               same,
           false},
          {"another zero point",
           kNumbers + kX +
               "%c = reshape(%x) {shape=[4, 30]}\n"
               "%zero = constant {value=tensor u8[] fill 18}\n%y = quantize(%c, %s, %zero) {to=u8}\noutput y "
               "= %y",
           true},
          {"another scale", kNumbers + kX + "%c = reshape(%x) {shape=[4, 30]}\n" + kEnd, true},
          {"another type", kNumbers + kX + "%y = quantize(%x, %s) {to=i8}\noutput y = %y", true},
          {"less than the whole range",
           kNumbers + kX + "%y = quantize(%x, %s, %z) {to=u8, low=0, high=100}\noutput y = %y", true},
          {"a scale that is not known",
           "%s = input : f32[]\n%z = constant {value=tensor u8[] fill 17}\n" + kX +
               "%y = quantize(%x, %s, %z) {to=u8}\n"
               "output y = %y",
           true},
          {"a part that was a float",
           kNumbers + kX + "%d = input : f32[1, 2, 6, 5]\n%c = concat(%x, %d) {axis=1}\n" + same, true},
          {"places of the largest",
           kNumbers + kX + "%c = max_pool(%x) {kernel=[2,2], indices=\"tensor\"}\n" + same +
               "\noutput at = %c:1",
           true},
      });
}

// Four at a time if both factors have a sign; sums of rows for the zero point of the weight.
TEST(FuseQuantized, WhatIsQuantisedForItsRangeIsWhatProductsRead) {
  const auto fuse = [](const Graph& g) { return fuse_quantized(g); };
  const std::string x = "%x = input : f32[4, 8]\n%d = dynamic_quantize(%x)\n";
  const std::string flip =
      "%f = bitwise_xor(%d, 128)\n%b = bitcast(%f) {to=i8}\noutput b = %b\noutput z = %d:2\n";
  const std::string add = "%w = cast(%d) {to=i32}\n%r = sum(%w) {axes=[-1], keepdims=true}\noutput r = %r\n";
  expect_cases(fuse, "less_128=true",
               {{"a first bit that changes", x + flip, true},
                {"the bytes are read as they are too", x + flip + "output d = %d\n", false},
                {"another bit",
                 "%x = input : f32[4, 8]\n%d = dynamic_quantize(%x)\n%f = bitwise_xor(%d, 64)\n"
                 "%b = bitcast(%f) {to=i8}\noutput b = %b",
                 false},
                {"rows that are no whole words", "%x = input : f32[4, 7]\n%d = dynamic_quantize(%x)\n" + flip,
                 false}});
  expect_cases(fuse, "sums=true",
               {{"sums of rows", x + add + "output d = %d\n", true},
                {"sums of columns",
                 x + "%w = cast(%d) {to=i32}\n%r = sum(%w) {axes=[0], keepdims=true}\noutput r = %r", false},
                {"sums without their axis",
                 x + "%w = cast(%d) {to=i32}\n%r = sum(%w) {axes=[-1]}\noutput r = %r", false}});
}

// A product whose result is quantised goes on with what is computed of the bytes, if that ends in bytes or in
// an output.
TEST(FuseEpilogue, AdditionsBetweenBytes) {
  const auto fuse = [](const Graph& g) { return fuse_epilogue(g, 7); };
  const std::string product =
      "%x = input : u8[1, 4, 6, 5]\n%w = param : i8[4, 4, 1, 1]\n%p = byte_conv(%x, %w)\n%a = cast(%p) "
      "{to=u8}\n"
      "%b = cast(%a) {to=f32}\n";
  const std::string other = "%o = input : u8[1, 4, 6, 5]\n%f = cast(%o) {to=f32}\n%g = mul(%f, 0.5)\n";
  const std::string sum = "%s = add(%b, %g)\n%t = cast(%s) {to=u8}\n";
  const std::string fused = "t2=cast_f32($1); t3=mul(t2,0.5); ";
  expect_cases(
      fuse, fused,
      {{"two of bytes", product + other + sum + "output t = %t\n", true},
       {"the sum is an output", product + other + "%s = add(%b, %g)\noutput s = %s\n", true},
       {"the bytes are an output too", product + other + sum + "output t = %t\noutput a = %a\n", false},
       {"the other is read elsewhere", product + other + sum + "output t = %t\noutput g = %g\n", false},
       {"the sum is reduced",
        product + other + "%s = add(%b, %g)\n%r = mean(%s) {axes=[2,3]}\noutput r = %r\n", false}});
  expect_cases(
      fuse, "epilogue=\"cast_u8($0)\"",
      {{"a mean reads the bytes", product + "%r = mean(%b) {axes=[2,3]}\noutput r = %r\n", true},
       {"two read the bytes", product + "%c = neg(%b)\n%d = exp(%b)\noutput c = %c\noutput d = %d\n", true}});
}

// A chain of convolutions of bytes, of which the second of each pair has one filter for each channel.
std::string chain(int64_t pairs, int64_t channels, const std::string& between) {
  std::string text = formatted("%x0 = input : u8[1, {}, 9, 7]\n", channels);
  for (int64_t i = 0; i < pairs; ++i) {
    text += formatted(
        "%p{0} = param : i8[{1}, {1}, 1, 1]\n%a{0} = byte_conv(%x{0}, %p{0})\n%b{0} = cast(%a{0}) {{to=u8}}\n"
        "%d{0} = param : i8[{1}, 1, 3, 3]\n%c{0} = byte_conv(%b{0}, %d{0}) {{groups={1}, pads=[1,1,1,1]}}\n",
        i, channels);
    text += formatted("%s{0} = param : f32[{1}, 1, 1]\n%f{0} = cast(%c{0}) {{to=f32}}\n", i, channels);
    text += formatted("%n{0} = {1}\n%x{2} = cast(%n{0}) {{to=u8}}\n", i, formatted("mul(%f{0}, %s{0})", i),
                      i + 1);
  }
  return text + formatted("{}output y = %x{}\n", between, pairs);
}

TEST(ByteImages, HaveTheirChannelsLastAroundDepthwiseConvolutions) {
  const std::string last = "layout=\"channels_last\"";
  const std::string one_tap =
      "%x0 = input : u8[1, 8, 9, 7]\n%w = param : i8[8, 8, 1, 1]\n%a = byte_conv(%x0, %w)\n"
      "%b = cast(%a) {to=u8}\n%c = byte_conv(%b, %w)\n%d = cast(%c) {to=u8}\n%e = byte_conv(%d, %w)\n"
      "%f = cast(%e) {to=u8}\n%g = byte_conv(%f, %w)\noutput y = %g\n";
  expect_cases(byte_images, last,
               {
                   {"a chain", chain(2, 8, ""), true},
                   {"its mean over all pixels is a result too",
                    chain(3, 12, "%m = mean(%f1) {axes=[2,3], keepdims=true}\noutput m = %m\n"), true},
                   {"channels that are no fours", chain(3, 6, ""), false},
                   {"as many images to turn as convolutions", chain(1, 8, ""), false},
                   {"every image is a result",
                    chain(2, 8, "output a = %a0\noutput b = %b0\noutput c = %c0\noutput f = %f0\n"), false},
                   {"no convolution with a filter for each channel", one_tap, false},
               });
}

}  // namespace
}  // namespace rlx::testing
