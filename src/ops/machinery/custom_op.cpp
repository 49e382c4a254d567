// Ops that a program registers: the public functions of rlx/custom_op.h as an Op.
#include "ops/machinery/custom_op.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <ranges>
#include <set>

#include "base/border.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "kernels/parse.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/rows.h"
#include "ops/rearrange/contiguous.h"
#include "rlx/graph.h"

namespace rlx {

// ---- what the functions of an op see ----

const TensorType& CustomCall::input(int64_t i) const {
  if (i < 0 || i >= input_count()) fail("{}: asked for input {} of {}", op_, i, input_count());
  return inputs_[static_cast<size_t>(i)];
}

const TensorType& CustomCall::output(int64_t i) const {
  if (i < 0 || i >= std::ssize(outputs_)) fail("{}: asked for output {} of {}", op_, i, outputs_.size());
  return outputs_[static_cast<size_t>(i)];
}

const AttributeValue& CustomCall::value(std::string_view name) const {
  const auto found = std::ranges::find(*attributes_, name, &NamedAttributes::value_type::first);
  if (found == attributes_->end()) fail("{}: there is no attribute '{}'", op_, name);
  return found->second;
}

namespace {

template <class T>
const T& get(std::string_view op, const CustomCall& call, std::string_view name, std::string_view kind) {
  const T* const value = std::get_if<T>(&call.value(name));
  if (!value) fail("{}: the attribute '{}' is not a {}", op, name, kind);
  return *value;
}

}  // namespace

bool CustomCall::flag(std::string_view name) const { return get<bool>(op_, *this, name, "bool"); }
int64_t CustomCall::integer(std::string_view name) const {
  return get<int64_t>(op_, *this, name, "whole number");
}
double CustomCall::number(std::string_view name) const {
  if (const auto* whole = std::get_if<int64_t>(&value(name))) return static_cast<double>(*whole);
  return get<double>(op_, *this, name, "number");
}
const std::string& CustomCall::text(std::string_view name) const {
  return get<std::string>(op_, *this, name, "text");
}
const std::vector<int64_t>& CustomCall::integers(std::string_view name) const {
  return get<std::vector<int64_t>>(op_, *this, name, "list of whole numbers");
}
const std::vector<double>& CustomCall::numbers(std::string_view name) const {
  return get<std::vector<double>>(op_, *this, name, "list of numbers");
}

int64_t CustomCall::axis(std::string_view name) const {
  return checked_axis(op_, integer(name), input(0).shape.rank());
}

std::span<const double> CustomReference::in(int64_t i) const {
  static_cast<void>(input(i));
  return in_[static_cast<size_t>(i)];
}
std::span<double> CustomReference::out(int64_t i) {
  static_cast<void>(output(i));
  return out_[static_cast<size_t>(i)];
}

// ---- parameters ----

struct CustomParams::Impl {
  std::string_view op;
  const Kernel& kernel;
  std::vector<std::byte> bytes = std::vector<std::byte>(kernel.params_bytes);
  SpecList specs = {};
  std::set<std::string, std::less<>> given = {};

  // The number as a 32-bit word of that type.
  uint32_t word(std::string_view name, std::string_view type, double value) const {
    if (type == "f32") return std::bit_cast<uint32_t>(static_cast<float>(value));
    const bool is_signed = type == "i32";
    const double low = is_signed ? -2147483648.0 : 0;
    const double high = is_signed ? 2147483647.0 : 4294967295.0;
    if (!(value >= low && value <= high) || value != std::floor(value))
      fail(ErrorKind::invalid_argument, "{}: the parameter '{}' is a {}, which cannot be {}", op, name, type,
           value);
    return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(value)) : static_cast<uint32_t>(value);
  }

