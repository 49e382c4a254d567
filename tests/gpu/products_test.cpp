// The engine of all products (src/ops/products): every tile loop with every load and every store, without an
// op around it, against products of the same numbers on the host.
//
// Compiling shaders takes the time, so a load or a store meets each loop once, with a plain choice for the
// other parts, and only a few cases combine special ones.
#include <gtest/gtest.h>

#include <numeric>

#include "ir/reference.h"
#include "ops/fill.h"
#include "ops/products/load_blocks.h"
#include "ops/products/load_by_table.h"
#include "ops/products/load_packed.h"
#include "ops/products/load_strided.h"
#include "ops/products/load_window.h"
#include "ops/products/product.h"
#include "ops/products/store_by_table.h"
#include "ops/products/store_split.h"
#include "ops/products/store_strided.h"
#include "ops/reduce.h"
#include "rlx/rlx.h"
#include "tests/support/compare.h"
#include "tests/support/devices.h"
#include "tests/support/encoded.h"
#include "tests/support/sample.h"

namespace rlx::testing {
namespace {

using namespace products;

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

// --- the parts of a product: what the device is given, and the same on the host ---

// What the op has to read, in order.
struct Inputs {
  std::vector<Tensor> tensors;
  size_t add(Tensor t) {
    tensors.push_back(std::move(t));
    return tensors.size() - 1;
  }
};
using Operands = OperandList;

// A matrix [batch, lines, k] and how it is loaded.
struct Source {
  std::string name;
  int64_t batch = 1, lines = 0, k = 0;
  int64_t run = 0;
  std::function<LoadPtr(const Operands& in)> load;
  std::function<double(int64_t batch, int64_t line, int64_t k)> at;
  std::function<bool(int64_t batch)> skips = [](int64_t) { return false; };
};

std::mt19937& numbers() {
  static std::mt19937 random(5);
  return random;
}

// Small whole numbers: sums are exact in whatever order.
Tensor whole_numbers(DType type, const std::vector<int64_t>& dims) {
  Tensor t = random_tensor(DType::i32, dims, -3, 3, numbers());
  return is_float(type) ? Tensor::from_doubles(type, dims, t.doubles()) : Tensor::from_ints(type, dims, [&] {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < t.elements(); ++i) values.push_back(t.integer(i));
    return values;
  }());
}

double number(const Tensor& t, int64_t i) {
  return is_float(value_dtype(t.dtype())) ? t.real(i) : static_cast<double>(t.integer(i));
}

// Element [first, second, third] of a view in three groups.
double element(const Tensor& t, const Grouped& x, int64_t first, int64_t second, int64_t third) {
  int64_t position = x.operand.view.offset;
  int64_t group = 0;
  for (int64_t index : {first, second, third}) {
    const View axes = x.group(group++);
    for (size_t axis = axes.dims.size(); axis-- > 0;) {
      position += index % axes.dims[axis] * axes.strides[axis];
      index /= axes.dims[axis];
    }
  }
  return number(t, position);
}

// A strided source: `view` of a tensor with `elements`, its axes in three groups.
Source strided(Inputs& inputs, std::string name, Tensor tensor, View view, int64_t first, int64_t second,
               int64_t run = 0) {
  const Grouped x{{.view = std::move(view)}, first, second};
  Source s{.name = std::move(name),
           .batch = x.group(0).elements(),
           .lines = x.group(1).elements(),
           .k = x.group(2).elements(),
           .run = run};
  const size_t at = inputs.add(tensor);
  s.load = [x, at](const Operands& in) -> LoadPtr {
    const Grouped bound{in[at].with_view(x.operand.view), x.first_axes, x.second_axes};
    if (is_encoded(in[at].dtype)) return std::make_shared<LoadBlocks>(bound);
    return std::make_shared<LoadStrided>(bound);
  };
  s.at = [=](int64_t b, int64_t line, int64_t k) { return element(tensor, x, b, line, k); };
  return s;
}

enum class Kind { along_k, along_lines, fours_along_k, fours_along_lines, axes, runs, backwards };

// One of the ways in which a strided matrix can lie in memory.
Source matrix(Inputs& inputs, Kind kind, int64_t batch, int64_t lines, int64_t k, DType type = DType::f32) {
  const auto tensor = [&](std::vector<int64_t> dims) { return whole_numbers(type, dims); };
  switch (kind) {
    case Kind::along_k:
    case Kind::fours_along_k:
      return strided(inputs, "along k", tensor({batch, lines, k}), View::contiguous({batch, lines, k}), 1, 1);
    case Kind::along_lines:
    case Kind::fours_along_lines:
      return strided(inputs, "along lines", tensor({batch, k, lines}),
                     View::contiguous({batch, k, lines}).permute({0, 2, 1}), 1, 1);
    case Kind::axes: {
      // Each group has several axes, none of which can be joined: k as [k / 4, 4], the line in between.
      const View v = View::contiguous({k / 4, 2, lines, batch, 6}).slice(4, 1, 4);
      return strided(inputs, "groups of axes", tensor({k / 4, 2, lines, batch, 6}),
                     v.permute({3, 1, 2, 0, 4}), 1, 2, 4);
    }
    case Kind::runs:
      // Runs of six that lie one after the other: quads of k, but not of the runs.
      return strided(inputs, "runs of six", tensor({batch, lines, k}),
                     View::contiguous({batch, lines, k / 6, 6}), 1, 1, 6);
    case Kind::backwards: {
      View v = View::contiguous({batch, lines, k});
      v.offset = lines * k - 1;
      v.strides[1] *= -1;
      v.strides[2] *= -1;
      return strided(inputs, "backwards", tensor({batch, lines, k}), v, 1, 1);
    }
  }
  return {};
}

// Windows of an image [batch, 1, 5, 4, channels]: three by two taps, twelve pixels.
Source window(Inputs& inputs, int64_t batch, int64_t channels) {
  const std::array<WindowAxis, 3> axes = {
      WindowAxis{}, WindowAxis{.in = 5, .out = 4, .kernel = 3, .stride = 2, .dilation = 1, .pad = 2},
      WindowAxis{.in = 4, .out = 3, .kernel = 2, .stride = 1, .dilation = 2, .pad = 1}};
  const Tensor x = whole_numbers(DType::f32, {batch, 1, 5, 4, channels});
  const View view = View::contiguous(x.shape());
  Source s{.name = formatted("windows of {} channels", channels),
           .batch = batch,
           .lines = 12,
           .k = 6 * channels,
           .run = channels};
  const size_t at = inputs.add(x);
  s.load = [=](const Operands& in) { return std::make_shared<LoadWindow>(in[at].with_view(view), axes); };
  s.at = [=](int64_t b, int64_t line, int64_t k) {
    const int64_t tap = k / channels;
    const int64_t y = line / 3 * 2 + tap / 2 - 2;
    const int64_t c = line % 3 + tap % 2 * 2 - 1;
    if (y < 0 || y >= 5 || c < 0 || c >= 4) return 0.0;
    return x.real(((b * 5 + y) * 4 + c) * channels + k % channels);
  };
  return s;
}

Source blocks(Inputs& inputs, DType type, int64_t batch, int64_t lines) {
  const int64_t k = 2 * block_elements(type);
  Source s = strided(inputs, formatted("{} blocks", to_string(type)), ggml_tensor(type, {batch, lines, k}),
                     View::contiguous({batch, lines, k}), 1, 1);
  s.run = encoding_of(type).group_elements;
  return s;
}

// Codes of four bits with a sign, a scale and a zero point for every eight of k.
Source packed(Inputs& inputs, bool along_k, int64_t lines, int64_t k) {
  const Tensor codes = random_tensor(DType::u8, {lines * k / 2}, 0, 255, numbers());
  const Tensor scale = whole_numbers(DType::f32, {k / 8, lines});
  const Tensor zero = whole_numbers(DType::i8, {k / 8, lines});
  Source s{.name = along_k ? "packed along k" : "packed along lines", .lines = lines, .k = k, .run = 8};
  const size_t at = inputs.add(codes);
  inputs.add(scale);
  inputs.add(zero);
  const int64_t line_step = along_k ? k : 1;
  const int64_t k_step = along_k ? 1 : lines;
  s.load = [=](const Operands& in) {
    LoadPacked::Weight w{
        .words = in[at], .code = LoadPacked::Code::signed_int, .bits = 4, .lines = lines, .k = k};
    w.words.dtype = DType::u32;
    w.words.view = View::contiguous({(lines * k / 2 + 3) / 4});
    w.line_step = line_step;
    w.k_step = k_step;
    w.block = 8;
    w.scale = in[at + 1];
    w.zero = in[at + 2];
    return std::make_shared<LoadPacked>(w);
  };
  s.at = [=](int64_t, int64_t line, int64_t i) {
    const int64_t code = line * line_step + i * k_step;
    const int64_t nibble = codes.integer(code / 2) >> (code % 2 * 4) & 15;
    const int64_t block = i / 8 * lines + line;
    return static_cast<double>((nibble < 8 ? nibble : nibble - 16) - zero.integer(block)) * scale.real(block);
  };
  return s;
}

// Batches or lines of another source, chosen by a table; of `inner`, the batches from `first` on exist.
Source by_table(Inputs& inputs, Source inner, LoadByTable::Picks picks, std::vector<int32_t> chosen,
                int64_t batch, LoadByTable::Outside outside = LoadByTable::Outside::zero, int64_t first = 0) {
  Source s = inner;
  const bool by_batch = picks == LoadByTable::Picks::batch;
  s.name = formatted("{} by table over {}", by_batch ? "batches" : "lines", inner.name);
  s.batch = batch;
  s.lines = by_batch ? inner.lines : std::ssize(chosen) / batch;
  const int64_t count = by_batch ? inner.batch : inner.lines;
  const size_t at = inputs.add(Tensor::of<int32_t>({std::ssize(chosen)}, chosen));
  const int64_t lines = s.lines;
  s.load = [=](const Operands& in) {
    return std::make_shared<LoadByTable>(inner.load(in), LoadByTable::Table{.indices = in[at],
                                                                            .picks = picks,
                                                                            .lines = lines,
                                                                            .first = first,
                                                                            .count = count,
                                                                            .outside = outside});
  };
  s.at = [=](int64_t b, int64_t line, int64_t k) {
    const int64_t i = chosen[static_cast<size_t>(by_batch ? b : b * lines + line)] - first;
    if (by_batch) return i < 0 || i >= count ? 0.0 : inner.at(i, line, k);
    return inner.at(0, i, k);
  };
  s.skips = [=](int64_t b) {
    if (!by_batch || outside == LoadByTable::Outside::zero) return false;
    const int64_t i = chosen[static_cast<size_t>(b)];
    return outside == LoadByTable::Outside::skipped ? i < first || i >= first + count : i < 0;
  };
  return s;
}

// Where the results go: outputs, all of whose elements hold kUntouched before.
struct Sink {
  std::string name;
  std::vector<std::vector<int64_t>> outputs;
  DType type = DType::f32;
  std::function<StorePtr(const Lowering& l, const Operands& in)> store;
  // The output and the position in it, -1 if the result is not stored.
  std::function<std::pair<size_t, int64_t>(int64_t batch, int64_t row, int64_t col)> place;
};
constexpr double kUntouched = 77;

Sink to_view(std::string name, std::vector<int64_t> dims, View view, int64_t first, int64_t second,
             DType type = DType::f32) {
  const Grouped y{{.view = std::move(view)}, first, second};
  Tensor positions = Tensor::zeros(DType::f32, dims);
  std::vector<double> index(static_cast<size_t>(positions.elements()));
  std::iota(index.begin(), index.end(), 0);
  positions = Tensor::from_doubles(DType::f32, dims, index);
  Sink s{.name = std::move(name), .outputs = {std::move(dims)}, .type = type};
  s.store = [y](const Lowering& l, const Operands&) {
    return std::make_shared<StoreStrided>(
        Grouped{l.out().with_view(y.operand.view), y.first_axes, y.second_axes});
  };
  s.place = [y, positions](int64_t b, int64_t row, int64_t col) {
    return std::pair<size_t, int64_t>(0, static_cast<int64_t>(element(positions, y, b, row, col)));
  };
  return s;
}

Sink contiguous(int64_t batch, int64_t m, int64_t n, DType type = DType::f32) {
  return to_view("contiguous", {batch, m, n}, View::contiguous({batch, m, n}), 1, 1, type);
}
Sink with_gaps(int64_t batch, int64_t m, int64_t n) {
  return to_view("with gaps", {batch, m, 2, n + 3},
                 View::contiguous({batch, m, 2, n + 3}).slice(2, 1, 1).slice(3, 2, n), 1, 1);
}
Sink swapped(int64_t batch, int64_t m, int64_t n) {
  return to_view("swapped", {n, batch, m}, View::contiguous({n, batch, m}).permute({1, 2, 0}), 1, 1);
}
// Columns in two axes that cannot be joined.
Sink in_axes(int64_t batch, int64_t m, int64_t n) {
  return to_view("groups of axes", {2, batch, m, n / 2},
                 View::contiguous({2, batch, m, n / 2}).permute({1, 2, 0, 3}), 1, 1);
}

Sink by_table(Inputs& inputs, int64_t batch, int64_t m, int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(batch * m));
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::shuffle(rows, numbers());
  rows[1] = -1;
  Sink s{.name = "by table", .outputs = {{batch * m, n}}};
  const size_t at = inputs.add(Tensor::of<int32_t>({batch * m}, rows));
  s.store = [=](const Lowering& l, const Operands& in) {
    return std::make_shared<StoreByTable>(std::make_shared<StoreStrided>(Grouped{l.out(), 0, 1}), in[at],
                                          batch * m);
  };
  s.place = [=](int64_t b, int64_t row, int64_t col) {
    const int64_t to = rows[static_cast<size_t>(b * m + row)];
    return std::pair<size_t, int64_t>(0, to < 0 ? -1 : to * n + col);
  };
  return s;
}

