#include "import/onnx/shape_arithmetic.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "import/onnx/importer.h"
#include "ir/infer.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {
namespace {

// Nothing where the result depends on symbols in a way that a Dim cannot say.
using Result = std::optional<Dim>;

Result boolean(std::optional<bool> b) { return b ? Result(Dim(*b ? 1 : 0)) : std::nullopt; }

Result divide(const Dim& a, const Dim& b) {
  if (b.is(0)) fail("it divides {} by 0", a.text());
  if (b.is(-1)) return Dim(0) - a;  // the smallest number has no negative, and this says so
  if (a.is_static() && b.is_static()) return Dim(a.value() / b.value());
  if (a.is_size() && b.is_size()) return a.floor_div(b);
  return Dim::exact_div(a, b);
}

Result remainder(const Dim& a, const Dim& b) {
  if (b.is(0)) fail("it divides {} by 0", a.text());
  if (b.is(-1)) return Dim(0);
  if (a.is_static() && b.is_static()) {
    const int64_t r = a.value() % b.value();
    return Dim(r != 0 && (r < 0) != (b.value() < 0) ? r + b.value() : r);
  }
  if (a.is_size() && b.is_size()) return a - a.floor_div(b) * b;
  return std::nullopt;
}

std::optional<bool> compared(const Dim& a, const Dim& b, bool (*holds)(int)) {
  const auto order = Dim::compare(a, b);
  return order ? std::optional(holds(*order)) : std::nullopt;
}

Result equal(const Dim& a, const Dim& b) {
  return boolean(compared(a, b, [](int o) { return o == 0; }));
}
Result less(const Dim& a, const Dim& b) {
  return boolean(compared(a, b, [](int o) { return o < 0; }));
}
Result less_or_equal(const Dim& a, const Dim& b) {
  if ((b - a).is_size()) return Dim(1);
  return less(a, b);
}
Result logical(const Dim& a, const Dim& b, bool (*f)(bool, bool)) {
  if (!a.is_static() || !b.is_static()) return std::nullopt;
  return Dim(f(!a.is(0), !b.is(0)) ? 1 : 0);
}

struct Binary {
  std::string_view op;
  Result (*compute)(const Dim&, const Dim&);
  bool to_bool = false;
};

constexpr Binary kBinary[] = {
    {"Add", [](const Dim& a, const Dim& b) { return Result(a + b); }},
    {"Sub", [](const Dim& a, const Dim& b) { return Result(a - b); }},
    {"Mul", [](const Dim& a, const Dim& b) { return Result(a * b); }},
    {"Div", divide},
    {"Mod", remainder},
    {"Min", [](const Dim& a, const Dim& b) { return Result(Dim::min(a, b)); }},
    {"Max", [](const Dim& a, const Dim& b) { return Result(Dim::max(a, b)); }},
    {"Equal", equal, true},
    {"Less", less, true},
    {"Greater", [](const Dim& a, const Dim& b) { return less(b, a); }, true},
    {"LessOrEqual", less_or_equal, true},
    {"GreaterOrEqual", [](const Dim& a, const Dim& b) { return less_or_equal(b, a); }, true},
    {"And", [](const Dim& a, const Dim& b) { return logical(a, b, [](bool x, bool y) { return x && y; }); },
     true},
    {"Or", [](const Dim& a, const Dim& b) { return logical(a, b, [](bool x, bool y) { return x || y; }); },
     true},
    {"Xor", [](const Dim& a, const Dim& b) { return logical(a, b, [](bool x, bool y) { return x != y; }); },
     true},
};

// Sums of products are multiplied term by term. (In the units of Importer::spend.)
int64_t cost_of(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return 0;
  return 1 + std::ssize(a.text()) * std::ssize(b.text()) / 1024;
}

int64_t count_of(const std::vector<int64_t>& shape) {
  for (const int64_t d : shape) {
    if (d < 0) fail("a dimension is {}", d);
  }
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kMaxInts + 1 : product;
  });
}