  bool set(std::string_view name, std::span<const double> values) {
    if (const auto p = std::ranges::find(kernel.params, name, &ParamDecl::name); p != kernel.params.end()) {
      const int64_t most = p->width * std::max<int64_t>(p->count, 1);
      if (std::ssize(values) > most || (p->count == 0 && std::ssize(values) != most))
        fail(ErrorKind::invalid_argument, "{}: the parameter '{}' has {} numbers, not {}", op, name, most,
             values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const uint32_t bits = word(name, p->scalar, values[i]);
        std::memcpy(bytes.data() + p->offset + 4 * i, &bits, 4);
      }
    } else if (const auto s = std::ranges::find(kernel.specs, name, &SpecDecl::name);
               s != kernel.specs.end() && values.size() == 1) {
      specs.push_back(s->type == "bool" ? spec_value(s->name, values[0] != 0)
                                        : spec_value(s->name, word(name, "u32", values[0])));
    } else {
      return false;
    }
    given.emplace(name);
    return true;
  }
};

void CustomParams::set(std::string_view name, double value) { set(name, std::span(&value, 1)); }

void CustomParams::set(std::string_view name, std::span<const double> values) {
  if (!impl_->set(name, values))
    fail(ErrorKind::invalid_argument, "{}: its kernel has no parameter '{}'", impl_->op, name);
}

// ---- the op ----

namespace {

// Runs a function of the op; whatever it throws becomes an error that names the op and the function.
template <class F>
auto guarded(const CustomOp& op, std::string_view function, F&& run) -> decltype(run()) {
  try {
    return run();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    fail("{}: its function `{}` failed: {}", op.name, function, e.what());
  } catch (...) {
    fail("{}: its function `{}` threw something that is not an exception", op.name, function);
  }
}

bool is_table(const CustomOp& op, std::string_view operand) {
  return std::ranges::any_of(op.tables, [&](const auto& t) { return t.first == operand; });
}

std::vector<double> as_doubles(const RefTensor& t) {
  if (is_float(t.dtype)) return t.real;
  return std::vector<double>(t.ints.begin(), t.ints.end());
}

class CustomNode final : public TableOp {
 public:
  explicit CustomNode(DeclaredOpPtr d) : values(d->op.attributes), d_(std::move(d)) {}

  std::string_view name() const override { return d_->op.name; }
  std::shared_ptr<Op> clone() const override { return std::make_shared<CustomNode>(*this); }
  void visit_attributes(AttributeVisitor& v) override {
    for (size_t i = 0; i < values.size(); ++i) {
      std::visit(
          [&]<class T>(T& field) { v(values[i].first, field, std::get<T>(d_->op.attributes[i].second)); },
          values[i].second);
    }
  }

