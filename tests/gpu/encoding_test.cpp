// Encoded tensors on the device: decoded by copies and gathers through every kind of view, and under small
// limits.
#include "encodings/encoding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gpu/device.h"
#include "kernels/binder.h"
#include "kernels/copy.wgsl.h"
#include "rlx/rlx.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/message.h"

namespace rlx::testing {
namespace {

class EncodingsOnDevice : public ::testing::TestWithParam<DType> {
 protected:
  DType dtype() const { return GetParam(); }
  int64_t block() const { return block_elements(dtype()); }

  // Runs the graph and compares every output with the reference.
  static void expect_right(const Graph& g, const Device& device, const NamedTensors& params,
                           const NamedTensors& inputs, const Tolerance& tolerance) {
    Executable exe = compile(g, device);
    for (const auto& [name, value] : params) exe.set_param(name, value);
    NamedTensors leaves = params;
    leaves.insert(inputs.begin(), inputs.end());
    const auto want = run_reference(g, leaves);
    for (const auto& [name, got] : exe.run(inputs)) EXPECT_TRUE(close(got, want.at(name), tolerance)) << name;
  }

  // Decoding is a product and a difference, each rounded once; values are of the size of a few tens.
  static constexpr Tolerance kDecoded{.ulps = 2, .scale = 32};

  // A reader for every layout.
  Graph views(int64_t rows, bool param) const {
    Graph g;
    const Shape shape{rows, 2, block()};
    const Value w = param ? g.param("w", dtype(), shape) : g.input("w", dtype(), shape);
    const Value i = g.input("i", DType::i32, {5});
    g.output("all", w);
    g.output("rows", slice(w, 0, 1, rows - 2));
    g.output("columns", slice(w, 2, 3, block() - 10));
    g.output("backwards", slice(w, 0, rows - 1, rows, -1));
    g.output("transposed", transpose(w, {2, 0, 1}));
    g.output("reshaped", reshape(w, {2 * rows * block() / 16, 16}));
    g.output("gathered", gather(w, i));
    g.output("gathered_inside", gather(transpose(w, {1, 2, 0}), i, 1));
    g.output("computed", abs(slice(w, 1, 1, 1)) * 2.0);
    return g;
  }

