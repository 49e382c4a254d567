#include "ops/elementwise/elementwise.h"

#include <algorithm>

#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/rates.h"
#include "ops/machinery/op_table.h"
#include "ops/rearrange/contiguous.h"

namespace rlx {

Expr Elementwise::expr(const std::vector<DType>& inputs) const {
  Expr e;
  e.inputs = inputs;
  std::vector<Expr::Arg> args;
  for (size_t i = 0; i < inputs.size(); ++i) args.push_back(Expr::input(static_cast<int32_t>(i)));
  e.apply(*fn, std::move(args));
  return e;
}

Expr Cast::expr(const std::vector<DType>& inputs) const {
  if (inputs.size() != 1) fail("cast: takes 1 input, not {}", inputs.size());
  Expr e;
  e.inputs = inputs;
  e.cast(Expr::input(0), to);
  return e;
}

Expr FusedElementwise::expr(const std::vector<DType>& inputs) const {
  if (expression.empty()) fail("fused_elementwise: the expression is empty");
  return typed(expression, inputs);
}

OpPtr elementwise(std::string_view function) {
  const ScalarFn* fn = find_scalar(function);
  check(fn != nullptr, "a scalar function has the name that is asked for");
  return std::make_shared<Elementwise>(fn);
}

std::vector<TensorType> ElementwiseOp::infer(const InferArgs& in) const {
  std::vector<DType> types;
  Shape shape;
  for (int64_t i = 0; i < in.count(); ++i) {
    types.push_back(in.dtype(i));
    shape = i == 0 ? in.shape(0) : broadcast(shape, in.shape(i), name());
  }
  return {TensorType{expr(types).result_type(), shape}};
}

namespace {
std::vector<DType> dtypes(const OperandList& operands) {
  std::vector<DType> types;
  for (const Operand& o : operands) types.push_back(o.dtype);
  return types;
}
}  // namespace

void ElementwiseOp::reference(RefContext& r) const {
  std::vector<DType> types;
  for (int64_t i = 0; i < r.input_count(); ++i) types.push_back(r.in(i).dtype);
  rlx::reference(expr(types), r);
}

void ElementwiseOp::lower(Lowering& l) const { lower_expr(l, expr(dtypes(l.inputs())), l.inputs(), l.out()); }

Tolerance ElementwiseOp::tolerance(std::span<const TensorType> inputs) const {
  std::vector<DType> types;
  for (const TensorType& t : inputs) types.push_back(t.dtype);
  return {.ulps = expr(types).ulps()};
}

Tolerance FusedElementwise::tolerance(std::span<const TensorType> inputs) const {
  // A step may cancel what earlier ones made: their errors are relative to values of the size of the inputs.
  Tolerance t = ElementwiseOp::tolerance(inputs);
  t.scale = 4;
  return t;
}

namespace {

struct Problem {
  const Expr& expr;
  const OperandList& inputs;  // broadcast to y
  const Operand& y;
  bool cut = false;  // into parts, since the device cannot bind all of it at once