Sink split(int64_t batch, int64_t m, const std::vector<int64_t>& widths) {
  Sink s{.name = "split"};
  for (const int64_t n : widths) s.outputs.push_back({batch, m, n});
  s.store = [=](const Lowering& l, const Operands&) {
    OperandList outputs;
    for (size_t i = 0; i < widths.size(); ++i) outputs.push_back(l.out(static_cast<int64_t>(i)));
    return std::make_shared<StoreSplit>(outputs);
  };
  s.place = [=](int64_t b, int64_t row, int64_t col) {
    size_t i = 0;
    while (col >= widths[i]) col -= widths[i++];
    return std::pair<size_t, int64_t>(i, (b * m + row) * widths[i] + col);
  };
  return s;
}

// --- running them ---

struct Case {
  Inputs inputs;
  Source a, b;
  Sink y;
  // The epilogue: an expression of the product and of inputs, and the same on the host.
  std::string expr = {};
  std::vector<std::pair<size_t, Grouped>> extra = {};  // inputs and their views, in y's groups of axes
  std::function<double(double v, int64_t b, int64_t row, int64_t col)> tail = {};
  DType sum = DType::f32;
  int64_t run = 0;  // instead of that of the sources
};

class Products : public ::testing::Test {
 protected:
  // A product through products::lower.
  void run(const Case& c, std::string_view loop, const Device& device = full_device()) {
    check_case(c, loop, device, [](Lowering& l, const Product& p) { products::lower(l, "matmul", p); });
  }

