#include "ops/elementwise/expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "base/checked.h"
#include "base/format.h"
#include "base/half.h"
#include "base/parallel.h"
#include "ir/literal.h"
#include "ops/machinery/integer_range.h"

namespace rlx {

namespace {

constexpr size_t kMaxArity = 3;

void expect_arity(const ScalarFn& fn, size_t given) {
  if (static_cast<int>(given) != fn.arity)
    fail("{}: takes {} input{}, not {}", fn.name, fn.arity, fn.arity == 1 ? "" : "s", given);
}

// The type of the result for arguments of these types, with the checks.
DType infer_scalar(const ScalarFn& fn, std::span<const DType> args) {
  const bool is_where = fn.name == "where";
  if (is_where && args[0] != DType::bool_) {
    fail("where: the condition has type {}; it must be bool", to_string(args[0]));
  }
  const DType type = args.back();
  for (size_t i = is_where ? 1 : 0; i < args.size(); ++i) {
    if (args[i] != type) {
      fail("{}: the inputs have the types {} and {}; they must be equal (use cast)", fn.name,
           to_string(args[i]), to_string(type));
    }
  }
  if (!defined_for(fn, type)) fail("{}: is not defined for {}", fn.name, to_string(type));
  return fn.result == ScalarFn::Result::boolean ? DType::bool_ : type;
}

}  // namespace

DType Expr::arg_type(const Step& step, size_t index) const {
  const Arg& a = step.args[index];
  if (a.kind == Arg::Kind::input) return value_dtype(inputs[static_cast<size_t>(a.index)]);
  if (a.kind == Arg::Kind::step) return steps[static_cast<size_t>(a.index)].type;
  if (!step.fn) return step.type;  // a cast is how a number gets a type of its own
  const bool is_where = step.fn->name == "where";
  if (is_where && index == 0) return DType::bool_;
  // A number takes the type of what it is combined with.
  for (size_t i = is_where ? 1 : 0; i < step.args.size(); ++i) {
    if (step.args[i].kind != Arg::Kind::number) return arg_type(step, i);
  }
  return DType::f32;
}

Expr::Arg Expr::apply(const ScalarFn& fn, std::vector<Arg> args) {
  expect_arity(fn, args.size());
  Step step{&fn, DType::f32, std::move(args)};
  DType types[kMaxArity] = {};
  for (size_t i = 0; i < step.args.size(); ++i) types[i] = arg_type(step, i);
  step.type = infer_scalar(fn, std::span(types, step.args.size()));
  steps.push_back(std::move(step));
  return {Arg::Kind::step, static_cast<int32_t>(steps.size()) - 1, 0};
}

Expr::Arg Expr::cast(Arg value, DType to) {
  steps.push_back({nullptr, to, {value}});
  return {Arg::Kind::step, static_cast<int32_t>(steps.size()) - 1, 0};
}

namespace {

bool is_narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

// Whether the result of a step must be rounded to its type before others read it: exact functions (ulps 0)
// return a number that the type has anyway, and casts have already rounded.
bool is_rounded(const Expr::Step& s) { return s.fn && s.fn->ulps > 0 && is_narrow(s.type); }

}  // namespace

double Expr::ulps() const {
  double sum = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    sum += s.fn ? s.fn->ulps : 1;
    if (is_rounded(s) && i + 1 < steps.size()) sum += epsilon(s.type) / epsilon(DType::f32);
  }
  return sum;
}

int64_t Expr::cost() const {
  int64_t sum = 0;
  for (const Step& s : steps) sum += s.fn ? s.fn->cost : 1;
  return sum;
}

bool Expr::may_overflow() const {
  return std::ranges::any_of(steps, [&](const Step& s) {
    const DType from = arg_type(s, s.args.size() - 1);
    if (s.fn) return from == DType::i64 && !s.fn->i64.empty();
    return s.type == DType::i64 && (is_float(from) || from == DType::c64 || from == DType::u32);
  });
}