// The elements of `from` as a broadcast to `shape` sees them.
std::vector<Dim> broadcast_values(const Ints& from, const std::vector<int64_t>& shape) {
  const auto rank = shape.size();
  std::vector<size_t> strides(rank, 0);
  size_t stride = 1;
  for (size_t i = from.shape.size(); i-- > 0;) {
    strides[rank - from.shape.size() + i] = from.shape[i] == 1 ? 0 : stride;
    stride *= static_cast<size_t>(from.shape[i]);
  }
  std::vector<Dim> out;
  std::vector<int64_t> at(rank, 0);
  for (int64_t n = count_of(shape); n > 0; --n) {
    size_t position = 0;
    for (size_t i = 0; i < rank; ++i) position += static_cast<size_t>(at[i]) * strides[i];
    out.push_back(from.values[position]);
    for (size_t i = rank; i > 0; --i) {
      if (++at[i - 1] < shape[i - 1]) break;
      at[i - 1] = 0;
    }
  }
  return out;
}

std::optional<std::vector<int64_t>> common_shape(const std::vector<const Ints*>& inputs) {
  Shape shape;
  for (const Ints* in : inputs) shape = broadcast(shape, Shape(in->shape), "shape arithmetic");
  const std::vector<int64_t> dims = shape.values();
  return count_of(dims) <= kMaxInts ? std::optional(dims) : std::nullopt;
}

// --- The ops. Each returns nothing where it cannot tell. ---

std::vector<const Ints*> inputs_of(Call& c) {
  std::vector<const Ints*> out;
  for (int64_t i = 0; i < c.input_count(); ++i) out.push_back(c.known(i));
  return out;
}

std::optional<Ints> elementwise(Call& c, const Binary& binary) {
  const std::vector<const Ints*> in = inputs_of(c);
  const bool takes_any = binary.op == "Min" || binary.op == "Max";
  if (in.empty() || (in.size() != 2 && !takes_any)) return std::nullopt;
  if (binary.op == "Mod" && c.integer("fmod", 0) != 0) return std::nullopt;
  if (c.opset() < 7) {  // as in Call::second
    const bool from_axis = c.has_attribute("axis");
    if (c.flag("broadcast", false) && from_axis) return std::nullopt;
  }
  const auto shape = common_shape(in);
  if (!shape) return std::nullopt;
  Ints out{*shape, broadcast_values(*in[0], *shape)};
  for (size_t k = 1; k < in.size(); ++k) {
    const std::vector<Dim> b = broadcast_values(*in[k], *shape);
    for (size_t i = 0; i < out.values.size(); ++i) {
      c.importer().spend(cost_of(out.values[i], b[i]));
      const Result r = binary.compute(out.values[i], b[i]);
      if (!r) return std::nullopt;
      out.values[i] = *r;
    }
  }
  return out;
}

std::optional<Ints> select(Call& c) {
  const std::vector<const Ints*> in = inputs_of(c);
  if (in.size() != 3 || !in[0]->is_static()) return std::nullopt;
  const auto shape = common_shape(in);
  if (!shape) return std::nullopt;
  const std::vector<Dim> condition = broadcast_values(*in[0], *shape);
  const std::vector<Dim> no = broadcast_values(*in[2], *shape);
  Ints out{*shape, broadcast_values(*in[1], *shape)};
  for (size_t i = 0; i < out.values.size(); ++i) {
    if (condition[i].is(0)) out.values[i] = no[i];
  }
  return out;
}

std::optional<Ints> concatenate(Call& c) {
  std::vector<Dim> out;
  for (const Ints* in : inputs_of(c)) {
    if (in->shape.size() != 1 || std::ssize(out) > kMaxInts) return std::nullopt;
    out.insert(out.end(), in->values.begin(), in->values.end());
  }
  if (c.has_attribute("axis")) c.axis("axis", 0, 1);
  return static_cast<int64_t>(out.size()) <= kMaxInts ? std::optional(Ints::vector(out)) : std::nullopt;
}