  // One dispatch for each of these regions.
  void run_regions(const Case& c, std::string_view loop, const std::vector<Region>& regions) {
    check_case(c, loop, full_device(), [&](Lowering& l, Product p) {
      for (const Region& r : regions) {
        p.region = r;
        l.emit(choose(l.target(), "matmul", loops(), p).make(l, p));
      }
    });
  }

  // The sums over parts of k, each stored on its own, and their sum.
  void run_parts(const Case& c, std::string_view loop, int64_t parts) {
    check_case(c, loop, full_device(), [&](Lowering& l, Product p) {
      p.region = {{0, p.size.batch}, {0, p.size.m}, {0, p.size.n}, {0, p.size.k}};
      p.k_parts = parts;
      const Operand sums = l.scratch(DType::f32, {parts, p.size.batch, p.size.m, p.size.n});
      lower_fill(l, sums, kUntouched);
      p.y = std::make_shared<StoreStrided>(Grouped{sums, 2, 1});
      l.emit(choose(l.target(), "matmul", loops(), p).make(l, p));
      lower_reduce(l, ReduceKind::sum, sums, {0}, l.out());
    });
  }

  std::vector<StepReport> steps_;  // of the last run

 private:
  template <class Lower>
  void check_case(const Case& c, std::string_view loop, const Device& device, const Lower& lower_product) {
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
    if (!loop.empty()) options.kernels = {{"matmul", std::string(loop)}};
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

  static std::vector<RefTensor> expected(const Case& c, const Sizes& size) {
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

  // Whole numbers have exact sums. Blocks hold numbers up to about 40.
  static Tolerance tolerance(const Case& c, const Sizes& size) {
    const bool exact = !is_encoded_source(c);
    const auto k = static_cast<double>(size.k);
    return exact ? Tolerance{.ulps = 0} : Tolerance{.ulps = 2, .terms = k, .scale = 40 * 3 * std::sqrt(k)};
  }
  static bool is_encoded_source(const Case& c) {
    return std::ranges::any_of(c.inputs.tensors, [](const Tensor& t) { return is_encoded(t.dtype()); });
  }
};

std::vector<std::string> loop_names() {
  std::vector<std::string> names;
  for (const Loop& loop : loops()) {
    if (loop.name != "eighths")
      names.emplace_back(loop.name);  // only for blocks: tests/gpu/encoding_test.cpp
  }
  return names;
}

class EveryLoop : public Products, public ::testing::WithParamInterface<std::string> {
 protected:
  void run(const Case& c, const Device& device = full_device()) {
    Products::run(c, GetParam(), device);
    const bool ran =
        std::ranges::any_of(steps_, [&](const StepReport& step) { return step.variant == GetParam(); });
    EXPECT_TRUE(ran) << c.a.name << " x " << c.b.name;
  }
};
INSTANTIATE_TEST_SUITE_P(Loops, EveryLoop, ::testing::ValuesIn(loop_names()),
                         [](const auto& test) { return test.param; });

// A case of which `special` makes one side, the other being a plain matrix.
template <class F>
Case with_a(F&& special, int64_t n = 11) {
  Case c;
  c.a = special(c.inputs);
  c.b = matrix(c.inputs, n % 4 == 0 ? Kind::fours_along_lines : Kind::along_lines, c.a.batch, n, c.a.k);
  c.y = contiguous(c.a.batch, c.a.lines, n);
  return c;
}
template <class F>
Case with_b(F&& special, int64_t m = 5) {
  Case c;
  c.b = special(c.inputs);
  c.a = matrix(c.inputs, Kind::along_k, c.b.batch, m, c.b.k);
  c.y = contiguous(c.b.batch, m, c.b.lines);
  return c;
}
Case plain_with(const std::function<Sink(Inputs&)>& sink, int64_t m = 5, int64_t n = 11) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, m, 37);
  c.b = matrix(c.inputs, Kind::along_lines, 2, n, 37);
  c.y = sink(c.inputs);
  return c;
}

