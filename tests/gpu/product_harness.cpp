// Compiling and running one product, and its sums on the host.
#include "tests/gpu/product_harness.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/format.h"
#include "ir/reference.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/products/store_strided.h"
#include "ops/reductions/reduce.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "tests/gpu/gpu_compiler.h"
#include "tests/support/compare.h"

namespace rlx::testing::product {
namespace {

// An op whose lowering is given.
struct AnyProduct final : OpOf<AnyProduct> {
  static constexpr auto kName = "any_product";
  std::vector<TensorType> results;
  std::function<void(Lowering&)> make;

  std::vector<TensorType> infer(const InferArgs&) const override { return results; }
  void reference(RefContext&) const override {}
  void lower(Lowering& l) const override { make(l); }
  bool reads_encoded(int64_t, DType, const View&) const override { return true; }
};

std::vector<RefTensor> expected(const Case& c, const Sizes& size) {
  std::vector<RefTensor> out;
  for (const std::vector<int64_t>& dims : c.y.outputs) {
    out.push_back(RefTensor::zeros(c.y.type, dims));
    out.back().visit([](auto& values) { std::ranges::fill(values, kUntouched); });
  }
  const auto count = [&](int64_t lines) { return static_cast<size_t>(lines * size.k); };
  std::vector<double> left(count(size.m));
  std::vector<double> right(count(size.n));
  for (int64_t b = 0; b < size.batch; ++b) {
    if (c.a.skips(b) || c.b.skips(b)) continue;
    for (size_t i = 0; i < left.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      left[i] = c.a.at(b, at / size.k, at % size.k);
    }
    for (size_t i = 0; i < right.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      right[i] = c.b.at(b, at / size.k, at % size.k);
    }
    for (int64_t row = 0; row < size.m; ++row) {
      for (int64_t col = 0; col < size.n; ++col) {
        const double* x = left.data() + row * size.k;
        const double* y = right.data() + col * size.k;
        double sum = 0;
        for (int64_t k = 0; k < size.k; ++k) sum += x[k] * y[k];
        const auto [output, position] = c.y.place(b, row, col);
        if (position < 0) continue;
        const double v = c.tail ? c.tail(sum, b, row, col) : sum;
        RefTensor& to = out[output];
        if (is_float(to.dtype)) {
          to.real[static_cast<size_t>(position)] = v;
        } else {
          to.ints[static_cast<size_t>(position)] = static_cast<int64_t>(v);
        }
      }
    }
  }
  return out;
}

bool is_encoded_source(const Case& c) {
  return std::ranges::any_of(c.inputs.tensors, [](const Tensor& t) { return is_encoded(t.dtype()); });
}

// An op that the loop can be forced for.
std::string_view op_with(std::string_view loop) { return loop == kSlide ? "conv" : "matmul"; }

// Whole numbers have exact sums. Blocks hold numbers up to about 40.
Tolerance tolerance(const Case& c, const Sizes& size) {
  const bool exact = !is_encoded_source(c);
  const auto k = static_cast<double>(size.k);
  return exact ? Tolerance{.ulps = 0} : Tolerance{.ulps = 2, .terms = k, .scale = 40 * 3 * std::sqrt(k)};
}

}  // namespace

void Products::run(const Case& c, std::string_view loop, const Device& device) {
  check_case(c, loop, device, [&](Lowering& l, const Product& p) { products::lower(l, op_with(loop), p); });
}

void Products::run_regions(const Case& c, std::string_view loop, const std::vector<Region>& regions) {
  check_case(c, loop, device(), [&](Lowering& l, const Product& whole) {
    Product p = whole;
    for (const Region& r : regions) {
      p.region = r;
      l.emit(choose(l.target(), op_with(loop), loops(), p).make(l, p));
    }
  });
}

void Products::run_parts(const Case& c, std::string_view loop, int64_t parts) {
  check_case(c, loop, device(), [&](Lowering& l, const Product& whole) {
    Product p = whole;
    p.region = {{0, p.size.batch}, {0, p.size.m}, {0, p.size.n}, {0, p.size.k}};
    p.k_parts = parts;
    const Operand sums = l.scratch(DType::f32, {parts, p.size.batch, p.size.m, p.size.n});
    lower_fill(l, sums, kUntouched);
    p.y = std::make_shared<StoreStrided>(Grouped{sums, 2, 1});
    l.emit(choose(l.target(), op_with(loop), loops(), p).make(l, p));
    lower_reduce(l, ReduceKind::sum, sums, {0}, l.out());
  });
}

void Products::check_case(const Case& c, std::string_view loop, const Device& device,
                          const std::function<void(Lowering&, const Product&)>& lower_product) {
  SCOPED_TRACE(formatted("{}: {} x {} -> {}{}", loop, c.a.name, c.b.name, c.y.name,
                         c.expr.empty() ? "" : " with " + c.expr));
  ASSERT_EQ(c.a.k, c.b.k);
  ASSERT_EQ(c.a.batch, c.b.batch);
  const Sizes size{c.a.batch, c.a.lines, c.b.lines, c.a.k};
  auto op = std::make_shared<AnyProduct>();
  for (const std::vector<int64_t>& dims : c.y.outputs) op->results.push_back({c.y.type, Shape(dims)});
  op->make = [&](Lowering& l) {
    for (int64_t i = 0; i < std::ssize(c.y.outputs); ++i) lower_fill(l, l.out(i), kUntouched);
    Product p;
    p.size = size;
    p.a = c.a.load(l.inputs());
    p.b = c.b.load(l.inputs());
    p.y = c.y.store(l, l.inputs());
    p.run = c.run > 0 ? c.run : c.a.run > 0 ? c.a.run : c.b.run;
    std::vector<DType> types = {c.sum};
    for (const auto& [input, view] : c.extra) {
      const Operand& e = l.in(static_cast<int64_t>(input));
      p.extra.push_back({e.with_view(view.operand.view), view.first_axes, view.second_axes});
      types.push_back(e.dtype);
    }
    if (!c.expr.empty()) p.expr = Expr::parse(c.expr, types);
    lower_product(l, p);
  };
  Graph g;
  std::vector<ValueId> values;
  NamedTensors given;
  for (size_t i = 0; i < c.inputs.tensors.size(); ++i) {
    const Tensor& t = c.inputs.tensors[i];
    const std::string name = formatted("x{}", i);
    values.push_back(g.input(name, t.dtype(), Shape(t.shape())).id());
    given[name] = t;
  }
  const ValueId y = g.add(op, values, "y");
  for (size_t i = 0; i < c.y.outputs.size(); ++i)
    g.add_output({formatted("y{}", i), {y.node, static_cast<int32_t>(i)}});

  CompileOptions options{.optimize = false};
  if (!loop.empty()) options.kernels = {{std::string(op_with(loop)), std::string(loop)}};
  if (only_compiles()) return compile_for_gpu(g, options);
  try {
    Executable exe = compile(g, device, options);
    const NamedTensors got = exe.run(given);
    steps_ = exe.plan_report().run;
    const std::vector<RefTensor> want = expected(c, size);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(close(got.at(formatted("y{}", i)), want[i], tolerance(c, size))) << "output " << i;
    }
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
}

}  // namespace rlx::testing::product
