// ONNX files whose weights are elsewhere: at places that do not exist, that are not theirs, or that are no
// files.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlx/onnx.h"
#include "tests/host/onnx_hostile.h"
#include "tests/support/message.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;
using testing::ElementType;
using testing::onnx_tensor;
using testing::OnnxModel;
using testing::hostile::kLargest;

class OnnxHostileFiles : public ::testing::Test {
 protected:
  OnnxHostileFiles() : top_(fs::temp_directory_path() / ("rlx_onnx_hostile_" + std::to_string(getpid()))) {
    fs::create_directories(folder());
    std::ofstream(folder() / "data.bin") << "12345678";
    std::ofstream(top_ / "secret.bin") << "12345678";
  }
  ~OnnxHostileFiles() override { fs::remove_all(top_); }

  fs::path folder() const { return top_ / "model"; }

  // Loads a model whose weight, float[2], is at this place.
  std::string says(const std::string& location,
                   const std::vector<std::pair<std::string, std::string>>& more = {}) {
    std::string tensor;
    pbf_writer fields(tensor);
    const int64_t two = 2;
    fields.add_packed_int64(1, &two, &two + 1);
    fields.add_int32(2, 1);
    fields.add_string(8, "w");
    fields.add_int32(14, 1);
    std::vector<std::pair<std::string, std::string>> entries = more;
    entries.emplace_back("location", location);
    for (const auto& [key, value] : entries) {
      pbf_writer entry(fields, 13);
      entry.add_string(1, key);
      entry.add_string(2, value);
    }
    OnnxModel model;
    model.graph.initializer_message(tensor).node("Identity", {"w"}, {"y"}).output("y");
    const std::vector<std::byte> bytes = model.bytes();
    const fs::path path = folder() / "m.onnx";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return testing::message([&] { static_cast<void>(onnx::load(path.string())); });
  }

  fs::path top_;
};

TEST_F(OnnxHostileFiles, LengthsAndOffsets) {
  EXPECT_EQ(says("data.bin"), "no error");
  EXPECT_EQ(says("data.bin", {{"offset", "0"}, {"length", "8"}}), "no error");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "4"}}), "needs 8 bytes, but has 4");
  EXPECT_NODE_SAYS(says("data.bin", {{"length", "9"}}),
                   "has 9 bytes from byte 0 of 'data.bin' on, which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "18446744073709551615"}, {"length", "8"}}),
                   "which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "8"}, {"length", "18446744073709551615"}}),
                   "which has only 8");
  EXPECT_NODE_SAYS(says("data.bin", {{"offset", "-1"}}), "the offset '-1', which is not a number of bytes");
  EXPECT_NODE_SAYS(says("data.bin", {{"length", "99999999999999999999999"}}),
                   "which is not a number of bytes");
  EXPECT_NODE_SAYS(says("nothing.bin"), "the tensor 'w': the file");
}

TEST_F(OnnxHostileFiles, NothingOutsideTheFolder) {
  EXPECT_NODE_SAYS(says((top_ / "secret.bin").string()), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says("../secret.bin"), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says("a/../../secret.bin"), "must lead to a file below the folder");
  EXPECT_NODE_SAYS(says(""), "must lead to a file below the folder");
  fs::create_symlink(top_ / "secret.bin", folder() / "link.bin");
  EXPECT_NODE_SAYS(says("link.bin"), "which is not below the folder");
  fs::create_directory_symlink(top_, folder() / "up");
  EXPECT_NODE_SAYS(says("up/secret.bin"), "which is not below the folder");
  fs::create_symlink("data.bin", folder() / "inside.bin");
  EXPECT_EQ(says("inside.bin"), "no error");
  EXPECT_SAYS(onnx::parse([&] {
                says("data.bin");
                std::ifstream in(folder() / "m.onnx", std::ios::binary);
                const std::string text((std::istreambuf_iterator<char>(in)), {});
                const auto bytes = std::as_bytes(std::span(text));
                return std::vector<std::byte>(bytes.begin(), bytes.end());
              }()),
              "the model was not read from a folder");
}

TEST_F(OnnxHostileFiles, OnlyRegularFiles) {
  fs::create_directory(folder() / "sub");
  EXPECT_NODE_SAYS(says("sub"), "is not a regular file");
  EXPECT_NODE_SAYS(says("."), "is not a regular file");
  ASSERT_EQ(mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_NODE_SAYS(says("pipe"), "is not a regular file");  // and nobody waits for a writer
  EXPECT_SAYS(onnx::load((folder() / "pipe").string()), "is not a regular file");
  EXPECT_SAYS(onnx::load("/dev/zero"), "is not a regular file");
  fs::create_symlink("/dev/zero", folder() / "zero");
  EXPECT_NODE_SAYS(says("zero"), "which is not below the folder");
}

TEST_F(OnnxHostileFiles, InspectSaysTheSame) {
  EXPECT_EQ(says("data.bin"), "no error");
  EXPECT_EQ(onnx::inspect((folder() / "m.onnx").string()).parameters, 2);
  OnnxModel model;
  model.graph.initializer_message(onnx_tensor("w", ElementType::float32, {kLargest, kLargest}, ""))
      .output("w");
  const std::vector<std::byte> bytes = model.bytes();
  std::ofstream(folder() / "m.onnx", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const onnx::Info info = onnx::inspect((folder() / "m.onnx").string());
  ASSERT_FALSE(info.problems.empty());
  EXPECT_TRUE(info.problems[0].reason.contains("64 bits")) << info.problems[0].reason;
}

}  // namespace
}  // namespace rlx