TEST_P(EveryLoop, LoadsAInEveryWay) {
  run(with_a([](Inputs& in) { return matrix(in, Kind::along_k, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::along_lines, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::fours_along_k, 2, 5, 36); }, 12));
  run(with_a([](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, 8, 37); }, 12));
  run(with_a([](Inputs& in) { return matrix(in, Kind::axes, 2, 5, 36); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::runs, 2, 5, 36); }));
  run(with_a([](Inputs& in) { return matrix(in, Kind::backwards, 2, 5, 37); }));
  run(with_a([](Inputs& in) { return window(in, 2, 8); }));
  run(with_a([](Inputs& in) {
    return by_table(in, matrix(in, Kind::along_k, 1, 7, 37), LoadByTable::Picks::line,
                    {6, 0, 0, 3, 5, 1, 2, 4, 6, 6}, 2);
  }));
}

TEST_P(EveryLoop, LoadsBInEveryWay) {
  run(with_b([](Inputs& in) { return matrix(in, Kind::along_k, 2, 11, 37); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::fours_along_k, 2, 11, 36); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, 12, 37); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::axes, 2, 9, 36); }));
  run(with_b([](Inputs& in) { return matrix(in, Kind::runs, 2, 11, 36); }));
  run(with_b([](Inputs& in) { return window(in, 2, 3); }));
  run(with_b([](Inputs& in) { return packed(in, true, 11, 40); }));
  run(with_b([](Inputs& in) { return packed(in, false, 12, 40); }));
  const std::vector<int32_t> experts = {2, 0, -1, 7, 1};
  for (const auto outside : {LoadByTable::Outside::zero, LoadByTable::Outside::skipped_if_negative}) {
    run(with_b([&](Inputs& in) {
      return by_table(in, matrix(in, Kind::along_lines, 3, 11, 37), LoadByTable::Picks::batch, experts, 5,
                      outside);
    }));
  }
}

