// When the host has no memory left, the public functions say so by an rlx::Error, and what they were given is
// as it was.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "base/format.h"
#include "rlx/dtype.h"
#include "rlx/error.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/npy.h"
#include "rlx/onnx.h"
#include "rlx/safetensors.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "tests/support/allocations.h"
#include "tests/support/message.h"
#include "tests/support/onnx_seeds.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

// Lets allocations of the action fail, the first ones each and later ones here and there.
void expect_errors(const std::string& what, const std::function<void()>& action) {
  action();  // what is made once per process is made here
  int64_t failures = 0;
  bool happened = true;
  for (int64_t n = 0; happened; n += 1 + n / 24) {
    std::optional<ErrorKind> kind;
    std::string said;
    bool foreign = false;
    {
      const FailingAllocation failing(n);
      try {
        action();
      } catch (const Error& e) {
        kind = e.kind();
        said = e.what();
      } catch (...) {
        foreign = true;
      }
      happened = failing.happened();
    }
    EXPECT_FALSE(foreign) << what << ": allocation " << n << " leaves as something else";
    EXPECT_TRUE(!kind || *kind == ErrorKind::out_of_memory) << what << ": allocation " << n << ": " << said;
    failures += kind.has_value();
  }
  EXPECT_GT(failures, 0) << what;
}

TEST(OutOfMemory, IsAnErrorOfEveryPublicFunction) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const std::string text =
      "graph g {\n  %x = input : f32[n, 8]\n  %w = param : f32[8, 3]\n  %p = matmul(%x, %w)\n"
      "  %y = softmax(%p)\n  output y = %y\n}\n";
  const Graph graph = parse_graph(text);
  const std::string path =
      formatted("{}/rlx-memory-{}.npy", std::filesystem::temp_directory_path().string(), getpid());
  const Tensor tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_errors("parse_graph", [&] { parse_graph(text); });
  expect_errors("print", [&] { static_cast<void>(to_text(graph)); });
  expect_errors("verify", [&] { verify(graph); });
  const SymbolValues four = {{"n", 4}};
  expect_errors("bind_symbols", [&] { bind_symbols(graph, four); });
  expect_errors("random_weights", [&] { models::random_weights(graph, 1); });
  const Dim batch("batch");
  const Dim seq("seq");
  expect_errors("bert_encoder", [&] { models::bert_encoder({.layers = 1}, batch, seq); });
  expect_errors("doubles", [&] { static_cast<void>(tensor.doubles()); });
  expect_errors("head", [&] { static_cast<void>(tensor.head(0, 1)); });
  expect_errors("write_npy", [&] { write_npy(path, tensor); });
  expect_errors("read_npy", [&] { static_cast<void>(read_npy(path)); });
  std::filesystem::remove(path);
  const std::string npz = in_source("tests/fixtures/ocr.npz");
  expect_errors("read_npz", [&] { read_npz(npz); });
}

TEST(OutOfMemory, IsAnErrorOfAnImport) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const std::string path =
      formatted("{}/rlx-memory-{}.onnx", std::filesystem::temp_directory_path().string(), getpid());
  const std::vector<std::byte> bytes = onnx_seeds().front().bytes;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  expect_errors("onnx::load", [&] { onnx::load(path); });
  std::filesystem::remove(path);
}

// Sizes that no host has: nothing is allocated before it is clear that it can be.
TEST(OutOfMemory, SizesBeyondEveryHostAreErrors) {
  if (!AllocationCounter::available()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Tensor huge = Tensor::full(DType::f32, {1'000'000'000, 1'000'000'000}, 1);
  EXPECT_SAYS(huge.bytes(), "the host has no room for the 4000000000000000000 bytes");
  EXPECT_SAYS(huge.doubles(), "ran out of memory while reading a tensor");
  EXPECT_SAYS(huge.to_vector<float>(), "the host has no room");
  EXPECT_SAYS(huge.head(0, 10), "the host has no room");
  EXPECT_SAYS(Tensor::full(DType::u8, {INT64_MAX}, 1), "does not fit in 64 bits");
  EXPECT_SAYS(to_safetensors({{"huge", huge}}), "the host has no room");
}

// What a function that the caller gave throws, too.
TEST(OutOfMemory, ForeignExceptionsBecomeErrors) {
  const Tensor made = Tensor::made_by(DType::f32, {4}, [](size_t, std::span<std::byte>) {
    throw std::length_error("a vector of the caller");
  });
  EXPECT_SAYS(made.bytes(), "no host has as much memory as was needed while reading a tensor");
  const Tensor odd = Tensor::made_by(DType::f32, {4},
                                     [](size_t, std::span<std::byte>) { throw std::runtime_error("gone"); });
  EXPECT_SAYS(odd.bytes(), "reading a tensor failed: gone");
  const Tensor odder = Tensor::made_by(DType::f32, {4}, [](size_t, std::span<std::byte>) { throw 42; });
  EXPECT_SAYS(odder.doubles(), "something was thrown that is not an exception");
}

}  // namespace
}  // namespace rlx::testing