  std::vector<TensorType> infer(const InferArgs& in) const override {
    in.expect_count(std::ssize(d_->inputs));
    for (int64_t i = 0; i < in.count(); ++i)
      expect_kind("input", i, in.dtype(i), d_->kernel->operands[d_->inputs[static_cast<size_t>(i)]]);
    if (!std::ranges::contains(d_->types, to_string(in.dtype(0))))
      fail("{}: input 0 is {}; the op takes {}", name(), to_string(in.dtype(0)), joined(d_->types));
    std::vector<TensorType> inputs;
    for (int64_t i = 0; i < in.count(); ++i) inputs.push_back(in[i]);
    std::vector<TensorType> outputs = {in[0]};
    if (d_->op.infer) {
      outputs = guarded(d_->op, "infer",
                        [&] { return d_->op.infer(CustomCall(name(), std::move(inputs), {}, values)); });
    }
    if (outputs.size() != d_->outputs.size())
      fail("{}: inference gives {} outputs, but the kernel writes {}", name(), outputs.size(),
           d_->outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      expect_kind("output", static_cast<int64_t>(i), outputs[i].dtype, d_->kernel->operands[d_->outputs[i]]);
    return outputs;
  }

  void reference(RefContext& r) const override {
    std::vector<std::vector<double>> inputs, outputs;
    std::vector<TensorType> in_types, out_types;
    for (int64_t i = 0; i < std::ssize(d_->inputs); ++i) {
      inputs.push_back(as_doubles(r.in(i)));
      in_types.push_back({r.in(i).dtype, Shape(r.in(i).dims)});
    }
    for (int64_t i = 0; i < std::ssize(d_->outputs); ++i) {
      outputs.emplace_back(static_cast<size_t>(r.out(i).elements()));
      out_types.push_back({r.out(i).dtype, Shape(r.out(i).dims)});
    }
    CustomReference context(CustomCall(name(), std::move(in_types), std::move(out_types), values),
                            std::move(inputs), std::move(outputs));
    guarded(d_->op, "reference", [&] { d_->op.reference(context); });
    for (int64_t i = 0; i < std::ssize(d_->outputs); ++i) {
      RefTensor& out = r.out(i);
      if (is_float(out.dtype)) {
        out.real.assign(context.out(i).begin(), context.out(i).end());
      } else {
        out.ints = Tensor::from_doubles(out.dtype, out.dims, context.out(i)).integers();
      }
    }
  }

  Tolerance tolerance(std::span<const TensorType> inputs) const override {
    const CustomCall call(name(), {inputs.begin(), inputs.end()}, {}, values);
    const auto terms = [&] { return d_->op.terms ? d_->op.terms(call) : 0.0; };
    return {.ulps = d_->op.ulps, .terms = guarded(d_->op, "terms", terms)};
  }

  void lower(Lowering& l) const override;

  bool has_gradient() const override { return d_->op.gradient != nullptr; }
  std::vector<Value> gradient(const GradientArgs& args) const override {
    if (!has_gradient()) return Op::gradient(args);
    const auto types = [](const std::vector<Value>& of) {
      std::vector<TensorType> out;
      for (const Value& v : of) out.push_back(v.type());
      return out;
    };
    const CustomCall call(name(), types(args.inputs), types(args.outputs), values);
    std::vector<Value> gradients = guarded(d_->op, "gradient", [&] {
      return d_->op.gradient({call, args.inputs, args.outputs, args.output_gradients});
    });
    if (gradients.size() != args.inputs.size())
      fail("{}: its gradient has {} values, but it has {} inputs", name(), gradients.size(),
           args.inputs.size());
    return gradients;
  }

  NamedAttributes values;

 private:
  void expect_kind(std::string_view what, int64_t i, DType dtype, const OperandDecl& decl) const {
    const auto wrong = [&](std::string_view as) {
      fail("{}: {} {} is {}, but the kernel has {} as {}", name(), what, i, to_string(dtype), decl.name, as);
    };
    if (dtype == DType::c64) fail("{}: {} {} is c64, which custom ops do not take", name(), what, i);
    if (decl.kind == OperandDecl::Kind::float_ && !is_float(dtype)) wrong("floats");
    if (decl.kind == OperandDecl::Kind::int_ && is_float(dtype)) wrong("integers");
  }

  CustomCall call(const Lowering& l) const {
    const auto type = [](const Operand& o) { return TensorType{o.dtype, Shape(o.view.dims)}; };
    std::vector<TensorType> inputs, outputs;
    for (int64_t i = 0; i < std::ssize(d_->inputs); ++i) inputs.push_back(type(l.in(i)));
    for (int64_t i = 0; i < std::ssize(d_->outputs); ++i) outputs.push_back(type(l.out(i)));
    return CustomCall(name(), std::move(inputs), std::move(outputs), values);
  }

  int64_t row_axis(const CustomCall& call) const;
  void place_rows(Dispatch& d, const Operand& x, int64_t axis) const;
  Dispatch whole(Lowering& l, const CustomCall& call) const;
  void lower_flat(Lowering& l, Dispatch d) const;
  void lower_along_rows(Lowering& l, const CustomCall& call, Dispatch d) const;
  bool emit_along_rows(Lowering& l, RowProblem problem, const Dispatch& d) const;

  DeclaredOpPtr d_;
};

// Sets the parameters that have the name of an attribute.
void set_from_attributes(CustomParams::Impl& params, const NamedAttributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (const auto* number = std::get_if<double>(&value)) params.set(name, std::span(number, 1));
    const auto set_one = [&](double v) { params.set(name, std::span(&v, 1)); };
    if (const auto* whole = std::get_if<int64_t>(&value)) set_one(static_cast<double>(*whole));
    if (const auto* yes = std::get_if<bool>(&value)) set_one(*yes ? 1 : 0);
    if (const auto* list = std::get_if<std::vector<double>>(&value)) params.set(name, *list);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      params.set(name, std::vector<double>(list->begin(), list->end()));
  }
}

// A dispatch of the kernel on all of its operands, with its parameters.
Dispatch CustomNode::whole(Lowering& l, const CustomCall& call) const {
  const Kernel& kernel = *d_->kernel;
  OperandList operands(kernel.operands.size());
  for (size_t i = 0; i < d_->inputs.size(); ++i) operands[d_->inputs[i]] = l.in(static_cast<int64_t>(i));
  for (size_t i = 0; i < d_->outputs.size(); ++i) operands[d_->outputs[i]] = l.out(static_cast<int64_t>(i));
  for (size_t i : d_->tables) {
    const auto table = std::ranges::find_if(
        d_->op.tables, [&](const auto& t) { return t.first == kernel.operands[i].name; });
    operands[i] = l.table(guarded(d_->op, "tables", [&] { return table->second(call); }));
  }
  CustomParams::Impl params{.op = name(), .kernel = kernel};
  set_from_attributes(params, values);
  if (d_->rows) {
    const Operand rows = as_rows(l.in(0), {row_axis(call)});
    const double count = static_cast<double>(row_count(rows));
    const double length = static_cast<double>(row_length(rows));
    params.set("rows", std::span(&count, 1));
    params.set("length", std::span(&length, 1));
  }
  if (d_->rows || kernel.flat) params.given.insert({"first", "end"});
  if (d_->op.params) {
    CustomParams setter(call, params);
    guarded(d_->op, "params", [&] { d_->op.params(setter); });
  }
  for (const ParamDecl& p : kernel.params) {
    if (!params.given.contains(p.name))
      fail(ErrorKind::invalid_argument, "{}: nothing sets the parameter '{}' of its kernel", name(), p.name);
  }
  return l.make(d_->kernel, std::move(operands), params.bytes, 0, std::move(params.specs));
}

void CustomNode::lower_flat(Lowering& l, Dispatch d) const {
  if (!fits(d, l.caps())) {
    // Views that are spread over more than a binding are copied, so that they can be cut.
    for (const size_t i : d_->inputs) {
      Operand& o = d.operands[i];
      if (!o.view.is_contiguous() && reach_bytes(o) > static_cast<int64_t>(l.caps().max_binding_bytes))
        o = lower_contiguous(l, o);
    }
  }
  l.flat(std::move(d));
}

bool CustomNode::emit_along_rows(Lowering& l, RowProblem problem, const Dispatch& d) const {
  problem.run = [&](const Team& team) {
    Dispatch part = d;
    const bool four = use_four(*part.kernel, part.operands);
    erase_if(part.specs, [](const SpecValue& s) { return s.name == "TEAM" || s.name == "FOUR"; });
    part.specs.push_back(spec_value("TEAM", to_u32(team.size)));
    if (std::ranges::contains(part.kernel->specs, "FOUR", &SpecDecl::name))
      part.specs.push_back(spec_value("FOUR", four));
    part.variant = l.label();
    return l.rows(for_team(std::move(part), team), problem.rows, team.rows_per_group);
  };
  return emit_rows(l, name(), problem);
}

int64_t CustomNode::row_axis(const CustomCall& call) const {
  const int64_t rank = call.input(0).shape.rank();
  if (rank == 0) fail("{}: input 0 is a scalar, which has no rows", name());
  const int64_t axis =
      d_->op.row_axis ? guarded(d_->op, "row_axis", [&] { return d_->op.row_axis(call); }) : rank - 1;
  if (axis < 0 || axis >= rank)
    fail("{}: rows along axis {} of input 0, which has {} axes", name(), axis, rank);
  return axis;
}

// What a row has of each operand: its own elements along the axis if the kernel calls base and step of it,
// one element if it calls base alone, and what all rows share otherwise.
void CustomNode::place_rows(Dispatch& d, const Operand& x, int64_t axis) const {
  std::vector<int64_t> outer = x.view.dims;
  outer.erase(outer.begin() + axis);
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Operand& o = d.operands[i];
    const OperandDecl& decl = d.kernel->operands[i];
    const auto expect = [&](bool fits, std::string_view part) {
      if (fits) return;
      fail("{}: {} has the shape {}, but the kernel wants {} of it for each of the rows of input 0, {}",
           name(), decl.name, Shape(o.view.dims).text(), part, Shape(outer).text());
    };
    if (decl.calls.base && decl.calls.step) {
      std::vector<int64_t> dims = o.view.dims;
      if (o.view.rank() == x.view.rank()) dims.erase(dims.begin() + axis);
      expect(o.view.rank() == x.view.rank() && dims == outer, "a row");
      o = as_rows(o, {axis});
    } else if (decl.calls.base) {
      expect(o.view.dims == outer, "one element");
      o = o.with_view(o.view, o.view.rank());
    } else {
      o = o.with_view(o.view, 0);
    }
  }
}