TEST_P(EveryLoop, LoadsBlocksOfEveryEncoding) {
  for (const Encoding& e : encoding_table().all()) {
    if (!is_quick(e.dtype)) continue;
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 11); }));
    run(with_a([&](Inputs& in) { return blocks(in, e.dtype, 1, 5); }));
  }
  const DType type = encoding_table().all().front().dtype;
  run(with_b([&](Inputs& in) {
    return by_table(in, blocks(in, type, 3, 11), LoadByTable::Picks::batch, {6, 5, 3, 7}, 4,
                    LoadByTable::Outside::zero, 5);
  }));
}

TEST_P(EveryLoop, StoresInEveryWay) {
  run(plain_with([](Inputs&) { return with_gaps(2, 5, 11); }));
  run(plain_with([](Inputs&) { return swapped(2, 5, 11); }));
  run(plain_with([](Inputs&) { return in_axes(2, 5, 24); }, 5, 24));
  // Also with an epilogue, which has no inputs here.
  const auto negated = [](Case c) {
    c.expr = "neg($0)";
    c.tail = [](double v, int64_t, int64_t, int64_t) { return -v; };
    return c;
  };
  run(negated(plain_with([](Inputs& in) { return by_table(in, 2, 5, 11); })));
  run(negated(plain_with([](Inputs&) { return split(2, 5, {3, 6, 2}); })));
  run(plain_with([](Inputs&) { return split(2, 5, {8, 4}); }, 5, 12));
}