std::optional<Ints> gather_ints(Call& c) {
  const Ints& table = *c.known(0);
  const Ints& indices = *c.known(1);
  if (table.shape.size() != 1 || !indices.is_static() || c.integer("axis", 0) > 0) return std::nullopt;
  const auto size = static_cast<int64_t>(table.values.size());
  Ints out{indices.shape, {}};
  for (const int64_t i : indices.numbers())
    out.values.push_back(table.values[static_cast<size_t>(Call::normalized(i, size))]);
  return out;
}

std::optional<Ints> slice_ints(Call& c) {
  const Ints& x = *c.known(0);
  if (x.shape.size() != 1) return std::nullopt;
  const auto bound = [&](int64_t input, std::string_view attribute) -> std::optional<int64_t> {
    if (c.opset() < 10) {
      const std::vector<int64_t> all = c.integers(attribute);
      return all.size() == 1 ? std::optional(all[0]) : std::nullopt;
    }
    const Ints* in = c.known(input);
    return in && in->values.size() == 1 && in->is_static() ? std::optional(in->values[0].value())
                                                           : std::nullopt;
  };
  if (c.opset() < 10) c.ignores("axes");  // there is one
  const auto start = bound(1, "starts");
  const auto end = bound(2, "ends");
  const auto step_given = c.opset() >= 10 && c.has(4) ? bound(4, "") : std::optional<int64_t>(1);
  if (!start || !end || !step_given || *step_given == 0) return std::nullopt;
  const auto size = static_cast<int64_t>(x.values.size());
  const int64_t step = std::clamp(*step_given, -size - 1, size + 1);
  const int64_t low = step > 0 ? 0 : -1;
  const auto clamped = [&](int64_t at) {
    return std::clamp(at < 0 ? at + size : at, low, step > 0 ? size : size - 1);
  };
  Ints out = Ints::vector({});
  const int64_t last = clamped(*end);
  for (int64_t i = clamped(*start); step > 0 ? i < last : i > last; i += step)
    out.values.push_back(x.values[static_cast<size_t>(i)]);
  out.shape = {static_cast<int64_t>(out.values.size())};
  return out;
}

// The same values in another shape.
std::optional<Ints> reshaped(Call& c) {
  Ints out = *c.known(0);
  const auto rank = static_cast<int64_t>(out.shape.size());
  if (c.op() == "Identity") return out;
  if (c.op() == "Reshape") {
    if (c.has(1) && !c.known(1)->is_static()) return std::nullopt;
    std::vector<int64_t> shape = c.has(1) ? c.known(1)->numbers() : c.integers("shape");  // before opset 5
    int64_t rest = static_cast<int64_t>(out.values.size());
    const bool zero_is_zero = c.flag("allowzero", false);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0 && i < out.shape.size() && !zero_is_zero) shape[i] = out.shape[i];
      if (shape[i] > 0) rest /= shape[i];
    }
    if (std::ranges::count(shape, -1) > 1) fail("its shape leaves two dimensions open");
    for (int64_t& d : shape) d = d == -1 ? rest : d;
    if (count_of(shape) != static_cast<int64_t>(out.values.size())) fail("its shape does not fit");
    out.shape = shape;
    return out;
  }
  const int64_t full = c.op() == "Unsqueeze" ? rank + (c.has(1) ? std::ssize(c.known(1)->values)
                                                                : std::ssize(c.integers("axes")))
                                             : rank;
  auto axes = c.axes(1, full);
  if (c.op() == "Squeeze") {
    std::vector<int64_t> shape;
    for (int64_t i = 0; i < rank; ++i) {
      const bool dropped = axes ? std::ranges::contains(*axes, i) : out.shape[static_cast<size_t>(i)] == 1;
      if (!dropped) shape.push_back(out.shape[static_cast<size_t>(i)]);
    }
    if (count_of(shape) != count_of(out.shape)) fail("it squeezes an axis that is not 1");
    out.shape = shape;
    return out;
  }
  if (!axes) return std::nullopt;
  std::ranges::sort(*axes);
  for (const int64_t a : *axes) out.shape.insert(out.shape.begin() + static_cast<std::ptrdiff_t>(a), 1);
  return out;
}

