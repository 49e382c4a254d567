#include "ir/op.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "ir/reference.h"
#include "rlx/graph.h"

namespace rlx {

// --- Attributes ---

namespace {

template <class T>
AttrKind attr_kind() {
  return AttrValue(std::in_place_type<T>).index();
}

}  // namespace

template <Attribute T>
void AttributeVisitor::operator()(std::string_view name, T& field) {
  AttrValue value = field;
  visit(name, value, std::nullopt, attr_kind<T>());
  field = std::get<T>(std::move(value));
}

template <Attribute T>
void AttributeVisitor::operator()(std::string_view name, std::optional<T>& field) {
  AttrValue value = field ? AttrValue(*field) : AttrValue();
  visit(name, value, AttrValue(), attr_kind<T>());
  field = value.index() == 0 ? std::optional<T>() : std::get<T>(std::move(value));
}

template <Attribute T>
void AttributeVisitor::operator()(std::string_view name, T& field, const std::type_identity_t<T>& otherwise) {
  AttrValue value = field;
  visit(name, value, AttrValue(otherwise), attr_kind<T>());
  field = std::get<T>(std::move(value));
}

size_t AttributeVisitor::visit_choice(std::string_view name, size_t value,
                                      std::initializer_list<std::string_view> names,
                                      std::optional<size_t> otherwise) {
  const auto text = [&](size_t i) { return AttrValue(std::string(names.begin()[i])); };
  AttrValue chosen = text(value);
  visit_words(names);
  visit(name, chosen, otherwise.transform(text), attr_kind<std::string>());
  const std::string& wanted = std::get<std::string>(chosen);
  const auto it = std::ranges::find(names, wanted);
  if (it != names.end()) return static_cast<size_t>(it - names.begin());
  fail("the attribute {} is '{}'; it can be {}", name, excerpt(wanted), joined(names));
}

#define RLX_INSTANTIATE(T)                                                         \
  template void AttributeVisitor::operator()(std::string_view, T&);                \
  template void AttributeVisitor::operator()(std::string_view, std::optional<T>&); \
  template void AttributeVisitor::operator()(std::string_view, T&, const std::type_identity_t<T>&);
RLX_INSTANTIATE(bool)
RLX_INSTANTIATE(int64_t)
RLX_INSTANTIATE(double)
RLX_INSTANTIATE(std::string)
RLX_INSTANTIATE(DType)
RLX_INSTANTIATE(Dim)
RLX_INSTANTIATE(std::vector<int64_t>)
RLX_INSTANTIATE(std::vector<double>)
RLX_INSTANTIATE(std::vector<std::string>)
RLX_INSTANTIATE(Shape)
RLX_INSTANTIATE(TensorType)
RLX_INSTANTIATE(Tensor)
RLX_INSTANTIATE(GraphPtr)
RLX_INSTANTIATE(ExprAttr)
#undef RLX_INSTANTIATE

// --- Inference ---

std::string_view InferArgs::op() const { return op_.name(); }

std::string InferArgs::operand_name(int64_t input) const { return op_.operand_name(input); }

void InferArgs::expect_count(int64_t low, int64_t high) const {
  if (count() >= low && count() <= high) return;
  if (low == high) fail("{}: takes {} input{}, not {}", op(), low, low == 1 ? "" : "s", count());
  fail("{}: takes {} to {} inputs, not {}", op(), low, high, count());
}

int64_t checked_axis(std::string_view op, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) fail("{}: axis {} does not exist, the input is a scalar", op, axis);
    fail("{}: axis {} is outside rank {} (allowed: {} to {})", op, axis, rank, -rank, rank - 1);
  }
  return axis < 0 ? axis + rank : axis;
}

void InferArgs::expect_dtype(int64_t input, bool allowed, std::string_view wanted) const {
  if (!allowed)
    fail("{}: {} has type {}; it must have {}", op(), operand_name(input), to_string(dtype(input)), wanted);
}