void CustomNode::lower_along_rows(Lowering& l, const CustomCall& call, Dispatch d) const {
  const int64_t axis = row_axis(call);
  const int64_t rank = l.in(0).view.rank();
  place_rows(d, l.in(0), axis);
  const auto has_rows = [&](size_t operand) {
    const AccessorCalls& calls = d.kernel->operands[operand].calls;
    return calls.base && calls.step;
  };
  const RowProblem problem = row_problem(as_rows(l.in(0), {axis}), 1);
  if (emit_along_rows(l, problem, d)) return;
  // The rows are spread over too much memory: make them contiguous.
  std::vector<std::pair<Operand, Operand>> results;  // contiguous outputs, and where they belong
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Operand& o = d.operands[i];
    if (!has_rows(i)) continue;
    const Operand piece =
        d.kernel->operands[i].out ? l.scratch(o.dtype, o.view.dims) : lower_contiguous(l, o);
    if (d.kernel->operands[i].out) results.emplace_back(piece, o);
    o = piece.with_view(piece.view, rank - 1);
  }
  if (!emit_along_rows(l, problem, d)) fail_to_bind(l.caps());
  for (const auto& [piece, result] : results) lower_copy_into(l, piece, result);
}

void CustomNode::lower(Lowering& l) const {
  const CustomCall call = this->call(l);
  for (int64_t i = 0; i < std::ssize(d_->outputs) && d_->op.initial; ++i) {
    if (l.out(i).view.elements() > 0) lower_fill(l, l.out(i), *d_->op.initial);
  }
  Dispatch d = whole(l, call);
  if (d_->rows) {
    if (l.in(0).view.elements() > 0 || !d_->op.initial) lower_along_rows(l, call, std::move(d));
  } else if (d_->kernel->flat) {
    lower_flat(l, std::move(d));
  } else {
    d.groups = guarded(d_->op, "groups", [&] { return d_->op.groups(call); });
    if (d.groups < 0) fail("{}: its kernel cannot run on {} workgroups", name(), d.groups);
    l.emit(std::move(d));
  }
}

