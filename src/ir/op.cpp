#include "ir/op.h"

#include <algorithm>

#include "ir/reference.h"

namespace rlx {

size_t AttributeVisitor::find_choice(std::string_view name, const std::string& value,
                                     std::initializer_list<std::string_view> names) {
  const auto it = std::ranges::find(names, value);
  if (it != names.end()) return static_cast<size_t>(it - names.begin());
  std::string known;
  for (std::string_view n : names) known += (known.empty() ? "" : ", ") + std::string(n);
  fail("the attribute {} is '{}'; it can be {}", name, value, known);
}

void InferArgs::expect_count(int64_t low, int64_t high) const {
  if (count() >= low && count() <= high) return;
  if (low == high) fail("{}: takes {} input{}, not {}", op_, low, low == 1 ? "" : "s", count());
  fail("{}: takes {} to {} inputs, not {}", op_, low, high, count());
}

int64_t InferArgs::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) fail("{}: axis {} does not exist, the input is a scalar", op_, axis);
    fail("{}: axis {} is outside rank {} (allowed: {} to {})", op_, axis, rank, -rank, rank - 1);
  }
  return axis < 0 ? axis + rank : axis;
}

void InferArgs::expect_dtype(int64_t input, bool allowed, std::string_view wanted) const {
  if (!allowed)
    fail("{}: input {} has type {}; it must have {}", op_, input, to_string(dtype(input)), wanted);
}

void InferArgs::expect_same_dtype(int64_t a, int64_t b) const {
  if (dtype(a) != dtype(b)) {
    fail("{}: inputs {} and {} have the types {} and {}; they must be equal (use cast)", op_, a, b,
         to_string(dtype(a)), to_string(dtype(b)));
  }
}

void Op::lower(Lowering&) const { fail(ErrorKind::internal, "the op {} has no lowering of its own", name()); }

namespace {

class AttributeCollector final : public AttributeVisitor {
 public:
  Attrs all;    // every attribute
  Attrs shown;  // those that differ from their default
 private:
  void visit(std::string_view name, AttrValue& value, const std::optional<AttrValue>& otherwise) override {
    all.emplace_back(name, value);
    if (value != otherwise) shown.emplace_back(name, value);
  }
};

class AttributeSetter final : public AttributeVisitor {
 public:
  explicit AttributeSetter(const Attrs& attrs) : attrs_(attrs), used_(attrs.size(), false) {}
  void finish(std::string_view op) const {
    for (size_t i = 0; i < attrs_.size(); ++i) {
      if (!used_[i]) fail("{}: has no attribute '{}'", op, attrs_[i].first);
    }
  }
  std::string missing;

 private:
  void visit(std::string_view name, AttrValue& value, const std::optional<AttrValue>& otherwise) override {
    for (size_t i = 0; i < attrs_.size(); ++i) {
      if (attrs_[i].first != name) continue;
      used_[i] = true;
      value = convert(name, attrs_[i].second, value);
      return;
    }
    if (otherwise) {
      value = *otherwise;
    } else if (missing.empty()) {
      missing = name;
    }
  }

  // Texts do not tell 1 from 1.0, a number from a dim, or a list of numbers from a shape.
  static AttrValue convert(std::string_view name, const AttrValue& given, const AttrValue& like) {
    if (given.index() == like.index()) return given;
    const auto* number = std::get_if<int64_t>(&given);
    const auto* list = std::get_if<std::vector<int64_t>>(&given);
    if (number && std::holds_alternative<double>(like)) return static_cast<double>(*number);
    if (number && std::holds_alternative<Dim>(like)) return Dim(*number);
    if (list && std::holds_alternative<Shape>(like)) return Shape(*list);
    fail("the attribute {} has a value of the wrong kind", name);
  }

  const Attrs& attrs_;
  std::vector<bool> used_;
};

class SymbolBinder final : public AttributeVisitor {
 public:
  explicit SymbolBinder(const SymbolValues& values) : values_(values) {}

 private:
  void visit(std::string_view, AttrValue& value, const std::optional<AttrValue>&) override {
    if (auto* dim = std::get_if<Dim>(&value)) {
      *dim = dim->bind(values_);
    } else if (auto* shape = std::get_if<Shape>(&value)) {
      *shape = shape->bind(values_);
    } else if (auto* type = std::get_if<TensorType>(&value)) {
      type->shape = type->shape.bind(values_);
    } else if (auto* graph = std::get_if<GraphPtr>(&value); graph && *graph) {
      *graph = std::make_shared<const Graph>(bind_symbols(**graph, values_));
    }
  }
  const SymbolValues& values_;
};

AttributeCollector collect(const Op& op) {
  AttributeCollector fields;
  op.clone()->visit_attributes(fields);
  return fields;
}

}  // namespace

Attrs attributes(const Op& op) { return collect(op).shown; }

void set_attributes(Op& op, const Attrs& attrs) {
  AttributeSetter fields(attrs);
  op.visit_attributes(fields);
  fields.finish(op.name());
  if (!fields.missing.empty()) fail("{}: the attribute '{}' is missing", op.name(), fields.missing);
}

void collect_symbols(const Op& op, std::set<std::string>& into) {
  for (const auto& [name, value] : collect(op).all) {
    if (const auto* dim = std::get_if<Dim>(&value)) {
      dim->collect_symbols(into);
    } else if (const auto* shape = std::get_if<Shape>(&value)) {
      for (const Dim& d : *shape) d.collect_symbols(into);
    } else if (const auto* type = std::get_if<TensorType>(&value)) {
      for (const Dim& d : type->shape) d.collect_symbols(into);
    } else if (const auto* graph = std::get_if<GraphPtr>(&value); graph && *graph) {
      into.merge((*graph)->symbols());
    }
  }
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