void InferArgs::expect_same_dtype(int64_t a, int64_t b) const {
  if (dtype(a) != dtype(b)) {
    fail("{}: {} and {} have the types {} and {}; they must be equal (use cast)", op(), operand_name(a),
         operand_name(b), to_string(dtype(a)), to_string(dtype(b)));
  }
}

std::optional<ValueRange> values_between(int64_t first, const Dim& last) {
  if (!last.is_static() || last.value() < first) return std::nullopt;
  return ValueRange{.low = static_cast<double>(first), .high = static_cast<double>(last.value())};
}

std::optional<ValueRange> index_range(const Shape& shape, int64_t first_axis, int64_t axes) {
  Dim shortest = shape[first_axis];
  for (int64_t i = 1; i < axes; ++i) shortest = Dim::min(shortest, shape[first_axis + i]);
  return values_between(0, shortest - 1);
}

std::string Op::operand_name(int64_t input) const { return formatted("input {}", input); }

std::vector<Value> Op::gradient(const GradientArgs&) const { fail("the op {} has no gradient", name()); }

void Op::lower(Lowering&) const {
  fail(
      ErrorKind::internal, "the op {} has {}", name(),
      expands() ? "an expansion, but not for this case, and no kernels" : "neither kernels nor an expansion");
}

namespace {

class AttributeCollector final : public AttributeVisitor {
 public:
  Attrs all;    // every attribute
  Attrs shown;  // those that differ from their default
 private:
  void visit(std::string_view name, AttrValue& value, const std::optional<AttrValue>& otherwise,
             AttrKind) override {
    all.emplace_back(name, value);
    if (value != otherwise) shown.emplace_back(name, value);
  }
};

// A value from a text as the kind that an attribute has, if it can mean that: texts do not distinguish 1 from
// 1.0, a number from a dim, or a list of numbers from a shape, and they write expressions as strings.
std::optional<AttrValue> converted(const AttrValue& given, AttrKind kind) {
  if (given.index() == kind) return given;
  if (given.index() == 0 && kind == attr_kind<GraphPtr>()) return GraphPtr();
  if (const auto* text = std::get_if<std::string>(&given); text && kind == attr_kind<ExprAttr>())
    return ExprAttr::parse(*text);
  if (const auto* number = std::get_if<int64_t>(&given)) {
    if (kind == attr_kind<double>()) return static_cast<double>(*number);
    if (kind == attr_kind<Dim>()) return Dim(*number);
  }
  if (const auto* list = std::get_if<std::vector<int64_t>>(&given)) {
    if (kind == attr_kind<Shape>()) return Shape(*list);
    if (kind == attr_kind<std::vector<std::string>>() && list->empty()) return std::vector<std::string>();
    if (kind == attr_kind<std::vector<double>>()) return std::vector<double>(list->begin(), list->end());
  }
  return std::nullopt;
}

// Attributes that once had another name.
constexpr std::pair<std::string_view, std::string_view> kFormerAttributes[] = {{"keep", "keepdims"}};

class AttributeSetter final : public AttributeVisitor {
 public:
  explicit AttributeSetter(const Attrs& attrs) : attrs_(attrs), used_(attrs.size(), false) {}

  // Reports what was given twice, what the op does not have, and what was left out.
  void finish(std::string_view op) const {
    for (size_t i = 0; i < attrs_.size(); ++i) {
      const std::string& name = attrs_[i].first;
      if (!used_[i]) fail("{}: has no attribute '{}' ({})", op, excerpt(name), hint(name));
      for (size_t j = 0; j < i; ++j) {
        if (attrs_[j].first == name) fail("{}: the attribute '{}' is given twice", op, name);
      }
    }
    if (!missing_.empty()) fail("{}: the attribute '{}' is missing", op, missing_);
  }

 private:
  void visit(std::string_view name, AttrValue& value, const std::optional<AttrValue>& otherwise,
             AttrKind kind) override {
    known_.emplace_back(name);
    bool given = false;
    for (size_t i = 0; i < attrs_.size(); ++i) {
      if (attrs_[i].first != name) continue;
      used_[i] = given = true;
      value = accept(attrs_[i], otherwise, kind);
    }
    if (given) return;
    if (otherwise) {
      value = *otherwise;
    } else if (missing_.empty()) {
      missing_ = name;
    }
  }