Expr typed(const ExprAttr& attr, std::vector<DType> inputs) {
  Expr expr;
  expr.inputs = std::move(inputs);
  expr.steps.reserve(attr.steps().size());
  for (const ExprAttr::Step& s : attr.steps()) {
    for (const ExprArg& a : s.args) {
      if (a.kind == ExprArg::Kind::input && a.index >= std::ssize(expr.inputs))
        fail("the expression '{}' uses input {}, but there are {}", attr.text(), a.index, expr.inputs.size());
    }
    if (s.function.empty()) {
      expr.cast(s.args.at(0), s.to);
    } else if (const ScalarFn* fn = find_scalar(s.function)) {
      expr.apply(*fn, s.args);
    } else {
      fail("the expression '{}' calls '{}', which is not a scalar function", attr.text(), s.function);
    }
    for (size_t i = 0; i < s.args.size(); ++i) {
      if (s.args[i].kind == ExprArg::Kind::number)
        expect_fits(expr.arg_type(expr.steps.back(), i), s.args[i].number);
    }
  }
  return expr;
}

Expr Expr::parse(std::string_view text, std::vector<DType> inputs) {
  return typed(ExprAttr::parse(text), std::move(inputs));
}

ExprAttr Expr::untyped() const {
  std::vector<ExprAttr::Step> all;
  all.reserve(steps.size());
  for (const Step& s : steps)
    all.push_back({s.fn ? std::string(s.fn->name) : "", s.fn ? DType::f32 : s.type, s.args});
  return ExprAttr(std::move(all));
}

namespace {

// --- WGSL ---

// Which steps other steps read.
std::vector<bool> read_by_steps(const Expr& expr) {
  std::vector<bool> read(expr.steps.size(), false);
  for (const Expr::Step& s : expr.steps) {
    for (const Expr::Arg& a : s.args) {
      if (a.kind == Expr::Arg::Kind::step) read[static_cast<size_t>(a.index)] = true;
    }
  }
  return read;
}

// A value that the compiler cannot see through. Drivers simplify float arithmetic as if it were exact:
// (a + b) - a becomes b, a - a becomes 0 and x - floor(x) something else, whatever was rounded, infinite or
// NaN (docs/arithmetic.md).
std::string opaque(const std::string& value, DType type) {
  return (type == DType::c64 ? "complex_as_is(" : "as_is(") + value + ")";
}

// Whether the two may be the same value: different inputs may lie in the same memory.
bool may_be_equal(const Expr::Arg& a, const Expr::Arg& b) {
  return a.kind != Expr::Arg::Kind::number && a.kind == b.kind &&
         (a.kind == Expr::Arg::Kind::input || a.index == b.index);
}

std::string substitute(std::string_view form, const std::vector<std::string>& args) {
  std::string out;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] == '$') {
      out += args.at(static_cast<size_t>(form[++i] - '0'));
    } else {
      out += form[i];
    }
  }
  return out;
}

// Whether a step gives whole numbers that the byte type holds: their bits need no conversion with limits.
bool gives_bytes(const Expr::Step& s, DType type) {
  return s.fn && s.fn->name == (type == DType::u8 ? "round_to_u8" : "round_to_i8");
}

// Whether no compiler has a rule for what reads it: results that are rounded or chosen.
bool is_plain(const ScalarFn& fn) { return fn.name == "clamp" || fn.name.starts_with("round_to_"); }

std::string_view form_for(const ScalarFn& fn, DType dtype) {
  const std::string_view type = wgsl_type(dtype);
  if (dtype == DType::i64 && !fn.i64.empty()) return fn.i64;
  if (type == "i32") return fn.i32;
  if (type == "u32") return fn.u32;
  if (type == "bool") return fn.boolean;
  if (type == "vec2f") return fn.c64;
  return fn.f32;
}

// Values of 8-bit types are kept in 32 bits; this cuts off what 8 bits would have lost.
bool is_byte(DType type) { return type == DType::i8 || type == DType::u8; }

std::string wrapped(const std::string& value, DType type) {
  return is_byte(type) ? "extractBits(" + value + ", 0u, 8u)" : value;
}

std::string cast_text(const std::string& value, DType from, DType to) {
  const std::string_view a = wgsl_type(from);
  const std::string_view b = wgsl_type(to);
  if (to == DType::bool_) {
    if (from == DType::bool_) return value;
    // NaN and subnormals are true, but `!=` might not say so.
    if (a == "vec2f") return "any((bitcast<vec2u>(" + value + ") << vec2u(1u)) != vec2u())";
    return a == "f32" ? "((bitcast<u32>(" + value + ") << 1u) != 0u)" : formatted("({} != {}(0))", value, a);
  }
  if (a == "vec2f") return b == "vec2f" ? value : cast_text(value + ".x", DType::f32, to);
  if (b == "vec2f") return "vec2f(f32(" + value + "), 0.0)";
  if (b == "f32") return rounded(a == "f32" ? value : "f32(" + value + ")", to);
  if (a == "f32") {
    if (to == DType::i8) return "f32_to_i8(" + value + ")";
    if (to == DType::u8) return "f32_to_u8(" + value + ")";
    if (to == DType::i64) return "f32_to_i64(" + value + ")";
    return std::string(b == "i32" ? "f32_to_i32(" : "f32_to_u32(") + value + ")";
  }
  if (from == DType::u32 && to == DType::i64) return "u32_to_i64(" + value + ")";
  return wrapped(formatted("{}({})", b, value), to);  // between integers: modulo, as NumPy does
}

}  // namespace

