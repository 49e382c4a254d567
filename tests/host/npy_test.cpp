// NumPy's files: what NumPy wrote is read, what is written here is what NumPy would write, and everything
// else is refused with a sentence.
#include "import/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/format.h"
#include "import/zip.h"
#include "rlx/npy.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using Type = onnx::ElementType;

const std::string kFixture = in_source("tests/fixtures/npy.npz");

class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / formatted("rlx-npy-test-{}", getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string slurp(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  // A file with this header, of version 1.
  std::string with_header(const std::string& header, const std::string& data = "") const {
    std::string bytes = "\x93NUMPY";
    bytes += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
    return write("x.npy", bytes + header + data);
  }
  std::string with_shape(const std::string& type, const std::string& shape, const std::string& data) const {
    return with_header(formatted("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape),
                       data);
  }
  template <class T>
  std::string with_values(const std::string& type, const std::vector<T>& values) const {
    return with_shape(type, formatted("({},)", values.size()),
                      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
  }

  fs::path folder_;
};

TEST_F(Npy, ReadsWhatNumPyWrote) {
  const std::map<std::string, NpyArray> arrays = open_npz(kFixture);
  EXPECT_EQ(arrays.size(), 56u);
  std::set<Type> seen;
  for (const auto& [name, array] : arrays) {
    EXPECT_EQ(numpy_name(array.type), name.substr(0, name.find('_')));
    seen.insert(array.type);
    const bool complex = array.type == Type::complex64 || array.type == Type::complex128;
    const Tensor t = array.as(array.type == Type::complex128 ? Type::complex64 : array.type);
    ASSERT_EQ(t.shape(), (std::vector<int64_t>{2, 3, 5})) << name;
    for (int64_t i = 0; i < t.elements(); ++i) {
      double want = static_cast<double>(3 * i - 7);
      if (array.type == Type::boolean) want = static_cast<double>(std::abs(3 * i - 7) % 2);
      if (onnx::is_unsigned(array.type)) want = std::fabs(want);
      EXPECT_EQ(t.complex(i), (std::complex<double>(want, complex ? -0.5 * want : 0))) << name << " " << i;
    }
  }
  EXPECT_EQ(seen.size(), 14u);
  EXPECT_SAYS(read_npz(kFixture), "complex128 is not supported");
}

TEST_F(Npy, ReadsWhatItWrites) {
  const Tensor tensors[] = {
      Tensor::of<float>({2, 3}, {1, -2, 3.5f, 4, 5, INFINITY}),
      Tensor::from_doubles(DType::f16, {3}, std::vector<double>{0.5, -1, 65504}),
      Tensor::of<int32_t>({2}, {INT32_MIN, INT32_MAX}),
      Tensor::of<int64_t>({1}, {INT64_MIN}),
      Tensor::of<uint32_t>({1}, {UINT32_MAX}),
      Tensor::of<int8_t>({3}, {-128, 0, 127}),
      Tensor::of<uint8_t>({1, 1}, {255}),
      Tensor::from_ints(DType::bool_, {3}, std::vector<int64_t>{1, 0, 1}),
      Tensor::of<std::complex<float>>({1}, {std::complex<float>(1, -2)}),
      Tensor::of<float>({}, {7}),
      Tensor(DType::f32, {0, 4}, {}),
      Tensor::full(DType::f32, {2, 2}, 3),
  };
  for (const Tensor& t : tensors) {
    write_npy(path("t.npy"), t);
    EXPECT_EQ(read_npy(path("t.npy")), t) << t;
  }
  write_npy(path("t.npy"), Tensor::from_doubles(DType::bf16, {2}, std::vector<double>{2, -0.5}));
  EXPECT_EQ(read_npy(path("t.npy")), Tensor::of<float>({2}, {2, -0.5f}));
  write_npy(path("t.npy"), Tensor::from_doubles(DType::q8_0, {32}, std::vector<double>(32, 127)));
  EXPECT_EQ(read_npy(path("t.npy")).real(31), 127);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing else is left behind";
}

// Byte by byte, as NumPy 1.24 writes them.
TEST_F(Npy, WritesWhatNumPyWrites) {
  write_npy(path("t.npy"), Tensor::of<float>({2, 1}, {1, 2}));
  std::string want("\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", 69);
  want.resize(127, ' ');
  want += std::string("\n\0\0\x80?\0\0\0@", 9);
  EXPECT_EQ(slurp(path("t.npy")), want);
}

TEST_F(Npy, CarriedTypesComeAndGo) {
  const auto back = [&](Type type, const Tensor& t) {
    write_npy(path("t.npy"), t, type);
    const NpyArray array = open_npy(path("t.npy"));
    EXPECT_EQ(array.as(type), t) << numpy_name(type);
    return numpy_name(array.type);
  };
  EXPECT_EQ(back(Type::float64, Tensor::of<float>({2}, {0.1f, -3})), "float64");
  EXPECT_EQ(back(Type::int16, Tensor::of<int32_t>({2}, {-32768, 32767})), "int16");
  EXPECT_EQ(back(Type::uint16, Tensor::of<int32_t>({2}, {0, 65535})), "uint16");
  EXPECT_EQ(back(Type::uint64, Tensor::of<uint32_t>({1}, {UINT32_MAX})), "uint64");
  EXPECT_EQ(back(Type::int4, Tensor::of<int8_t>({2}, {-8, 7})), "int8");
  EXPECT_EQ(back(Type::uint2, Tensor::of<uint8_t>({1}, {3})), "uint8");
  EXPECT_EQ(back(Type::bfloat16, Tensor::from_doubles(DType::bf16, {1}, std::vector<double>{1.5})),
            "float32");
  // Raw bfloat16, as the types of other libraries are saved.
  const Tensor raw = open_npy(with_values<uint16_t>("|V2", {0x3fc0})).as(Type::bfloat16);
  EXPECT_EQ(raw.real(0), 1.5);
}

TEST_F(Npy, NothingIsLostOnTheWay) {
  const auto ints = [&](Type to, std::vector<int64_t> values) {
    return open_npy(with_values("<i8", values)).as(to);
  };
  EXPECT_EQ(ints(Type::int16, {-32768, 32767}).integers(), (std::vector<int64_t>{-32768, 32767}));
  EXPECT_SAYS(ints(Type::int16, {0, 32768}), "element 1 is 32768, which does not fit in int16");
  EXPECT_SAYS(ints(Type::int16, {-32769}), "element 0 is -32769");
  EXPECT_SAYS(ints(Type::uint8, {-1}), "element 0 is -1, which does not fit in uint8");
  EXPECT_SAYS(ints(Type::int4, {8}), "element 0 is 8, which does not fit in int4");
  EXPECT_SAYS(ints(Type::int32, {1LL << 31}), "element 0 is 2147483648, which does not fit in int32");
  EXPECT_SAYS(ints(Type::uint64, {1LL << 32}),
              "4294967296, which does not fit in the 32 bits that carry uint64");
  EXPECT_EQ(ints(Type::int64, {INT64_MIN}).integer(0), INT64_MIN);
  const auto unsigned_ints = [&](Type to, std::vector<uint64_t> values) {
    return open_npy(with_values("<u8", values)).as(to);
  };
  EXPECT_SAYS(unsigned_ints(Type::int64, {UINT64_MAX}), "element 0 is 18446744073709551615, which does not");
  EXPECT_SAYS(unsigned_ints(Type::uint64, {UINT64_MAX}), "element 0 is 18446744073709551615, which does not");
  EXPECT_EQ(unsigned_ints(Type::int8, {127}).integer(0), 127);

  const auto floats = [&](Type to, std::vector<double> values) {
    return open_npy(with_values("<f8", values)).as(to);
  };
  EXPECT_EQ(floats(Type::float64, {0.1}).real(0), 0.1f);  // a double that is carried as f32 may be rounded
  EXPECT_SAYS(floats(Type::float64, {1, 1e300}),
              "element 1 is 1.0000000000000001e+300, which does not fit in "
              "the f32 that carries float64");
  EXPECT_SAYS(floats(Type::float32, {0.1}),
              "element 0 is 0.10000000000000001, which float32 cannot hold exactly; save it as float32");
  EXPECT_SAYS(floats(Type::float16, {65536}), "65536, which does not fit in float16");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(floats(Type::float16, {0.5, -inf}).real(1), -inf);
  EXPECT_TRUE(std::isnan(floats(Type::float32, {std::nan("")}).real(0)));

  EXPECT_SAYS(floats(Type::int64, {1}), "its elements are float64, which cannot be taken for int64");
  EXPECT_SAYS(ints(Type::float32, {1}), "its elements are int64, which cannot be taken for float32");
  EXPECT_SAYS(ints(Type::boolean, {1}), "its elements are int64, which cannot be taken for bool");
}

TEST_F(Npy, HeadersThatAreNonsense) {
  const auto refused = [&](const std::string& header, const std::string& part) {
    EXPECT_SAYS(read_npy(with_header(header)), part);
    EXPECT_SAYS(read_npy(with_header(header)), "x.npy: ");
  };
  refused("", "no '{'");
  refused("[1, 2]", "no '{'");
  refused("{", "no string");
  refused("{'descr", "a string that does not end");
  refused("{'descr'}", "no ':'");
  refused("{'descr': 4}", "no string");
  refused("{'descr': '<f4'", "no '}'");
  refused("{'descr': '<f4', }", "lacks one of");
  refused("{'descr': '<f4', 'descr': '<f4'}", "the key 'descr' twice");
  refused("{'descr': '<f4', 'import os': 1}", "unknown key 'import os'");
  refused("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "type '|O', which is not supported");
  refused("{'descr': '<f16', 'fortran_order': False, 'shape': ()}", "type '<f16'");
  refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "fields");
  refused("{'descr': '', 'fortran_order': False, 'shape': ()}", "type ''");
  refused("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "not True or False");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': 3}", "no '('");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "at least 0");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}", "no ')'");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "63 bits");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + os.system('ls')", "after its last '}'");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1,";
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (" + many + ")}", "more than 64 dims");
  // Sizes are compared with that of the file before any memory is taken.
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976,)}",
          "needs 4611686018427387904 bytes, but 0 follow");
  refused("{'descr': '<f4', 'fortran_order': True, 'shape': (1152921504606846976, 1152921504606846976)}",
          "does not fit in 64 bits");
}