  static AttrValue accept(const Attrs::value_type& attr, const std::optional<AttrValue>& otherwise,
                          AttrKind kind) {
    if (attr.second.index() == 0 && otherwise && otherwise->index() == 0) return {};
    if (std::optional<AttrValue> value = converted(attr.second, kind)) return *std::move(value);
    fail("the attribute {} takes a value of the kind '{}', not {}", attr.first, attr_kind_name(kind),
         excerpt(attribute_text(attr.second)));
  }

  std::string hint(std::string_view given) const {
    for (const auto& [former, present] : kFormerAttributes) {
      if (given == former && std::ranges::contains(known_, present))
        return formatted("it is named {} now", present);
    }
    if (known_.empty()) return "it has none";
    return "it has: " + joined(known_);
  }

  const Attrs& attrs_;
  std::vector<bool> used_;
  std::vector<std::string> known_;
  std::string missing_;
};

void bind_attribute(AttrValue& value, const SymbolValues& values) {
  if (auto* dim = std::get_if<Dim>(&value)) {
    *dim = dim->bind(values);
  } else if (auto* shape = std::get_if<Shape>(&value)) {
    *shape = shape->bind(values);
  } else if (auto* type = std::get_if<TensorType>(&value)) {
    type->shape = type->shape.bind(values);
  } else if (auto* graph = std::get_if<GraphPtr>(&value); graph && *graph) {
    *graph = std::make_shared<const Graph>(bind_symbols(**graph, values));
  }
}

class SymbolBinder final : public AttributeVisitor {
 public:
  explicit SymbolBinder(const SymbolValues& values) : values_(values) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&, AttrKind) override {
    bind_attribute(value, values_);
  }
  const SymbolValues& values_;
};

class AttributeHasher final : public AttributeVisitor {
 public:
  explicit AttributeHasher(Hash& hash) : hash_(hash) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&, AttrKind) override {
    std::visit([this](const auto& v) { add(v); }, value);
  }
  void add(std::monostate) { hash_.number(0); }
  void add(bool v) { hash_.number(v); }
  void add(int64_t v) { hash_.number(static_cast<uint64_t>(v)); }
  // 0 and -0 are equal and must have one hash.
  void add(double v) { hash_.number(std::bit_cast<uint64_t>(v == 0 ? 0.0 : v)); }
  void add(const std::string& v) { hash_.text(v); }
  void add(DType v) { hash_.number(static_cast<uint64_t>(v)); }
  void add(const Dim& v) { hash_.text(v.text()); }
  void add(const std::vector<int64_t>& v) { hash_.bytes(v.data(), v.size() * sizeof(int64_t)); }
  void add(const std::vector<double>& v) {
    for (const double d : v) add(d);
  }
  void add(const std::vector<std::string>& v) {
    for (const std::string& s : v) add(s);
  }
  void add(const Shape& v) {
    for (const Dim& d : v) add(d);
  }
  void add(const TensorType& v) {
    add(v.dtype);
    add(v.shape);
  }
  // A few elements distinguish most tensors; equality decides.
  void add(const Tensor& v) {
    add(v.dtype());
    add(v.shape());
    const int64_t n = v.elements();
    for (int64_t i = 0; i < n; i += std::max<int64_t>(1, n / 16)) add(v.real(i));
  }
  void add(const ExprAttr& v) { hash_.number(v.hash()); }
  void add(const GraphPtr& v) { hash_.number(reinterpret_cast<uintptr_t>(v.get())); }

  Hash& hash_;
};

std::set<std::string> symbols_in(const AttrValue& value) {
  std::set<std::string> found;
  if (const auto* dim = std::get_if<Dim>(&value)) {
    dim->collect_symbols(found);
  } else if (const auto* shape = std::get_if<Shape>(&value)) {
    for (const Dim& d : *shape) d.collect_symbols(found);
  } else if (const auto* type = std::get_if<TensorType>(&value)) {
    for (const Dim& d : type->shape) d.collect_symbols(found);
  } else if (const auto* graph = std::get_if<GraphPtr>(&value); graph && *graph) {
    found = (*graph)->symbols();
  }
  return found;
}

