// The reader takes what is right and refuses, with a sentence, everything else.
#include "rlx/safetensors.h"
#include "base/format.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rlx/error.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

using Bytes = std::vector<std::byte>;

// Length, header and data as a file has them.
Bytes file_of(const std::string& header, size_t data_bytes, std::optional<uint64_t> length = {}) {
  Bytes out;
  const uint64_t n = length.value_or(header.size());
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(n >> (8 * i)));
  for (char c : header) out.push_back(static_cast<std::byte>(c));
  for (size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<std::byte>(i % 2));
  return out;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string error_of(Bytes bytes) {
  try {
    SafetensorsFile::parse(std::move(bytes), "x.safetensors");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::invalid_file);
    return e.what();
  }
  return "no error";
}

TEST(Safetensors, ReadsWhatItWrites) {
  const std::map<std::string, Tensor, std::less<>> tensors = {
      {"f32", Tensor::of<float>({2, 3}, {1, -2, 3.5f, 4, 5, 6})},
      {"f16", Tensor::from_doubles(DType::f16, {3}, std::vector<double>{0.5, -1, 65504})},
      {"bf16", Tensor::from_doubles(DType::bf16, {1}, std::vector<double>{2})},
      {"i32", Tensor::of<int32_t>({2}, {INT32_MIN, INT32_MAX})},
      {"i64", Tensor::of<int64_t>({1}, {INT64_MIN})},
      {"u32", Tensor::of<uint32_t>({1}, {UINT32_MAX})},
      {"i8", Tensor::of<int8_t>({3}, {-128, 0, 127})},
      {"u8", Tensor::of<uint8_t>({1}, {255})},
      {"bool", Tensor::from_ints(DType::bool_, {3}, std::vector<int64_t>{1, 0, 1})},
      {"scalar", Tensor::of<float>({}, {7})},
      {"empty", Tensor(DType::f32, {0, 4}, {})},
      {"fill", Tensor::full(DType::f32, {2, 2}, 3)},
  };
  const auto file = SafetensorsFile::parse(to_safetensors(tensors, {{"made_by", "a test"}}));
  EXPECT_EQ(file.metadata().at("made_by"), "a test");
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = file.tensor(name);
    EXPECT_EQ(read.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(read.shape(), tensor.shape()) << name;
    EXPECT_TRUE(std::ranges::equal(read.bytes(), tensor.bytes())) << name;
  }
  EXPECT_EQ(file.all().size(), tensors.size());
}

TEST(Safetensors, AMovedFromFileSaysSo) {
  SafetensorsFile a = SafetensorsFile::parse(to_safetensors({{"x", Tensor::scalar(1.f)}}));
  const SafetensorsFile b = std::move(a);
  EXPECT_SAYS(a.tensors(), "this SafetensorsFile was moved from");  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(b.tensors().size(), 1u);
}

TEST(Safetensors, ReadsAFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / formatted("rlx-test-{}.safetensors", getpid())).string();
  save_safetensors(path, {{"w", Tensor::of<float>({2}, {1, 2})}});
  EXPECT_EQ(SafetensorsFile::open(path).tensor("w").to_vector<float>(), (std::vector<float>{1, 2}));
  std::filesystem::remove(path);
}

TEST(Safetensors, TheFixtureOfPyTorchIsValid) {
  const auto file = SafetensorsFile::open(in_source("tests/fixtures/bert_tiny.safetensors"));
  EXPECT_EQ(file.tensors().size(), 44u);
  EXPECT_EQ(file.find("encoder.layer.1.output.dense.weight")->shape, (std::vector<int64_t>{32, 70}));
}

TEST(Safetensors, AcceptsPaddingAndAnEmptyFile) {
  EXPECT_EQ(error_of(file_of("{}", 0)), "no error");
  EXPECT_EQ(error_of(file_of("{}     ", 0)), "no error");
  EXPECT_EQ(
      error_of(file_of(
          R"({"a":)" + entry("F32", "[1]", "[0,4]") + R"(,"b":)" + entry("F32", "[0]", "[4,4]") + "}  ", 4)),
      "no error");
  // Where one begins, an empty one may be too, whatever their names are.
  for (const auto& [full, empty] : {std::pair("a", "b"), std::pair("b", "a")}) {
    const SafetensorsFile file =
        SafetensorsFile::parse(file_of(formatted(R"({{"{}":{},"{}":{}}})", full, entry("U8", "[3]", "[0,3]"),
                                                 empty, entry("U8", "[0]", "[0,0]")),
                                       3));
    EXPECT_EQ(file.tensor(full).integers(), (std::vector<int64_t>{0, 1, 0}));
    EXPECT_EQ(file.tensor(empty).elements(), 0);
  }
}