TEST_F(Npy, FilesThatAreNotWhole) {
  EXPECT_SAYS(read_npy(path("none.npy")), "none.npy' cannot be read: No such file");
  EXPECT_SAYS(read_npy(folder_.string()), "not a regular file");
  EXPECT_SAYS(read_npy(write("x.npy", "")), "not an npy file");
  EXPECT_SAYS(read_npy(write("x.npy", "PK\3\4")), "not an npy file");
  write_npy(path("whole.npy"), Tensor::of<float>({2}, {1, 2}));
  const std::string whole = slurp(path("whole.npy"));
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_SAYS(read_npy(write("x.npy", whole.substr(0, n))), "x.npy: ");
  }
  EXPECT_SAYS(read_npy(write("x.npy", whole + "!")), "needs 8 bytes, but 9 follow");
  std::string version = whole;
  version[6] = 4;
  EXPECT_SAYS(read_npy(write("x.npy", version)), "version 4");
  EXPECT_SAYS(read_npy(with_shape("|b1", "(2,)", std::string("\1\2"))), "is 2, neither 0 nor 1");
}

TEST_F(Npy, ArchivesThatAreNotWhole) {
  EXPECT_SAYS(read_npz(write("x.npz", "")), "not a whole zip file");
  EXPECT_SAYS(read_npz(write("x.npz", "no zip at all, but longer than the shortest one")), "not a whole zip");
  const std::string whole = slurp(kFixture);
  for (size_t n = 0; n < whole.size(); n += 397) {
    EXPECT_SAYS(open_npz(write("x.npz", whole.substr(0, n))), "x.npz: ");
  }
  // Any byte may be wrong: either that is noticed, or it is one that does not matter.
  const std::map<std::string, NpyArray> arrays = open_npz(kFixture);
  for (size_t i = 0; i < whole.size(); i += 61) {
    std::string broken = whole;
    broken[i] = static_cast<char>(broken[i] ^ 0x55);
    const std::string said = testing::message([&] {
      for (const auto& [name, array] : open_npz(write("x.npz", broken))) {
        const auto same = arrays.find(name);
        if (same == arrays.end()) continue;  // its name was the byte
        EXPECT_EQ(array.shape, same->second.shape) << name << " with byte " << i;
        EXPECT_TRUE(std::ranges::equal(array.data, same->second.data)) << name << " with byte " << i;
      }
    });
    EXPECT_TRUE(said == "no error" || said.contains("x.npz")) << said;
  }
}