  std::string key() const {
    return formatted("{} inputs {} steps {} elements{}", to_string(y.dtype), inputs.size(), expr.steps.size(),
                     size_class(y.view.elements()));
  }
};

enum class Lanes { vector, splat, neither };

// What four neighbours of the output read of an operand: four neighbours too, one element, or neither.
Lanes lanes(const Operand& o) {
  const View v = o.view.coalesced();
  if (v.rank() == 0) return Lanes::splat;
  const auto multiple = [](int64_t n) { return n % 4 == 0; };
  if (!multiple(v.dims.back())) return Lanes::neither;
  if (v.strides.back() == 0) return Lanes::splat;
  const bool aligned = v.strides.back() == 1 && multiple(v.offset) &&
                       std::all_of(v.strides.begin(), v.strides.end() - 1, multiple);
  return aligned && o.dtype != DType::c64 ? Lanes::vector : Lanes::neither;
}

bool vec4_applies(const Target&, const Problem& p) {
  if (p.cut) return false;
  if (lanes(p.y) != Lanes::vector || p.y.view.elements() / 4 >= (int64_t{1} << 31)) return false;
  return std::ranges::all_of(p.inputs, [](const Operand& o) { return lanes(o) != Lanes::neither; });
}

std::vector<Candidate> vec4_candidates(const Target& target, const Problem& p) {
  const Rates r = rates_of(target.caps);
  const auto elements = static_cast<double>(p.y.view.elements());
  double bytes = 4 * elements;
  for (const Operand& o : p.inputs) bytes += std::min(4 * elements, static_cast<double>(reach_bytes(o)));
  const double arithmetic =
      compute_ns(r, elements * static_cast<double>(p.expr.cost()), {.cpu = 0.6, .gpu = 0.25});
  return one_candidate(r.dispatch_ns + std::max(stream_ns(r, bytes), arithmetic));
}

// Four times as many loads and stores, each a quarter of the size.
std::vector<Candidate> scalar_candidates(const Target& target, const Problem& p) {
  return one_candidate(2 * vec4_candidates(target, p).front().ns);
}

// The kernel's text up to its main: parameters and `compute`, the expression as a function of the operands'
// values.
Kernel expression_kernel(const Expr& expr, std::vector<uint32_t>& params) {
  Kernel k;
  k.name = "elementwise";
  std::vector<std::string> names;
  std::string signature;
  for (size_t i = 0; i < expr.inputs.size(); ++i) {
    names.push_back(formatted("v{}", i));
    signature += formatted("{}v{}: a{}_t", i ? ", " : "", i, i);
    k.operands.push_back({formatted("a{}", i), OperandDecl::Kind::any, false, false});
  }
  k.operands.push_back({"y", OperandDecl::Kind::any, true, false});
  if (expr.may_overflow()) {
    k.operands.push_back({.name = "overflow", .kind = OperandDecl::Kind::int_, .out = true, .atomic = true});
    k.source = "fn left_range() { overflow_max(0u, 1); }\n";
  }
  const ExprCode code = generate(expr, names);
  std::string members = "  first: u32,\n  end: u32,\n";
  for (const std::string& m : code.params) members += "  " + m + ",\n";
  k.source += formatted("struct Params {{\n{}}}\nfn compute({}) -> y_t {{\n{}  return {};\n}}\n", members,
                        signature, code.statements, code.result);
  params.assign({0, 0});
  params.insert(params.end(), code.words.begin(), code.words.end());
  return k;
}

std::string arguments(size_t count, std::string_view form) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += vformatted(i ? std::string(", ") + std::string(form) : form, std::make_format_args(i));
  return out;
}

void add_scalar_main(Kernel& k, size_t inputs) {
  k.libs.emplace_back("flat");
  k.source +=
      formatted("fn element(i: u32) -> y_t {{ return compute({}); }}\n", arguments(inputs, "a{}_at(i)"));
}

// Four elements at a time; `first` and `end` count groups of four.
void add_vec4_main(Kernel& k, const OperandList& inputs) {
  std::string loads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool vector = lanes(inputs[i]) == Lanes::vector;
    k.operands[i].x4 = vector;
    loads += vector ? formatted("  let v{0} = a{0}_get4(a{0}_flat(i));\n", i)
                    : formatted("  let v{0} = vec4<a{0}_t>(a{0}_at(i));\n", i);
  }
  k.operands[inputs.size()].x4 = true;
  k.libs.emplace_back("each");
  k.source += formatted(
      R"(fn task(q: u32) {{
  let i = 4u * q;
{}  y_put4(i, vec4<y_t>(compute({}), compute({}), compute({}), compute({})));
}}
)",
      loads, arguments(inputs.size(), "v{}.x"), arguments(inputs.size(), "v{}.y"),
      arguments(inputs.size(), "v{}.z"), arguments(inputs.size(), "v{}.w"));
}

// A flat kernel cuts contiguous inputs with its output and binds other inputs whole. Copies those of the
// latter that need more than a binding. False if there are none.
bool gather_spread(Lowering& l, OperandList& inputs) {
  bool any = false;
  for (Operand& o : inputs) {
    if (o.view.is_contiguous() || reach_bytes(o) <= static_cast<int64_t>(l.caps().max_binding_bytes))
      continue;
    o = lower_contiguous(l, o);
    any = true;
  }
  return any;
}

Dispatch make_dispatch(Lowering& l, const Kernel& kernel, const Problem& p,
                       const std::vector<uint32_t>& params, int64_t groups) {
  OperandList operands = p.inputs;
  operands.push_back(p.y);
  if (p.expr.may_overflow()) operands.push_back(l.overflow(DType::i64));
  Dispatch d = l.make(make_kernel(kernel), std::move(operands), std::as_bytes(std::span(params)), groups);
  allow_in_place(d);
  return d;
}

// Both return false, and emit nothing, if the device cannot bind the whole problem at once. With
// Problem::cut, emit_scalar emits it in as many parts as needed.
bool emit_vec4(Lowering& l, const Problem& p, const Candidate&) {
  std::vector<uint32_t> params;
  Kernel kernel = expression_kernel(p.expr, params);
  add_vec4_main(kernel, p.inputs);
  const int64_t quads = p.y.view.elements() / 4;
  params[1] = to_u32(quads);
  Dispatch d = make_dispatch(l, kernel, p, params, ceil_div(quads, flat_pieces(l.caps())));
  if (!fits(d, l.caps())) return false;
  l.emit(std::move(d));
  return true;
}