struct Malformed {
  const char* name;
  Bytes bytes;
  const char* message;  // part of it
};

std::vector<Malformed> malformed_files() {
  const auto one = [](const std::string& text, size_t data) {
    return file_of(R"({"w":)" + text + "}", data);
  };
  const auto two = [](const std::string& a, const std::string& b, size_t data) {
    return file_of(R"({"a":)" + a + R"(,"b":)" + b + "}", data);
  };
  std::string deep = R"({"w":)";
  for (int i = 0; i < 100000; ++i) deep += "[";
  return {
      {"NothingAtAll", {}, "the file has 0 bytes; the length of the header alone takes 8"},
      {"CutLength", Bytes(7), "has 7 bytes"},
      {"HeaderLongerThanTheFile", file_of("{}", 4, 7), "said to have 7 bytes, but only 6 follow"},
      {"HugeHeader", file_of("{}", 0, UINT64_MAX),
       "said to have 18446744073709551615 bytes, but only 2 follow"},
      {"NoHeader", Bytes(8), "does not begin with '{'"},
      {"SpaceBeforeTheHeader", file_of(" {}", 0), "does not begin with '{'"},
      {"HeaderIsAList", file_of("[1]", 0), "does not begin with '{'"},
      {"NoJson", file_of("{\"w\":", 0), "not valid JSON"},
      {"TextBehindTheHeader", file_of("{} x", 0), "not valid JSON"},
      {"BadUtf8", file_of("{\"\xff\":1}", 0), "not valid JSON"},
      {"DeepNesting", file_of(deep, 0), "nested more than 3 deep"},
      {"SameNameTwice",
       file_of(R"({"w":)" + entry("U8", "[1]", "[0,1]") + R"(,"w":)" + entry("U8", "[1]", "[0,1]") + "}", 1),
       "has the key 'w' twice"},
      {"SameKeyTwice", one(R"({"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]})", 1),
       "has the key 'dtype' twice"},
      {"EntryIsANumber", one("5", 0), "'w' is not a JSON object"},
      {"NoDtype", one(R"({"shape":[1],"data_offsets":[0,1]})", 1), "'w' has no 'dtype'"},
      {"NoShape", one(R"({"dtype":"U8","data_offsets":[0,1]})", 1), "'w' has no 'shape'"},
      {"NoOffsets", one(R"({"dtype":"U8","shape":[1]})", 1), "'w' has no 'data_offsets'"},
      {"UnknownKey", one(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})", 1), "unknown key 'x'"},
      {"DtypeIsANumber", one(R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})", 1),
       "dtype that is not a string"},
      {"DoubleType", one(entry("F64", "[1]", "[0,8]"), 8),
       "dtype 'F64', which is not supported (supported: F32,"},
      {"UnknownType", one(entry("f32", "[1]", "[0,4]"), 4), "dtype 'f32', which is not supported"},
      {"ShapeIsANumber", one(entry("U8", "1", "[0,1]"), 1), "shape that is not a list"},
      {"NegativeDim", one(entry("U8", "[-1]", "[0,1]"), 1), "has -1 in its shape"},
      {"FractionalDim", one(entry("U8", "[1.0]", "[0,1]"), 1), "has 1.0 in its shape"},
      {"DimBeyond64Bits", one(entry("U8", "[18446744073709551616]", "[0,1]"), 1),
       "in its shape, where a whole number"},
      {"DimBeyond63Bits", one(entry("U8", "[9223372036854775808]", "[0,1]"), 1),
       "more than 63 bits can hold"},
      {"SizeOverflows", one(entry("F32", "[4294967296,4294967296]", "[0,0]"), 0), "does not fit in 64 bits"},
      {"SizeOverflowsToZero", one(entry("F32", "[4611686018427387904,4]", "[0,0]"), 0),
       "does not fit in 64 bits"},
      {"OneOffset", one(entry("U8", "[1]", "[0]"), 1), "data_offsets of two numbers"},
      {"ThreeOffsets", one(entry("U8", "[1]", "[0,1,2]"), 1), "data_offsets of two numbers"},
      {"OffsetsAreAnObject", one(entry("U8", "[1]", "{}"), 1), "data_offsets of two numbers"},
      {"NegativeOffset", one(entry("U8", "[1]", "[-1,0]"), 1), "has -1 in its data_offsets"},
      {"EndBeforeBegin", one(entry("U8", "[1]", "[1,0]"), 1), "ends at 0, before its beginning at 1"},
      {"BeyondTheData", one(entry("U8", "[5]", "[0,5]"), 4), "ends at byte 5, but the data has only 4 bytes"},
      {"TooFewBytes", one(entry("F32", "[2]", "[0,4]"), 4),
       "is f32[2], 8 bytes, but its offsets 0 to 4 hold 4"},
      {"TooManyBytes", one(entry("F32", "[]", "[0,8]"), 8), "4 bytes, but its offsets 0 to 8 hold 8"},
      {"Overlap", two(entry("U8", "[3]", "[0,3]"), entry("U8", "[2]", "[2,4]"), 4),
       "'b' begins at byte 2, inside 'a'"},
      {"SameBytesTwice", two(entry("U8", "[2]", "[0,2]"), entry("U8", "[2]", "[0,2]"), 2),
       "begins at byte 0, inside"},
      {"EmptyInsideAnother", two(entry("U8", "[4]", "[0,4]"), entry("U8", "[0]", "[2,2]"), 4),
       "'b' begins at byte 2, inside"},
      {"Hole", two(entry("U8", "[1]", "[0,1]"), entry("U8", "[1]", "[2,3]"), 3),
       "begins at byte 2, but the data before it ends at 1"},
      {"HoleAtTheStart", one(entry("U8", "[1]", "[1,2]"), 2),
       "begins at byte 1, but the data before it ends at 0"},
      {"BytesLeftOver", one(entry("U8", "[1]", "[0,1]"), 3),
       "the data has 3 bytes, but the tensors end at byte 1"},
      {"MetadataIsAList", file_of(R"({"__metadata__":[]})", 0), "__metadata__ is not a JSON object"},
      {"MetadataHasANumber", file_of(R"({"__metadata__":{"a":1}})", 0),
       "entry 'a' of __metadata__ is not a string"},
      {"EmptyName", file_of(R"({"":)" + entry("U8", "[1]", "[0,1]") + "}", 1), "empty name"},
  };
}

