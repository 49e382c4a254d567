// Sources and sinks of products, on the device and on the host.
#include "tests/gpu/product_parts.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "base/format.h"
#include "encodings/encoding.h"
#include "ops/products/load_blocks.h"
#include "ops/products/load_packed.h"
#include "ops/products/load_strided.h"
#include "ops/products/load_window.h"
#include "ops/products/store_by_table.h"
#include "ops/products/store_split.h"
#include "ops/products/store_strided.h"
#include "tests/support/encoded.h"
#include "tests/support/sample.h"

namespace rlx::testing::product {
namespace {

// Where an element of a view in three groups lies. Asked for every element of a product: the groups are made
// once.
class Places {
 public:
  explicit Places(const Grouped& x)
      : offset_(x.operand.view.offset), groups_{x.group(0), x.group(1), x.group(2)} {}

  int64_t operator()(int64_t first, int64_t second, int64_t third) const {
    return offset_ + within(groups_[0], first) + within(groups_[1], second) + within(groups_[2], third);
  }

 private:
  static int64_t within(const View& axes, int64_t index) {
    int64_t position = 0;
    for (size_t axis = axes.dims.size(); axis-- > 0;) {
      position += index % axes.dims[axis] * axes.strides[axis];
      index /= axes.dims[axis];
    }
    return position;
  }

  int64_t offset_;
  std::array<View, 3> groups_;
};

}  // namespace

std::mt19937& numbers() {
  static std::mt19937 random(5);
  return random;
}

Tensor whole_numbers(DType type, const std::vector<int64_t>& dims) {
  Tensor t = random_tensor(DType::i32, dims, -3, 3, numbers());
  return is_float(type) ? Tensor::from_doubles(type, dims, t.doubles()) : Tensor::from_ints(type, dims, [&] {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < t.elements(); ++i) values.push_back(t.integer(i));
    return values;
  }());
}

Source strided(Inputs& inputs, std::string name, Tensor tensor, View view, int64_t first, int64_t second,
               int64_t run) {
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
  // Copies of a source share them.
  const auto values = std::make_shared<const std::vector<double>>(tensor.doubles());
  s.at = [values, places = Places(x)](int64_t b, int64_t line, int64_t k) {
    return (*values)[static_cast<size_t>(places(b, line, k))];
  };
  return s;
}

Source matrix(Inputs& inputs, Kind kind, int64_t batch, int64_t lines, int64_t k, DType type) {
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

Source by_table(Inputs& inputs, Source inner, LoadByTable::Picks picks, std::vector<int32_t> chosen,
                int64_t batch, LoadByTable::Outside outside, int64_t first) {
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

namespace {

Sink to_view(std::string name, std::vector<int64_t> dims, View view, int64_t first, int64_t second,
             DType type = DType::f32) {
  const Grouped y{{.view = std::move(view)}, first, second};
  Sink s{.name = std::move(name), .outputs = {std::move(dims)}, .type = type};
  s.store = [y](const Lowering& l, const Operands&) {
    return std::make_shared<StoreStrided>(
        Grouped{l.out().with_view(y.operand.view), y.first_axes, y.second_axes});
  };
  s.place = [places = Places(y)](int64_t b, int64_t row, int64_t col) {
    return std::pair<size_t, int64_t>(0, places(b, row, col));
  };
  return s;
}

}  // namespace

Sink contiguous(int64_t batch, int64_t m, int64_t n, DType type) {
  return to_view("contiguous", {batch, m, n}, View::contiguous({batch, m, n}), 1, 1, type);
}
Sink with_gaps(int64_t batch, int64_t m, int64_t n) {
  return to_view("with gaps", {batch, m, 2, n + 3},
                 View::contiguous({batch, m, 2, n + 3}).slice(2, 1, 1).slice(3, 2, n), 1, 1);
}
Sink swapped(int64_t batch, int64_t m, int64_t n) {
  return to_view("swapped", {n, batch, m}, View::contiguous({n, batch, m}).permute({1, 2, 0}), 1, 1);
}
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

}  // namespace rlx::testing::product
