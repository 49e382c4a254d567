#include "ops/elementwise/batch_elementwise.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "ops/elementwise/elementwise.h"
#include "ops/machinery/op_table.h"

namespace rlx {
namespace {

// The inputs of expression e are those from first on.
struct Part {
  Expr expr;
  int64_t first = 0, count = 0;
};

template <class TypeOf>
std::vector<Part> parts_of(const BatchElementwise& op, const TypeOf& type_of) {
  std::vector<Part> parts;
  int64_t first = 0;
  for (size_t e = 0; e < op.exprs.size(); ++e) {
    std::vector<DType> types;
    for (int64_t i = 0; i < op.counts[e]; ++i) types.push_back(type_of(first + i));
    parts.push_back({Expr::parse(op.exprs[e], types), first, op.counts[e]});
    first += op.counts[e];
  }
  return parts;
}

// A task for an element of all outputs: everything is read before anything is written.
Kernel kernel_of(const std::vector<Part>& parts, std::vector<uint32_t>& params) {
  Kernel k;
  k.name = "batch_elementwise";
  std::string members = "  first: u32,\n  end: u32,\n";
  std::string statements;
  std::string puts;
  for (size_t e = 0; e < parts.size(); ++e) {
    std::vector<std::string> values;
    for (int64_t i = parts[e].first; i < parts[e].first + parts[e].count; ++i) {
      k.operands.push_back({formatted("a{}", i), OperandDecl::Kind::any, false, false});
      statements += formatted("  let v{0} = a{0}_at(i);\n", i);
      values.push_back(formatted("v{}", i));
    }
    const ExprCode code = generate(parts[e].expr, values, formatted("t{}_", e), params.size() - 2);
    for (const std::string& m : code.params) members += "  " + m + ",\n";
    params.insert(params.end(), code.words.begin(), code.words.end());
    statements += code.statements;
    puts += formatted("  y{}_put(i, {});\n", e, code.result);
  }
  for (size_t e = 0; e < parts.size(); ++e)
    k.operands.push_back({formatted("y{}", e), OperandDecl::Kind::any, true, false});
  k.libs.emplace_back("each");
  k.source = formatted("struct Params {{\n{}}}\nfn task(i: u32) {{\n{}{}}}\n", members, statements, puts);
  return k;
}

}  // namespace

std::vector<TensorType> BatchElementwise::infer(const InferArgs& in) const {
  if (exprs.empty() || exprs.size() != counts.size())
    fail("batch_elementwise: {} expressions have {} counts of inputs", exprs.size(), counts.size());
  if (std::ranges::any_of(counts, [](int64_t n) { return n < 1; }))
    fail("batch_elementwise: each expression needs at least one input");
  in.expect_count(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  std::vector<TensorType> out;
  for (const Part& p : parts_of(*this, [&](int64_t i) { return in.dtype(i); })) {
    if (p.expr.may_overflow())
      fail("batch_elementwise: an expression of i64 may overflow; it must stay alone");
    Shape shape = in.shape(p.first);
    for (int64_t i = 1; i < p.count; ++i) shape = broadcast(shape, in.shape(p.first + i), name());
    out.push_back({p.expr.result_type(), shape});
    if (!(shape == out[0].shape)) {
      fail("batch_elementwise: the results {} and {} differ in shape", out[0].shape.text(), shape.text());
    }
  }
  return out;
}

void BatchElementwise::reference(RefContext& r) const {
  const std::vector<Part> parts = parts_of(*this, [&](int64_t i) { return r.in(i).dtype; });
  for (size_t e = 0; e < parts.size(); ++e) {
    std::vector<const RefTensor*> inputs;
    for (int64_t i = 0; i < parts[e].count; ++i) inputs.push_back(&r.in(parts[e].first + i));
    RefTensor& out = r.out(static_cast<int64_t>(e));
    const TensorType type{out.dtype, Shape(out.dims)};
    RefContext one(std::move(inputs), std::span(&type, 1));
    rlx::reference(parts[e].expr, one);
    out = std::move(one.take_outputs()[0]);
  }
}

void BatchElementwise::lower(Lowering& l) const {
  const Dims& dims = l.out().view.dims;
  const int64_t elements = l.out().view.elements();
  if (elements == 0) return;
  const std::vector<Part> parts = parts_of(*this, [&](int64_t i) { return l.in(i).dtype; });
  std::vector<uint32_t> params = {0, to_u32(elements)};
  const Kernel kernel = kernel_of(parts, params);
  OperandList operands;
  for (const Operand& o : l.inputs()) operands.push_back(o.with_view(o.view.broadcast_to(dims)));
  for (size_t e = 0; e < parts.size(); ++e) operands.push_back(l.out(static_cast<int64_t>(e)));
  Dispatch d = [&] {
    const Lowering::Label label(l, {.row = "joint"});
    return l.make(make_kernel(kernel), std::move(operands), std::as_bytes(std::span(params)),
                  ceil_div(elements, flat_pieces(l.caps())));
  }();
  if (fits(d, l.caps())) return l.emit(std::move(d));
  for (size_t e = 0; e < parts.size(); ++e) {
    OperandList own;
    for (int64_t i = 0; i < parts[e].count; ++i) own.push_back(l.in(parts[e].first + i));
    lower_expr(l, parts[e].expr, own, l.out(static_cast<int64_t>(e)));
  }
}

Tolerance BatchElementwise::tolerance(std::span<const TensorType> inputs) const {
  Tolerance t{.scale = 4};  // as fused_elementwise
  for (const Part& p : parts_of(*this, [&](int64_t i) { return inputs[static_cast<size_t>(i)].dtype; }))
    t.ulps = std::max(t.ulps, p.expr.ulps());
  return t;
}

namespace ops {
void register_batch_elementwise(OpTable& table) {
  table.add<BatchElementwise>(
      {.formula = "several expressions of scalar functions, each over its own broadcast inputs",
       .operands = "inputs... (any): those of the first expression, then those of the second, "
                   "and so on",
       .attributes = "exprs: one for each output, as in fused_elementwise\n"
                     "counts: how many inputs each of them has",
       .outputs = "y... (any): the values of the expressions, all of the same shape",
       .types = "f32 f16 bf16",
       .variants = {"joint"},
       .samples = {"batch_elementwise(T[3,17], T[17], T[3,17], T[3,1], T[3,17]) {exprs=[\"add($0,$1)\", "
                   "\"t0=mul($0,0.5); exp(t0)\", \"sub($0,$1)\"], counts=[2,1,2]}",
                   "batch_elementwise(T[20000], i32[20000], T[20000], T[1], T[20000], T[20000], T[20000]) "
                   "{exprs=[\"neg($0)\", \"add($0,3)\", \"mul($0,$1)\", \"t0=add($0,$1); add(t0,$2)\"], "
                   "counts=[1,1,2,3]}"},
       .internal = true});
}
}  // namespace ops

}  // namespace rlx