TEST(Safetensors, RefusesEveryMalformedFile) {
  for (const Malformed& m : malformed_files()) {
    const std::string message = error_of(m.bytes);
    EXPECT_TRUE(message.contains(m.message)) << m.name << ": " << message;
    EXPECT_TRUE(message.starts_with("x.safetensors: ")) << m.name << ": " << message;
  }
}

TEST(Safetensors, EveryCutOfAFileIsRefused) {
  const Bytes whole =
      to_safetensors({{"a", Tensor::of<float>({3}, {1, 2, 3})}, {"b", Tensor::of<uint8_t>({2}, {1, 2})}});
  ASSERT_EQ(error_of(whole), "no error");
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(error_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))), "no error")
        << n << " bytes";
  }
}

TEST(Safetensors, RefusesBoolsThatAreNone) {
  Bytes bytes = to_safetensors({{"b", Tensor::from_ints(DType::bool_, {2}, std::vector<int64_t>{1, 0})}});
  bytes.back() = std::byte{2};
  const auto file = SafetensorsFile::parse(bytes);
  try {
    file.tensor("b");
    FAIL() << "a byte of 2 was taken for a bool";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).contains("byte 1 is 2, neither 0 nor 1")) << e.what();
  }
}

TEST(Safetensors, ErrorsOfCalls) {
  const auto file = SafetensorsFile::parse(file_of("{}", 0));
  EXPECT_EQ(file.find("w"), nullptr);
  EXPECT_THROW(file.tensor("w"), Error);
  EXPECT_THROW(SafetensorsFile::open("/no/such/file.safetensors"), Error);
  EXPECT_THROW(SafetensorsFile::open("/"), Error);
  EXPECT_THROW(to_safetensors({{"c", Tensor::full(DType::c64, {2}, 0)}}), Error);
  EXPECT_THROW(to_safetensors({{"__metadata__", Tensor::full(DType::f32, {2}, 0)}}), Error);
  EXPECT_THROW(save_safetensors("/no/such/folder/x", {}), Error);
}

}  // namespace
}  // namespace rlx