std::string little_endian(uint64_t number, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? number >> (8 * i) : 0);
  return out;
}

// Of every byte of the array itself, stored as it is, the checksum knows.
TEST_F(Npy, ArchivesHaveChecksums) {
  write_npy(path("t.npy"), Tensor::of<float>({2}, {1, 2}));
  const std::string npy = slurp(path("t.npy"));
  const auto archive = [&](const std::string& data) {
    const uint64_t sum = crc32_z(0, reinterpret_cast<const Bytef*>(npy.data()), npy.size());
    const std::string sizes =
        little_endian(sum, 4) + little_endian(npy.size(), 4) + little_endian(npy.size(), 4);
    std::string out =
        "PK\3\4" + little_endian(20, 10) + sizes + little_endian(5, 2) + little_endian(0, 2) + "t.npy" + data;
    const size_t at = out.size();
    out += "PK\1\2" + little_endian(20, 12) + sizes + little_endian(5, 2) + little_endian(0, 16) + "t.npy";
    const size_t bytes = out.size() - at;
    return out + "PK\5\6" + little_endian(0, 4) + little_endian(1, 2) + little_endian(1, 2) +
           little_endian(bytes, 4) + little_endian(at, 4) + little_endian(0, 2);
  };
  EXPECT_EQ(read_npz(write("x.npz", archive(npy))).at("t").to_vector<float>(), (std::vector<float>{1, 2}));
  for (size_t i = 0; i < npy.size(); ++i) {
    std::string broken = npy;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_SAYS(read_npz(write("x.npz", archive(broken))),
                "the member 't.npy' is damaged: its checksum is wrong");
  }
}