// ---- registration ----

void check_name(const std::string& name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto allowed = [&](char c) { return (c >= 'a' && c <= 'z') || digit(c) || c == '_'; };
  for (const auto part :
       std::views::split(name + ".", '.') | std::views::take(std::ranges::count(name, '.') + 1)) {
    const std::string_view word(part);
    if (word.empty() || !std::ranges::all_of(word, allowed) || digit(word[0]))
      fail(ErrorKind::invalid_argument,
           "'{}' cannot be the name of an op; use lower-case letters, digits, _, and a dot after a family",
           excerpt(name));
  }
  for (const std::string_view leaf : {Input::kName, Param::kName, State::kName, Constant::kName}) {
    if (name == leaf)
      fail(ErrorKind::invalid_argument, "'{}' cannot be the name of an op: graphs use it for a leaf", name);
  }
}

void check_attributes(const CustomOp& op) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : op.attributes) {
    const auto allowed = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    if (name.empty() || !std::ranges::all_of(name, allowed))
      fail(ErrorKind::invalid_argument, "the op '{}' has an attribute '{}': names have letters, digits and _",
           op.name, excerpt(name));
    if (!names.insert(name).second)
      fail(ErrorKind::invalid_argument, "the op '{}' has two attributes named '{}'", op.name, name);
  }
}