std::string rounded(const std::string& value, DType type) {
  if (type == DType::f16) return "unpack2x16float(f16_bits(" + value + ")).x";
  if (type == DType::bf16) return "bitcast<f32>(bf16_bits(" + value + ") << 16u)";
  return value;
}

ExprCode generate(const Expr& expr, const std::vector<std::string>& inputs, const std::string& prefix,
                  size_t first_param) {
  ExprCode code;
  const auto number = [&](double value, DType type) {
    const std::string name = formatted("c{}", first_param + code.words.size());
    const std::string_view wgsl = wgsl_type(type);
    if (wgsl == "f32" || wgsl == "vec2f") {
      code.params.push_back(name + ": f32");
      code.words.push_back(std::bit_cast<uint32_t>(static_cast<float>(value)));
      return wgsl == "f32" ? "params." + name : "vec2f(params." + name + ", 0.0)";
    }
    code.params.push_back(name + ": " + (wgsl == "i32" ? "i32" : "u32"));
    code.words.push_back(wgsl == "i32" ? static_cast<uint32_t>(to_i32(static_cast<int64_t>(value)))
                                       : to_u32(static_cast<int64_t>(value)));
    return wgsl == "bool" ? "(params." + name + " != 0u)" : "params." + name;
  };
  code.result = inputs.empty() ? "" : inputs[0];
  const std::vector<bool> read = read_by_steps(expr);
  for (size_t i = 0; i < expr.steps.size(); ++i) {
    const Expr::Step& s = expr.steps[i];
    std::vector<std::string> args;
    for (size_t a = 0; a < s.args.size(); ++a) {
      const Expr::Arg& arg = s.args[a];
      args.push_back(arg.kind == Expr::Arg::Kind::input  ? inputs[static_cast<size_t>(arg.index)]
                     : arg.kind == Expr::Arg::Kind::step ? formatted("{}{}", prefix, arg.index)
                                                         : number(arg.number, expr.arg_type(s, a)));
    }
    const DType operand_type = expr.arg_type(s, s.args.size() - 1);
    const bool real = s.fn && (is_float(s.type) || s.type == DType::c64);
    if (real && s.fn->name == "sub" && may_be_equal(s.args[0], s.args[1])) {
      args[0] = opaque(args[0], s.type);
    }
    std::string value = s.fn ? wrapped(substitute(form_for(*s.fn, operand_type), args), s.type)
                             : cast_text(args[0], operand_type, s.type);
    const Expr::Arg& first = s.args[0];
    if (!s.fn && first.kind == Expr::Arg::Kind::step && is_byte(s.type) &&
        gives_bytes(expr.steps[static_cast<size_t>(first.index)], s.type))
      value = formatted("whole_to_{}({})", to_string(s.type), args[0]);
    if (read[i] && is_rounded(s)) {
      value = rounded(value, s.type);
    } else if (read[i] && real && !is_plain(*s.fn)) {
      value = opaque(value, s.type);
    }
    code.result = formatted("{}{}", prefix, i);
    code.statements += formatted("  let {} = {};\n", code.result, value);
  }
  return code;
}

// --- Reference ---