// As archives beyond 4 GiB are: the sizes and offsets are in the fields of 64 bits.
TEST_F(Npy, ArchivesWithWideSizes) {
  const Tensor t = Tensor::of<float>({2}, {1, 2});
  write_npy(path("t.npy"), t);
  const std::string npy = slurp(path("t.npy"));
  const uint64_t sum = crc32_z(0, reinterpret_cast<const Bytef*>(npy.data()), npy.size());
  const std::string zeros = little_endian(0, 4);
  const std::string elsewhere = little_endian(0xffffffff, 4);
  const auto build = [&](uint64_t member_bytes, uint64_t directory) {
    std::string out = "PK\3\4" + little_endian(45, 2) + zeros + zeros + little_endian(sum, 4) + elsewhere +
                      elsewhere + little_endian(5, 2) + little_endian(0, 2) + "t.npy" + npy;
    const size_t at = out.size();
    out += "PK\1\2" + little_endian(45, 4) + zeros + zeros + little_endian(sum, 4) + elsewhere + elsewhere +
           little_endian(5, 2) + little_endian(28, 2) + little_endian(0, 10) + elsewhere + "t.npy";
    out += little_endian(1, 2) + little_endian(24, 2) + little_endian(member_bytes, 8) +
           little_endian(member_bytes, 8) + little_endian(0, 8);
    const size_t end = out.size();
    out += "PK\6\6" + little_endian(44, 8) + little_endian(45, 4) + zeros + zeros + little_endian(1, 8) +
           little_endian(1, 8) + little_endian(end - at, 8) + little_endian(directory ? directory : at, 8);
    out += "PK\6\7" + zeros + little_endian(end, 8) + little_endian(1, 4);
    return out + "PK\5\6" + zeros + little_endian(0xffff, 2) + little_endian(0xffff, 2) + elsewhere +
           elsewhere + little_endian(0, 2);
  };
  EXPECT_EQ(read_npz(write("x.npz", build(npy.size(), 0))).at("t"), t);
  EXPECT_SAYS(read_npz(write("x.npz", build(uint64_t{1} << 60, 0))),
              "is said to be 1152921504606846976 bytes");
  EXPECT_SAYS(read_npz(write("x.npz", build(UINT64_MAX, 0))), "is said to be 18446744073709551615 bytes");
  EXPECT_SAYS(read_npz(write("x.npz", build(npy.size(), UINT64_MAX))), "the directory is said to be");
}

// A member that claims to be far larger than it can be.
TEST_F(Npy, ArchivesThatLie) {
  std::string bytes = slurp(kFixture);
  const size_t entry = bytes.find("PK\1\2", 0, 4);
  ASSERT_NE(entry, std::string::npos);
  const size_t deflated = bytes.find("PK\1\2", entry + 4, 4);
  ASSERT_EQ(bytes[deflated + 10], 8);
  bytes.replace(deflated + 24, 4, "\xf0\xff\xff\x7f");
  EXPECT_SAYS(open_npz(write("x.npz", bytes)), "cannot have 2147483632 bytes");
}

// Together they could claim any size.
TEST_F(Npy, ArchivesWhoseMembersOverlap) {
  const std::string whole = slurp(kFixture);
  const size_t first = whole.find("PK\1\2", 0, 4);
  ASSERT_NE(first, std::string::npos);
  const size_t second = whole.find("PK\1\2", first + 4, 4);
  std::string twice = whole;
  twice.replace(second + 42, 4, whole, first + 42, 4);  // where the member's header is
  EXPECT_SAYS(open_npz(write("x.npz", twice)), "overlap: one ends at ");
  std::string longer = whole;
  ++longer[first + 20];  // its length in the file
  EXPECT_SAYS(open_npz(write("x.npz", longer)), "overlap: one ends at ");
}

TEST_F(Npy, FilesThatCannotBeWritten) {
  const Tensor t = Tensor::scalar(1.0f);
  EXPECT_SAYS(write_npy(path("none/t.npy"), t), "cannot be written: No such file or directory");
  EXPECT_SAYS(write_npy(folder_.string(), t), "not a regular file");
  EXPECT_SAYS(write_npy("/dev/null", t), "not a regular file");
}

}  // namespace
}  // namespace rlx