// The documentation of an operand, an attribute or an output; "" if there is none.
std::string_view documentation_of(const CustomOp& op, std::string_view name) {
  const auto found = std::ranges::find(op.documentation, name, [](const auto& d) { return d.first; });
  return found == op.documentation.end() ? std::string_view() : found->second;
}

// The lines of OpInfo. Types are what the kernel says of them; the first input has those of the op.
void describe(DeclaredOp& d, const CustomOp& op) {
  for (const auto& [name, text] : op.documentation) {
    const auto is_operand = [&](size_t i) { return d.kernel->operands[i].name == name; };
    if (!std::ranges::any_of(d.inputs, is_operand) && !std::ranges::any_of(d.outputs, is_operand) &&
        !std::ranges::contains(op.attributes, name, &NamedAttributes::value_type::first)) {
      fail(ErrorKind::invalid_argument,
           "the op '{}' documents '{}', which is no operand, attribute or output of it", op.name,
           excerpt(name));
    }
    if (text.contains('\n'))
      fail(ErrorKind::invalid_argument, "the op '{}' documents '{}' in several lines; it must be one",
           op.name, name);
  }
  const auto lines = [&](const std::vector<size_t>& operands) {
    std::string text;
    for (const size_t i : operands) {
      const OperandDecl& o = d.kernel->operands[i];
      const std::string_view types = i == d.inputs[0]                      ? "T"
                                     : o.kind == OperandDecl::Kind::float_ ? "float"
                                     : o.kind == OperandDecl::Kind::int_   ? "integer"
                                                                           : "any";
      text += formatted("{} ({}): {}\n", o.name, types, documentation_of(op, o.name));
    }
    return text;
  };
  d.operands_text = lines(d.inputs);
  d.outputs_text = lines(d.outputs);
  for (const auto& [name, value] : op.attributes)
    d.attributes_text += formatted("{}: {}\n", name, documentation_of(op, name));
}

std::shared_ptr<CustomNode> make_node(std::string_view name, const NamedAttributes& attributes) {
  const OpInfo& info = op_table().at(name);
  const auto node = std::dynamic_pointer_cast<CustomNode>(info.make());
  if (!node)
    fail(ErrorKind::invalid_argument, "the op '{}' is not a custom op; call the function of that name", name);
  for (const auto& [key, value] : attributes) {
    const auto found = std::ranges::find(node->values, key, &NamedAttributes::value_type::first);
    if (found == node->values.end()) {
      fail(ErrorKind::invalid_argument, "{}: there is no attribute '{}' (it has: {})", name, key,
           joined(node->values, &NamedAttributes::value_type::first));
    }
    const auto* whole = std::get_if<int64_t>(&value);
    const auto* wholes = std::get_if<std::vector<int64_t>>(&value);
    if (whole && std::holds_alternative<double>(found->second)) {
      found->second = static_cast<double>(*whole);
    } else if (wholes && std::holds_alternative<std::vector<double>>(found->second)) {
      found->second = std::vector<double>(wholes->begin(), wholes->end());
    } else if (value.index() == found->second.index()) {
      found->second = value;
    } else {
      static constexpr std::string_view kKinds[] = {"bool", "whole number",          "number",
                                                    "text", "list of whole numbers", "list of numbers"};
      fail(ErrorKind::invalid_argument, "{}: the attribute '{}' is a {}, not a {}", name, key,
           kKinds[found->second.index()], kKinds[value.index()]);
    }
  }
  return node;
}

}  // namespace