bool emit_scalar(Lowering& l, const Problem& p, const Candidate&) {
  std::vector<uint32_t> params;
  Kernel kernel = expression_kernel(p.expr, params);
  add_scalar_main(kernel, p.inputs.size());
  Dispatch d = make_dispatch(l, kernel, p, params, 0);
  if (!p.cut && !fits(d, l.caps())) return false;
  l.flat(std::move(d));
  return true;
}

constexpr Variant<Problem, bool> kVariants[] = {
    {"vec4", vec4_applies, vec4_candidates, emit_vec4},
    {"scalar", always, scalar_candidates, emit_scalar},
};

}  // namespace

void lower_expr(Lowering& l, const Expr& expr, const OperandList& inputs, const Operand& y) {
  if (y.view.elements() == 0) return;
  OperandList operands;
  for (const Operand& o : inputs) operands.push_back(o.with_view(o.view.broadcast_to(y.view.dims)));
  Problem problem{expr, operands, y};
  if (l.choose("elementwise", kVariants, problem).make(l, problem)) return;
  if (OperandList gathered = inputs; gather_spread(l, gathered)) {
    lower_expr(l, expr, gathered, y);
    return;
  }
  problem.cut = true;
  l.choose("elementwise", kVariants, problem).make(l, problem);
}

namespace ops {

void register_elementwise(OpTable& table) {
  for (const ScalarFn& fn : scalar_functions()) {
    OpInfo info;
    info.name = fn.name;
    info.formula = fn.formula;
    info.operands = !fn.operands.empty() ? fn.operands
                    : fn.arity == 1      ? "x: the argument"
                                         : "a: the first argument\nb: the second, broadcast against it";
    if (fn.result == ScalarFn::Result::boolean) info.outputs = "y (bool): the result";
    for (DType t : kAllDTypes) {
      if (defined_for(fn, t)) info.types += (info.types.empty() ? "" : " ") + std::string(to_string(t));
    }
    info.variants = names_of(kVariants);
    // The condition of `where` is a bool; every other argument has the type of the op.
    const std::string first = fn.name == "where" ? "bool" : "T";
    const auto sample = [&](std::string_view a, std::string_view b, std::string_view c) {
      std::string call = std::string(fn.name) + "(" + first + std::string(a);
      if (fn.arity > 1) call += ", T" + std::string(b);
      if (fn.arity > 2) call += ", T" + std::string(c);
      return call + ")";
    };
    info.samples = {sample("[3,17]", "[3,17]", "[3,17]"),
                    sample("[2,1,5]", "[3,1]", "[5]"),
                    sample("[257]", "[]", "[1]"),
                    sample("[0,4]", "[4]", "[]"),
                    sample("[65540]", "[65540]", "[65540]"),
                    sample("[]", "[]", "[]")};
    info.make = [&fn] { return std::make_shared<Elementwise>(&fn); };
    table.add(std::move(info));
  }
  std::string all;
  for (DType t : kAllDTypes) all += (all.empty() ? "" : " ") + std::string(to_string(t));
  OpInfo cast{
      .formula =
          "x as another type: floats to nearest even; floats to integers truncated and saturated, NaN to 0; "
          "integers modulo 2^n; to i64: an error beyond the 32 bits it has on the device",
      .operands = "x: what is converted",
      .attributes = "to: the type of the result",
      .outputs = "y (any): x in that type",
      .types = all,
      .variants = names_of(kVariants),
      .samples = {}};
  for (DType t : kAllDTypes)
    cast.samples.push_back(formatted("cast(T[3,17] in -300..300) {{to={}}}", to_string(t)));
  table.add<Cast>(std::move(cast));
  table.add<FusedElementwise>(
      {.formula = "an expression of scalar functions over broadcast inputs",
       .operands = "inputs... (any): $0, $1 and so on of the expression",
       .attributes = "expr: the steps, of which the last is the result",
       .outputs = "y (any): the result",
       .types = "f32 f16 bf16",
       .variants = names_of(kVariants),
       .samples =
           {"fused_elementwise(T[3,17], T[17]) {expr=\"t0=mul($0,$1); t1=add(t0,0.5); gelu(t1)\"}",
            "fused_elementwise(T[8,64], T[64], T[8,1]) {expr=\"t0=add($0,$1); t1=tanh(t0); sub(t1,$2)\"}"},
       .internal = true});
}

}  // namespace ops
}  // namespace rlx