// Tiles beyond the first, in all directions.
TEST_P(EveryLoop, MakesManyTiles) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 70, 50);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 530, 50);
  c.y = contiguous(2, 70, 530);
  run(c);
  // Few rows, and columns that fill the last of wide tiles in part.
  for (const auto& [m, n] : {std::pair{1, 1000}, {5, 300}, {16, 444}})
    run(with_b([n](Inputs& in) { return matrix(in, Kind::fours_along_lines, 2, n, 37); }, m));
}

TEST_P(EveryLoop, NothingToAddUpIsZero) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 0);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 0);
  c.y = contiguous(2, 5, 11);
  run(c);
}

TEST_P(EveryLoop, AppliesAnEpilogueWithInputs) {
  constexpr int64_t n = 12;
  Case c = plain_with([](Inputs&) { return contiguous(2, 5, n); }, 5, n);
  const Tensor bias = whole_numbers(DType::f32, {n});
  const Tensor residual = whole_numbers(DType::f32, {2, n, 5});
  c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({n}).broadcast_to({2, 5, n})}, 1, 1}},
             {c.inputs.add(residual), {{.view = View::contiguous({2, n, 5}).permute({0, 2, 1})}, 1, 1}}};
  c.expr = "t0=add($0,$1); t1=maximum(t0,0); sub($2,t1)";
  c.tail = [=](double v, int64_t b, int64_t row, int64_t col) {
    return residual.real((b * n + col) * 5 + row) - std::max(v + bias.real(col), 0.0);
  };
  run(c);
}

TEST_P(EveryLoop, AddsBytesUpExactly) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 36, DType::i8);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 12, 36, DType::i8);
  c.y = contiguous(2, 5, 12, DType::i32);
  c.sum = DType::i32;
  run(c);
}