  Tensor indices() const { return Tensor::of<int32_t>({5}, {0, -1, 2, 1, 100}); }
};

std::vector<DType> all_types() {
  std::vector<DType> out;
  for (const Encoding& e : encoding_table().all()) out.push_back(e.dtype);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, EncodingsOnDevice, ::testing::ValuesIn(all_types()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EncodingsOnDevice, DecodeWhatLibggmlDecodes) {
  const Tensor values = encoded_fixture().tensor(formatted("{}.values", to_string(dtype())));
  Graph g;
  g.output("y", g.param("w", dtype(), {values.elements()}));
  Executable exe = compile(g, full_device());
  exe.set_param("w", ggml_tensor(dtype(), {values.elements()}));
  EXPECT_TRUE(close(exe.run({}).at("y"), RefTensor::from(values), kDecoded));
}

TEST_P(EncodingsOnDevice, AreReadThroughViews) {
  const Tensor w = ggml_tensor(dtype(), {5, 2, block()});
  expect_right(views(5, true), full_device(), {{"w", w}}, {{"i", indices()}}, kDecoded);
  expect_right(views(5, false), full_device(), {}, {{"w", w}, {"i", indices()}}, kDecoded);
}

// With eight bindings of 64 KiB: tensors that lie in several of them, decoded in one dispatch or in parts,
// and one that is more than all of them hold.
TEST_P(EncodingsOnDevice, AreReadInPiecesWhereABindingIsTooSmall) {
  for (const int64_t bytes : {1 << 15, 3 << 16, 1 << 20}) {
    const int64_t rows = bytes / (2 * encoding_of(dtype()).block_bytes) + 3;
    const Tensor w = ggml_tensor(dtype(), {rows, 2, block()});
    const Tensor i = Tensor::of<int32_t>({5}, {0, -1, static_cast<int32_t>(rows / 2), 1, 1 << 30});
    expect_right(views(rows, true), small_device(), {{"w", w}}, {{"i", i}}, kDecoded);
  }
}

TEST_P(EncodingsOnDevice, LeavesOfEveryKindAndEachBeforeAnother) {
  Graph g;
  // Neighbours in memory whose bytes are no multiple of four.
  const Value a = g.param("a", dtype(), {block()});
  const Value b = g.param("b", dtype(), {3, block()});
  const Value c = g.constant(ggml_tensor(dtype(), {block()}));
  const Value x = g.input("x", DType::f32, {3, block()});
  g.output("y", (a + b) * x + c);
  g.output("p", matmul(x, transpose(b)) + slice(transpose(slice(b, 1, 0, 1)), 0, 0, 1));
  const double terms = static_cast<double>(block());
  expect_right(g, full_device(),
               {{"a", ggml_tensor(dtype(), {block()})}, {"b", ggml_tensor(dtype(), {3, block()})}},
               {{"x", Tensor::full(DType::f32, {3, block()}, 0.5)}},
               {.ulps = 4, .terms = terms, .scale = 32 * std::sqrt(terms)});
}

TEST_P(EncodingsOnDevice, RowsOfAnInputMayBeSymbolic) {
  Graph g;
  g.set_capacity("n", 9);
  const Value w = g.input("w", dtype(), {"n", block()});
  g.output("y", w * 2.0);
  Executable exe = compile(g, full_device());
  for (const int64_t n : {2, 9, 4}) {
    const Tensor value = ggml_tensor(dtype(), {n, block()});
    const Tensor y = exe.run({{"w", value}}).at("y");
    EXPECT_EQ(y.shape(), (std::vector<int64_t>{n, block()}));
    EXPECT_FLOAT_EQ(static_cast<float>(y.real(n * block() - 1)),
                    static_cast<float>(2 * value.real(n * block() - 1)));
    // By the length of the bytes alone.
    std::vector<float> out(static_cast<size_t>(n * block()));
    exe.run({InputRef{"w", dtype(), value.bytes().data(), value.byte_size(), {}}},
            {OutputRef{"y", DType::f32, out.data(), out.size() * sizeof(float)}});
    EXPECT_EQ(out, y.to_vector<float>());
  }
}

TEST_P(EncodingsOnDevice, NodesCanBeReadAndVerified) {
  Graph g;
  const Value w = g.param("w", dtype(), {2, block()});
  const Value t = transpose(w).named("t");
  g.output("y", abs(t));
  Executable exe = compile(g, full_device(), {.keep_intermediates = true});
  const Tensor value = ggml_tensor(dtype(), {2, block()});
  exe.set_param("w", value);
  exe.run({});
  EXPECT_EQ(exe.value("w").doubles(), value.doubles());
  EXPECT_EQ(exe.value("t").real(1), value.real(block()));
  for (const NodeCheck& check : verify_nodes(exe)) EXPECT_EQ(check.wrong, 0) << check.node;
}

TEST_P(EncodingsOnDevice, MisuseIsAnError) {
  Graph g;
  g.output("y", g.param("w", dtype(), {2, block()}));
  g.output("z", g.input("x", dtype(), {2, block()}));
  Executable exe = compile(g, full_device());
  EXPECT_SAYS(exe.set_param("w", Tensor::full(DType::f32, {2, block()}, 1)), "f32 values were given");
  EXPECT_SAYS(exe.set_param("w", ggml_tensor(dtype(), {1, block()})), "was given");
  EXPECT_SAYS(exe.set_param("w", dtype(), std::vector<std::byte>(5)), "but 5 bytes were given");
  exe.set_param("w", ggml_tensor(dtype(), {2, block()}));
  EXPECT_SAYS(exe.run({{"x", ggml_tensor(dtype(), {1, block()})}}), "was given");
  EXPECT_SAYS(exe.feed("x", "z"), "cannot feed");
  EXPECT_EQ(exe.outputs().at(0).type.dtype, DType::f32);
}

// Kernels that declare an operand encoded are written once for all encodings; here, one that uses all there
// is.
TEST_P(EncodingsOnDevice, GroupsAreReadAsDeclared) {
  const KernelPtr kernel = parse_kernel(
      "//# groups.wgsl 1\n"
      "//@ in weight encoded x4\n"
      "//@ out y float\n"
      "struct Params { first: u32, end: u32, }\n"
      "//@ use flat\n"
      "fn element(i: u32) -> y_t {\n"
      "  let g = weight_group(weight_flat(i));\n"
      "  return dot(weight_group_four(g, i % weight_GROUP / 4u), weight_get4(i & ~3u)) + weight_at(i);\n"
      "}\n");
  const auto device = gpu::Device::open();
  gpu::PipelineRequest request{.label = "groups", .wgsl = default_module_text(kernel, dtype())};
  request.bindings = {gpu::BindingKind::uniform, gpu::BindingKind::uniform, gpu::BindingKind::read,
                      gpu::BindingKind::read_write};
  EXPECT_EQ(message([&] { device->pipeline(request); }), "no error");
}

}  // namespace
}  // namespace rlx::testing