std::optional<Ints> shape_of(Call& c) {
  const Shape shape = c.shape(0);
  const int64_t rank = shape.rank();
  const auto bound = [&](std::string_view name, int64_t otherwise) {
    const int64_t at = c.integer(name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  std::vector<Dim> dims;
  for (int64_t i = bound("start", 0); i < bound("end", rank); ++i) dims.push_back(shape[i]);
  return Ints::vector(dims);
}

std::optional<Ints> reduced(Call& c) {
  const Ints& x = *c.known(0);
  const bool vector = x.shape.size() == 1;
  if (!vector && !x.shape.empty()) return std::nullopt;
  const auto axes = c.axes(1, static_cast<int64_t>(x.shape.size()));
  if (c.flag("noop_with_empty_axes", false) && (!axes || axes->empty())) return std::nullopt;
  const bool product = c.op() == "ReduceProd";
  const bool sum = c.op() == "ReduceSum";
  if (x.values.empty() && !product && !sum) return std::nullopt;
  Dim out = product ? Dim(1) : sum ? Dim(0) : x.values[0];
  for (const Dim& d : x.values) {
    c.importer().spend(cost_of(out, d));
    out = product ? out * d : sum ? out + d : c.op() == "ReduceMin" ? Dim::min(out, d) : Dim::max(out, d);
  }
  Ints result = Ints::scalar(out);
  if (c.flag("keepdims", true)) result.shape.assign(x.shape.size(), 1);
  return result;
}

std::optional<Ints> range_of(Call& c) {
  const std::vector<const Ints*> in = inputs_of(c);
  if (in.size() != 3 || !std::ranges::all_of(in, &Ints::is_static)) return std::nullopt;
  for (const Ints* one : in) {
    if (one->values.size() != 1) fail("one of its three numbers has {} elements", one->values.size());
  }
  const int64_t start = in[0]->values[0].value();
  const int64_t limit = in[1]->values[0].value();
  const int64_t step = in[2]->values[0].value();
  if (step == 0) fail("its step is 0");
  std::vector<Dim> out;
  for (int64_t i = start; step > 0 ? i < limit : i > limit;) {
    if (static_cast<int64_t>(out.size()) >= kMaxInts) return std::nullopt;
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;  // beyond the limit in any case
  }
  return Ints::vector(out);
}

std::optional<Ints> expanded(Call& c) {
  if (!c.known(1)->is_static()) return std::nullopt;
  const Shape shape = broadcast(Shape(c.known(0)->shape), Shape(c.known(1)->numbers()), "Expand");
  if (count_of(shape.values()) > kMaxInts) return std::nullopt;
  return Ints{shape.values(), broadcast_values(*c.known(0), shape.values())};
}

std::optional<Ints> constant_of_shape(Call& c) {
  const Ints& shape = *c.known(0);
  if (!shape.is_static() || count_of(shape.numbers()) > kMaxInts || !c.has_attribute("value"))
    return std::nullopt;
  const Tensor value = c.tensor("value");
  if (is_float(value.dtype()) || value.dtype() == DType::c64 || value.elements() != 1) return std::nullopt;
  const std::vector<int64_t> dims = shape.numbers();
  return Ints{dims, std::vector<Dim>(static_cast<size_t>(count_of(dims)), Dim(value.integer(0)))};
}

std::optional<Ints> negated(Call& c) {
  Ints out = *c.known(0);
  for (Dim& d : out.values) {
    if (c.op() == "Not" && !d.is_static()) return std::nullopt;
    d = c.op() == "Not" ? Dim(d.is(0) ? 1 : 0) : Dim(0) - d;
  }
  return out;
}

struct Fold {
  std::string_view op;
  std::optional<Ints> (*compute)(Call&);
  std::optional<ElementType> type = std::nullopt;  // that of input 0 otherwise
  bool any_input = false;                          // the values of the inputs do not matter
  bool moves = false;                              // every result is one of the inputs' values
};

constexpr Fold kFolds[] = {
    {"Shape", shape_of, ElementType::int64, true},
    {"Size", [](Call& c) { return std::optional(Ints::scalar(c.shape(0).elements())); }, ElementType::int64,
     true},
    {"Concat", concatenate, {}, false, true},
    {"Gather", gather_ints, {}, false, true},
    {"Slice", slice_ints, {}, false, true},
    {"Reshape", reshaped, {}, false, true},
    {"Squeeze", reshaped, {}, false, true},
    {"Unsqueeze", reshaped, {}, false, true},
    {"Identity", reshaped, {}, false, true},
    {"ReduceProd", reduced},
    {"ReduceSum", reduced},
    {"ReduceMin", reduced},
    {"ReduceMax", reduced},
    {"Range", range_of},
    {"Expand", expanded, {}, false, true},
    {"Neg", negated},
    {"Not", negated},
};

// Whether all inputs are known and their arithmetic is that of 64-bit integers or bools.
bool all_known(Call& c) {
  for (int64_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    const ElementType type = c.type(i);
    const bool plain =
        type == ElementType::int64 || type == ElementType::int32 || type == ElementType::boolean;
    if (!plain || !c.known(i)) return false;
  }
  return c.input_count() > 0;
}

// Sizes are below 2^31, and so fit int32 as long as nothing is computed from them (`moved`).
bool give(Call& c, std::optional<Ints> ints, ElementType type, bool moved = false) {
  if (!ints || (type == ElementType::int32 && !moved && !ints->is_static())) return false;
  if (std::ssize(ints->shape) > kMaxRank)
    fail("its result has {} axes; {} are the most", ints->shape.size(), kMaxRank);
  c.importer().spend(std::ssize(ints->values));
  if (type == ElementType::int32 && !std::ranges::all_of(ints->values, [](const Dim& d) {
        return !d.is_static() || (d.value() >= INT32_MIN && d.value() <= INT32_MAX);
      })) {
    return false;  // it wraps: on the device, as ONNX does
  }
  c.out(0, *std::move(ints), type);
  return true;
}

bool fold_cast(Call& c) {
  c.ignores("saturate round_mode");  // of floats
  const ElementType to = c.op() == "Cast" ? c.element_type("to") : c.type(1);
  const Ints* x = c.known(0);
  if (!x) return false;
  if (to == ElementType::int64 || to == ElementType::int32) return give(c, *x, to, true);
  if (to != ElementType::boolean || !x->is_static()) return false;
  Ints out = *x;
  for (Dim& d : out.values) d = Dim(d.is(0) ? 0 : 1);
  return give(c, out, to);
}

}  // namespace

bool fold_ints(Call& c) {
  const std::string_view op = c.op();
  if (op == "Cast" || op == "CastLike") {
    const ElementType from = c.type(0);
    const bool plain =
        from == ElementType::int64 || from == ElementType::int32 || from == ElementType::boolean;
    return plain && fold_cast(c);
  }
  if (op == "ConstantOfShape")
    return c.known(0) && c.has_attribute("value") && give(c, constant_of_shape(c), c.tensor_type("value"));
  if (op == "Where") {
    return all_known(c) && give(c, select(c), c.type(1));
  }
  if (const auto* fold = std::ranges::find(kFolds, op, &Fold::op); fold != std::end(kFolds)) {
    if (!fold->any_input && !all_known(c)) return false;
    return give(c, fold->compute(c), fold->type.value_or(c.type(0)), fold->moves);
  }
  if (const auto* binary = std::ranges::find(kBinary, op, &Binary::op); binary != std::end(kBinary)) {
    if (!all_known(c)) return false;
    return give(c, elementwise(c, *binary), binary->to_bool ? ElementType::boolean : c.type(0));
  }
  return false;
}

}  // namespace rlx::onnx