class SymbolCollector final : public AttributeVisitor {
 public:
  explicit SymbolCollector(std::set<std::string>& into) : into_(into) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&, AttrKind) override {
    into_.merge(symbols_in(value));
  }
  std::set<std::string>& into_;
};

// Puts attributes that have symbols in the place of what they were bound to, and binds them again.
class SymbolRebinder final : public AttributeVisitor {
 public:
  SymbolRebinder(std::span<const std::optional<AttrValue>> symbolic, const SymbolValues& values)
      : symbolic_(symbolic), values_(values) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&, AttrKind) override {
    const std::optional<AttrValue>& unbound = symbolic_[next_++];
    if (!unbound) return;
    value = *unbound;
    bind_attribute(value, values_);
  }
  std::span<const std::optional<AttrValue>> symbolic_;
  const SymbolValues& values_;
  size_t next_ = 0;
};

AttributeCollector collect(const Op& op) {
  AttributeCollector fields;
  op.clone()->visit_attributes(fields);
  return fields;
}

}  // namespace

std::string_view attr_kind_name(AttrKind kind) {
  static constexpr std::string_view kNames[] = {"value that is not given",
                                                "true or false",
                                                "whole number",
                                                "number",
                                                "text",
                                                "element type",
                                                "dim",
                                                "list of whole numbers",
                                                "list of numbers",
                                                "list of texts",
                                                "shape",
                                                "type",
                                                "tensor",
                                                "graph",
                                                "expression"};
  static_assert(std::size(kNames) == std::variant_size_v<AttrValue>);
  return kNames[kind];
}

Attrs attributes(const Op& op) { return collect(op).shown; }

void set_attributes(Op& op, const Attrs& attrs) {
  AttributeSetter fields(attrs);
  op.visit_attributes(fields);
  fields.finish(op.name());
}

void collect_symbols(const Op& op, std::set<std::string>& into) {
  SymbolCollector fields(into);
  op.clone()->visit_attributes(fields);
}

uint64_t hash_of(const Op& op) {
  Hash hash;
  hash.text(op.name());
  AttributeHasher fields(hash);
  op.clone()->visit_attributes(fields);
  return hash.value();
}

OpPtr bind_symbols(const OpPtr& op, const SymbolValues& values) {
  std::set<std::string> symbols;
  collect_symbols(*op, symbols);
  if (symbols.empty()) return op;
  const std::shared_ptr<Op> bound = op->clone();
  SymbolBinder fields(values);
  bound->visit_attributes(fields);
  return bound;
}

Rebindable::Rebindable(OpPtr op) : bound_(std::move(op)) {
  std::set<std::string> symbols;
  collect_symbols(*bound_, symbols);
  if (symbols.empty()) return;
  for (const auto& [name, value] : collect(*bound_).all)
    symbolic_.push_back(symbols_in(value).empty() ? std::nullopt : std::optional(value));
  bound_ = own_ = bound_->clone();
}

const OpPtr& Rebindable::bind(const SymbolValues& values) {
  if (own_) {
    SymbolRebinder fields(symbolic_, values);
    own_->visit_attributes(fields);
  }
  return bound_;
}

bool same(const Op& a, const Op& b) {
  return a.name() == b.name() && (a.is_leaf() ? &a == &b : true) && collect(a).all == collect(b).all;
}

std::vector<TensorType> Leaf::infer(const InferArgs& in) const {
  in.expect_count(0);
  return {type};
}

void Leaf::reference(RefContext&) const {
  fail(ErrorKind::internal, "a {} has no reference: its value is given", name());
}

std::vector<TensorType> Constant::infer(const InferArgs& in) const {
  in.expect_count(0);
  return {TensorType{value.dtype(), Shape(value.shape())}};
}

void Constant::reference(RefContext& r) const { r.out() = RefTensor::from(value); }

}  // namespace rlx