DeclaredOpPtr declare_op(CustomOp op) {
  const auto wrong = [&](const std::string& what) {
    fail(ErrorKind::invalid_argument, "the op '{}' {}", op.name, what);
  };
  check_name(op.name);
  if (!op.reference) wrong("has no reference, which computes the same on the CPU for verification");
  const std::string file = op.file.empty() ? op.name + ".wgsl" : op.file;
  const auto include = [&](std::string_view what) -> std::string {
    fail(ErrorKind::invalid_argument,
         "{}: `//@ include {}`: only kernels of the library include its fragments", file, what);
  };
  DeclaredOp d;
  d.kernel = parse_kernel(kernel_text(file, op.wgsl, include));
  d.rows = std::ranges::contains(d.kernel->libs, "team_serial");
  for (size_t i = 0; i < d.kernel->operands.size(); ++i) {
    const OperandDecl& o = d.kernel->operands[i];
    (o.out ? d.outputs : is_table(op, o.name) ? d.tables : d.inputs).push_back(i);
  }
  if (d.inputs.empty()) wrong("has a kernel without an input: `//@ in x float`");
  if (d.outputs.empty()) wrong("has a kernel without an output: `//@ out y float`");
  if (std::ranges::contains(d.kernel->operands, OperandDecl::Kind::encoded, &OperandDecl::kind))
    wrong("has a kernel with an encoded operand; custom ops see decoded values: `//@ in x float`");
  if (d.kernel->flat && d.outputs.size() > 1) wrong("has a kernel that uses flat, which writes one output");
  for (const auto part : std::views::split(op.types, ' ')) {
    const std::string word{std::string_view(part)};
    if (word.empty()) continue;
    const std::optional<DType> type = parse_dtype(word);
    if (!type || *type == DType::c64 || is_encoded(*type))
      wrong(formatted("takes '{}', which no input of a custom op can be", word));
    d.types.push_back(word);
  }
  if (d.types.empty()) wrong("takes no type: `types` is empty");
  check_attributes(op);
  for (const size_t i : d.outputs) {
    if (d.kernel->operands[i].atomic && !op.initial)
      wrong(formatted("changes {} atomically, but `initial` does not say from what",
                      d.kernel->operands[i].name));
  }
  if ((d.kernel->flat || d.rows) && op.groups)
    wrong("has `groups`, but its kernel has no entry point of its own: the library counts its workgroups");
  if (d.tables.size() != op.tables.size()) wrong("has a table for which its kernel has no operand");
  if (!d.kernel->flat && !d.rows && !op.groups)
    wrong(
        "has a kernel with its own entry point, but no function `groups` that says how many workgroups to "
        "run");
  if (!d.kernel->flat && !d.rows && !std::ranges::contains(called_functions(d.kernel->source), "main"))
    wrong("has a kernel that does not define `@compute @workgroup_size(64) fn main(...)`");
  describe(d, op);
  d.op = std::move(op);
  return std::make_shared<const DeclaredOp>(std::move(d));
}

void add_op(const DeclaredOpPtr& declared) {
  OpInfo info;
  info.name = declared->op.name;
  info.formula = declared->op.formula;
  info.operands = declared->operands_text;
  info.attributes = declared->attributes_text;
  info.outputs = declared->outputs_text;
  info.types = declared->op.types;
  info.variants = declared->rows ? names_of(kRowVariants) : std::vector<std::string>{declared->kernel->name};
  info.samples = declared->op.samples;
  info.custom = true;
  info.make = [declared] { return std::make_shared<CustomNode>(declared); };
  op_table().add(std::move(info));
}

std::vector<Value> custom_outputs(std::string_view name, const std::vector<Value>& inputs,
                                  const NamedAttributes& attributes) try {
  if (inputs.empty() || !inputs[0]) fail(ErrorKind::invalid_argument, "{}: input 0 must be given", name);
  Graph& graph = inputs[0].graph();
  const Value first = graph.add_value(make_node(name, attributes), inputs);
  std::vector<Value> outputs;
  const auto count = std::ssize(graph.node(first.id().node).outputs);
  for (int32_t i = 0; i < count; ++i) outputs.push_back(graph.value({first.id().node, i}));
  return outputs;
} catch (...) {
  throw_as_error("adding a custom op");
}

Value custom(std::string_view name, const std::vector<Value>& inputs, const NamedAttributes& attributes) {
  return custom_outputs(name, inputs, attributes)[0];
}

}  // namespace rlx