namespace {

int64_t saturated(double value, DType type) {
  if (std::isnan(value)) return 0;
  if (type == DType::i64) {
    // An infinity becomes the end of the range that the device has; other numbers beyond it are errors there.
    constexpr double kEnd = 0x1p63;
    return value >= kEnd ? INT32_MAX : value <= -kEnd ? INT32_MIN : static_cast<int64_t>(value);
  }
  const IntegerRange range = integer_range(type);
  return static_cast<int64_t>(
      std::clamp(value, static_cast<double>(range.low), static_cast<double>(range.high)));
}

Expr::Scalar cast_value(const Expr::Scalar& v, DType from, DType to) {
  Expr::Scalar out;
  const bool from_real = is_float(from) || from == DType::c64;
  const double real = from == DType::c64 ? v.complex.real()
                      : is_float(from)   ? v.real
                                         : static_cast<double>(v.integer);
  if (to == DType::c64) {
    out.complex = from == DType::c64 ? v.complex : real;
  } else if (to == DType::bool_) {
    out.integer = from == DType::c64 ? v.complex != 0.0 : from_real ? real != 0 : v.integer != 0;
  } else if (is_float(to)) {
    out.real = to == DType::f16    ? float_from_f16(f16_from_double(real))
               : to == DType::bf16 ? float_from_bf16(bf16_from_double(real))
                                   : real;
  } else {
    out.integer = from_real ? saturated(real, to) : wrapped(v.integer, to);
  }
  return out;
}

}  // namespace

Expr::Scalar Expr::evaluate(const Scalar* values) const {
  Scalar small[16];
  std::vector<Scalar> many;
  Scalar* results = small;
  if (steps.size() > std::size(small)) {
    many.resize(steps.size());
    results = many.data();
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    double real[3] = {};
    int64_t integer[3] = {};
    std::complex<double> complex[3] = {};
    Scalar first;
    for (size_t a = 0; a < s.args.size(); ++a) {
      const Arg& arg = s.args[a];
      Scalar v;
      if (arg.kind == Arg::Kind::number) {
        v = {arg.number, std::isfinite(arg.number) ? static_cast<int64_t>(arg.number) : 0, arg.number};
      } else {
        v = arg.kind == Arg::Kind::input ? values[arg.index] : results[arg.index];
      }
      if (a == 0) first = v;
      real[a] = v.real;
      integer[a] = v.integer;
      complex[a] = v.complex;
    }
    Scalar& out = results[i];
    const DType type = arg_type(s, s.args.size() - 1);
    if (!s.fn) {
      out = cast_value(first, type, s.type);
      continue;
    }
    if (s.fn->name == "where") {
      real[0] = static_cast<double>(integer[0]);
      complex[0] = real[0];
    }
    if (type == DType::c64) {
      const std::complex<double> v = s.fn->complex(complex);
      out.complex = v;
      out.integer = v.real() != 0;
    } else if (is_float(type)) {
      if (s.fn->compare_real) {
        out.integer = s.fn->compare_real(real);
      } else {
        out.real = s.fn->real(real);
        // Numbers become integers as they are rounded on the way.
        if (type == DType::f32 && is_integer(result_type()))
          out.real = static_cast<double>(static_cast<float>(out.real));
      }
    } else {
      out.integer = wrapped(s.fn->integer(integer), s.type);
    }
  }
  return results[steps.size() - 1];
}

void reference(const Expr& expr, RefContext& r) {
  RefTensor& out = r.out();
  const auto inputs = static_cast<size_t>(r.input_count());
  std::vector<View> views;
  for (size_t i = 0; i < inputs; ++i) {
    views.push_back(View::contiguous(r.in(static_cast<int64_t>(i)).dims).broadcast_to(out.dims));
  }
  const std::vector<int64_t> strides = row_major_strides(out.dims);
  parallel_for(out.elements(), 1 << 14, [&](int64_t begin, int64_t end) {
    std::vector<Expr::Scalar> values(inputs);
    for (int64_t i = begin; i < end; ++i) {
      for (size_t n = 0; n < inputs; ++n) {
        int64_t at = 0;
        for (size_t axis = 0; axis < out.dims.size(); ++axis) {
          at += i / strides[axis] % out.dims[axis] * views[n].strides[axis];
        }
        const RefTensor& in = r.in(static_cast<int64_t>(n));
        const auto p = static_cast<size_t>(at);
        if (in.dtype == DType::c64) {
          values[n].complex = in.complex[p];
        } else if (is_float(in.dtype)) {
          values[n].real = in.real[p];
        } else {
          values[n].integer = in.ints[p];
        }
      }
      const Expr::Scalar v = expr.evaluate(values.data());
      const auto p = static_cast<size_t>(i);
      if (out.dtype == DType::c64) {
        out.complex[p] = v.complex;
      } else if (is_float(out.dtype)) {
        out.real[p] = v.real;
      } else {
        out.ints[p] = v.integer;
      }
    }
  });
}

}  // namespace rlx