// As regions that limits lead to, and others that they only lead to for enormous products.
TEST_P(EveryLoop, ComputesRegions) {
  const auto regions = [](int64_t m, int64_t n, int64_t k, int64_t row, int64_t col) {
    const Extent both{0, 2};
    const Extent all{0, k};
    return std::vector<Region>{{both, {0, row}, {0, n}, all},
                               {{0, 1}, {row, m}, {0, col}, all},
                               {{1, 2}, {row, m}, {0, col}, all},
                               {both, {row, m}, {col, n}, all}};
  };
  for (const Kind kind : {Kind::fours_along_lines, Kind::fours_along_k}) {
    Case c;
    c.a = matrix(c.inputs, kind, 2, 8, 36);
    c.b = matrix(c.inputs, kind, 2, 12, 36);
    c.y = contiguous(2, 8, 12);
    run_regions(c, GetParam(), regions(8, 12, 36, 2, 6));
  }
  Case c;
  c.a = window(c.inputs, 2, 3);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 18);
  c.y = contiguous(2, 12, 11);
  run_regions(c, GetParam(), regions(12, 11, 18, 8, 4));
}

// Sums over a part of k, which may begin inside a run.
TEST_P(EveryLoop, SumsPartsOfK) {
  const std::pair<Extent, int64_t> cases[] = {{{16, 33}, 0}, {{2, 5}, 4}, {{8, 36}, 4}, {{8, 33}, 6}};
  for (const auto& [part, run] : cases) {
    Case c;
    c.a = matrix(c.inputs, Kind::fours_along_k, 2, 5, 36);
    c.b = matrix(c.inputs, Kind::fours_along_k, 2, 12, 36);
    c.y = contiguous(2, 5, 12);
    c.run = run;
    c.a.at = [whole = c.a.at, part](int64_t b, int64_t line, int64_t k) {
      return k >= part.begin && k < part.end ? whole(b, line, k) : 0;
    };
    run_regions(c, GetParam(), {{{0, 2}, {0, 5}, {0, 12}, part}});
  }
}

// --- combinations ---

TEST_F(Products, OfSpecialParts) {
  const DType type = encoding_table().all().back().dtype;
  for (const char* loop : {"staged", "dot"}) {
    // Rows grouped by expert, over quantised weights, back to where they came from.
    Case c;
    c.b = by_table(c.inputs, blocks(c.inputs, type, 3, 12), LoadByTable::Picks::batch, {2, 0, -1}, 3,
                   LoadByTable::Outside::skipped_if_negative);
    c.a = by_table(c.inputs, matrix(c.inputs, Kind::along_k, 1, 9, c.b.k), LoadByTable::Picks::line,
                   {8, 7, 6, 5, 0, 1, 2, 3, 4, 4, 4, 4}, 3);
    c.y = by_table(c.inputs, 3, 4, 12);
    run(c, loop);
  }
  for (const char* loop : {"rows", "tiled"}) {
    Case c;
    // Runs that divide those of both.
    c.a = matrix(c.inputs, Kind::runs, 2, 12, 36);
    c.b = matrix(c.inputs, Kind::axes, 2, 6, 36);
    c.y = swapped(2, 12, 12);
    c.run = 2;
    run(c, loop);
  }
  Case c;
  c.a = window(c.inputs, 2, 3);
  c.b = matrix(c.inputs, Kind::runs, 2, 11, 18);
  c.run = 3;
  c.y = split(2, 12, {4, 7});
  run(c, "plain");
  run(c, "staged");
}

// Few columns and many rows: computed as the transposed product.
TEST_F(Products, WithFewColumnsAreTransposed) {
  for (const std::string& loop : loop_names()) {
    Case c = plain_with([](Inputs&) { return with_gaps(2, 33, 3); }, 33, 3);
    const Tensor bias = whole_numbers(DType::f32, {3});
    c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({3}).broadcast_to({2, 33, 3})}, 1, 1}}};
    c.expr = "add($0,$1)";
    c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v + bias.real(col); };
    run(c, loop);
  }
  for (const Encoding& e : encoding_table().all())
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 1, 3); }, 33), "");
}

// The sums over parts of k at the same time; the last parts may be empty.
TEST_F(Products, InPartsOfKAtTheSameTime) {
  for (const int64_t k : {37, 20, 4, 1, 0}) {
    Case c;
    c.a = matrix(c.inputs, Kind::along_k, 2, 5, k);
    c.b = matrix(c.inputs, Kind::along_lines, 2, 11, k);
    c.y = k == 20 ? with_gaps(2, 5, 11) : contiguous(2, 5, 11);
    if (k == 37) {
      const Tensor bias = whole_numbers(DType::f32, {11});
      c.extra = {{c.inputs.add(bias), {{.view = View::contiguous({11}).broadcast_to({2, 5, 11})}, 1, 1}}};
      c.expr = "mul($0,$1)";
      c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v * bias.real(col); };
    }
    run(c, "split_k");
  }
  for (const Encoding& e : encoding_table().all()) {
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 11); }), "split_k");
    EXPECT_TRUE(std::ranges::any_of(steps_, [](const StepReport& s) { return s.variant == "split_k"; }));
  }
  run(with_b([](Inputs& in) { return window(in, 2, 3); }), "split_k");
  run(with_b([&](Inputs& in) {
        return by_table(in, matrix(in, Kind::along_lines, 3, 11, 37), LoadByTable::Picks::batch, {2, 0, -1},
                        3);
      }),
      "split_k");
}

// All loops leave parts beyond the end of k as zeros.
TEST_P(EveryLoop, PartsPastTheEndOfKAreZero) {
  Case c;
  c.a = matrix(c.inputs, Kind::along_k, 2, 5, 20);
  c.b = matrix(c.inputs, Kind::along_lines, 2, 11, 20);
  c.y = contiguous(2, 5, 11);
  run_parts(c, GetParam(), 4);
}

// --- limits ---

TEST_F(Products, AreCutToFitBindings) {
  // Past one binding of 64 KiB and past all eight of them, along each axis.
  const std::pair<Sizes, Kind> cases[] = {
      {{40, 20, 70, 64}, Kind::along_k}, {{2, 600, 50, 130}, Kind::along_lines},
      {{1, 5, 2100, 90}, Kind::along_k}, {{1, 5, 2100, 90}, Kind::along_lines},
      {{1, 2, 3, 60000}, Kind::along_k}, {{1, 3, 12, 12000}, Kind::along_lines},
      {{1, 700, 300, 0}, Kind::along_k},
  };
  for (const auto& [s, kind] : cases) {
    Case c;
    c.a = matrix(c.inputs, kind, s.batch, s.m, s.k);
    c.b = matrix(c.inputs, kind, s.batch, s.n, s.k);
    c.y = contiguous(s.batch, s.m, s.n);
    const Tensor bias = whole_numbers(DType::f32, {s.n});
    c.extra = {
        {c.inputs.add(bias), {{.view = View::contiguous({s.n}).broadcast_to({s.batch, s.m, s.n})}, 1, 1}}};
    c.expr = "add($0,$1)";
    c.tail = [=](double v, int64_t, int64_t, int64_t col) { return v + bias.real(col); };
    run(c, "", small_device());
  }
}

// Windows whose image is past all bindings, and what they are multiplied with.
TEST_F(Products, OfWindowsAreCutToFitBindings) {
  for (const bool left : {false, true}) {
    Case c;
    const Source w = window(c.inputs, 150, 12);
    const Source other = matrix(c.inputs, Kind::along_lines, 150, 11, w.k);
    c.a = left ? w : other;
    c.b = left ? other : w;
    c.y = contiguous(150, c.a.lines, c.b.lines);
    run(c, "", small_device());
  }
}

TEST_F(Products, OfBlocksAreCutToFitBindings) {
  for (const Encoding& e : encoding_table().all()) {
    if (!is_quick(e.dtype)) continue;
    run(with_b([&](Inputs& in) { return blocks(in, e.dtype, 2, 1501); }, 3), "", small_device());
    // One line is more than all bindings hold.
    Case c;
    const int64_t k = (int64_t{5} << 17) / e.block_bytes * e.block_elements;
    const Tensor w = ggml_tensor(e.dtype, {2, k});
    c.b = strided(c.inputs, "long lines of blocks", w, View::contiguous({2, k}), 0, 1, e.group_elements);
    c.b.batch = 1;
    c.a = matrix(c.inputs, Kind::along_k, 1, 2, k);
    c.y = contiguous(1, 2, 2);
    const std::vector<double> values = w.doubles();
    c.b.at = [&values, k](int64_t, int64_t line, int64_t i) {
      return values[static_cast<size_t>(line * k + i)];
    };
    run(c, "", small_device());
  }
}

}  // namespace
}  // namespace rlx::testing
