#include "import/onnx/call.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/similar.h"
#include "import/onnx/importer.h"
#include "rlx/graph.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {
constexpr int64_t kMaxSymbolic = 64;

// Names that no op gives its attributes, which are identifiers: what tools write down for themselves.
bool is_note(std::string_view name) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return name.empty() || name.starts_with('_') || !std::ranges::all_of(name, is_plain);
}
}  // namespace

void expect_attributes(const NodeProto& node, const AttributeNames& known, std::string_view who,
                       ErrorKind kind) {
  for (const AttributeProto& a : node.attributes) {
    if (known.contains(a.name) || is_note(a.name)) continue;
    std::string near;
    for (const std::string& name : known) {
      if (is_near(a.name, name)) near += (near.empty() ? "; similar: " : ", ") + name;
    }
    fail(kind, "it has the attribute '{}', which {} does not have{}", excerpt(a.name), excerpt(who), near);
  }
}

bool Ints::is_static() const { return std::ranges::all_of(values, &Dim::is_static); }

std::vector<int64_t> Ints::numbers() const {
  std::vector<int64_t> out;
  for (const Dim& d : values) out.push_back(d.value());
  return out;
}

std::string Imported::what() const {
  if (absent) return "an optional that holds nothing";
  if (!elements) return "a tensor";
  return formatted("a sequence of {} tensor{}", elements->size(), elements->size() == 1 ? "" : "s");
}

std::string element_name(std::string_view sequence, int64_t index) {
  return formatted("{}[{}]", sequence, index);
}

Call::Call(Importer& importer, Frame& frame, const NodeProto& node)
    : importer_(importer),
      frame_(frame),
      node_(node),
      opset_(importer.opset(frame, node.domain)),
      outputs_(node.outputs.size()) {
  for (const std::string_view name : node.inputs)
    inputs_.push_back(name.empty() ? nullptr : importer.find(frame.scope, name));
}

void Call::assume(const DimChoices& choices) {
  if (choices.empty()) return;
  for (Imported*& input : inputs_) {
    if (!input || !input->is_tensor() || input->failed) continue;
    Imported& own = assumed_.emplace_back(*input);
    if (own.ints) {
      own.value = {};
      for (Dim& d : own.ints->values) d = choose(d, choices);
    } else {
      Shape shape;
      for (const Dim& d : own.value.shape()) shape.push_back(choose(d, choices));
      if (!(shape == own.value.shape())) own.value = reshape(own.value, shape);
    }
    input = &own;
  }
}

Graph& Call::graph() const { return *frame_.scope.graph; }

// --- Inputs ---

bool Call::has(int64_t i) const { return i < input_count() && inputs_[static_cast<size_t>(i)] != nullptr; }

void Call::expect_inputs(int64_t low, int64_t high) const {
  if (input_count() < low || input_count() > high)
    fail("it has {} inputs; {} takes {} to {}", input_count(), op(), low, high);
}

const Imported& Call::any(int64_t i) const {
  if (!has(i)) fail("its input {} is not given", i);
  return *inputs_[static_cast<size_t>(i)];
}

const Imported& Call::imported(int64_t i) const {
  const Imported& input = any(i);
  if (!input.is_tensor()) fail("its input {} is {}; it must be a tensor", i, input.what());
  return input;
}

const std::vector<Imported>& Call::elements(int64_t i) const {
  const Imported& input = any(i);
  if (!input.elements) fail("its input {} is {}; it must be a sequence", i, input.what());
  return *input.elements;
}

bool Call::only_tensors() const {
  return std::ranges::all_of(inputs_, [](const Imported* in) { return !in || in->is_tensor(); });
}

Value Call::in(int64_t i) {
  Imported& input = *inputs_[static_cast<size_t>((imported(i), i))];
  if (!input.value) input.value = materialize(*input.ints, input.type);
  return input.type == ElementType::uint64 ? cast(input.value, DType::i64) : input.value;
}

std::vector<Value> Call::all() {
  std::vector<Value> out;
  for (int64_t i = 0; i < input_count(); ++i) out.push_back(in(i));
  return out;
}

Value Call::second() {
  Value b = in(1);
  if (opset_ >= 7 || !node_.domain.empty()) return b;
  const bool from_axis = has_attribute("axis");
  if (!flag("broadcast", false) || !from_axis) return b;
  const int64_t rank = this->rank(0);
  Shape to = b.shape();
  for (int64_t end = axis("axis", 0, rank) + to.rank(); end < rank; ++end) to.push_back(1);
  return reshape(b, to);
}

Shape Call::shape(int64_t i) const {
  const Imported& input = imported(i);
  return input.ints ? Shape(input.ints->shape) : input.value.shape();
}

const Ints* Call::known(int64_t i) const {
  const Imported& input = imported(i);
  return input.ints ? &*input.ints : nullptr;
}

std::vector<Dim> Call::dims(int64_t i, std::string_view what) {
  if (const Ints* ints = known(i)) return ints->values;
  const auto values = require_constant(i, what).integers();
  return {values.begin(), values.end()};
}

std::vector<int64_t> Call::numbers(int64_t i, std::string_view what) {
  std::vector<int64_t> out;
  for (const Dim& d : dims(i, what)) {
    if (!d.is_static())
      refuse(Refusal::other, "{} depends on the size {}, which is known only when it runs", what, d.text());
    out.push_back(d.value());
  }
  return out;
}

int64_t Call::number(int64_t i, std::string_view what) {
  const std::vector<int64_t> all = numbers(i, what);
  if (all.size() != 1) fail("{} must be one number, but has {}", what, all.size());
  return all[0];
}

std::optional<Tensor> Call::constant(int64_t i) {
  const Imported& input = imported(i);
  if (input.ints && !input.ints->is_static()) return std::nullopt;
  return importer_.constant(in(i));
}

Tensor Call::require_constant(int64_t i, std::string_view what) {
  if (auto tensor = constant(i)) return *std::move(tensor);
  importer_.need_host_value(in(i), what);
}

double Call::real(int64_t i, std::string_view what) {
  const Tensor tensor = require_constant(i, what);
  if (tensor.elements() != 1) fail("{} must be one number, but has {}", what, tensor.elements());
  return tensor.real(0);
}

// --- Attributes ---

const AttributeProto* Call::find(std::string_view name) const {
  if (!node_.attributes.empty() && !known_attributes_.contains(name)) known_attributes_.emplace(name);
  const auto attribute = std::ranges::find(node_.attributes, name, &AttributeProto::name);
  if (attribute == node_.attributes.end()) return nullptr;
  if (attribute->reference.empty()) return &*attribute;
  const auto given = frame_.attributes.find(attribute->reference);
  return given == frame_.attributes.end() ? nullptr : given->second;
}

const AttributeProto* Call::find(std::string_view name, AttributeProto::Kind kind) const {
  const AttributeProto* attribute = find(name);
  if (attribute && attribute->kind != kind) fail("its attribute '{}' has the wrong type", name);
  return attribute;
}

void Call::missing(std::string_view attribute) const { fail("its attribute '{}' is not given", attribute); }

int64_t Call::integer(std::string_view name, std::optional<int64_t> otherwise) const {
  if (const auto* a = find(name, AttributeProto::Kind::int_)) return a->i;
  if (!otherwise) missing(name);
  return *otherwise;
}

double Call::real(std::string_view name, std::optional<double> otherwise) const {
  if (const auto* a = find(name, AttributeProto::Kind::float_)) return a->f;
  if (!otherwise) missing(name);
  return *otherwise;
}

std::string Call::text(std::string_view name, std::optional<std::string_view> otherwise) const {
  if (const auto* a = find(name, AttributeProto::Kind::string)) return std::string(a->s);
  if (!otherwise) missing(name);
  return std::string(*otherwise);
}

std::vector<int64_t> Call::integers(std::string_view name, std::vector<int64_t> otherwise) const {
  const auto* a = find(name, AttributeProto::Kind::ints);
  return a ? a->ints : otherwise;
}

std::vector<double> Call::reals(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::floats);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : std::vector<double>();
}

std::vector<std::string> Call::texts(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::strings);
  return a ? std::vector<std::string>(a->strings.begin(), a->strings.end()) : std::vector<std::string>();
}

Tensor Call::tensor(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::tensor);
  if (!a) missing(name);
  return importer_.tensor(*a->t);
}

ElementType Call::tensor_type(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::tensor);
  if (!a) missing(name);
  return a->t->type;
}

Imported Call::leaf(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::tensor);
  if (!a) missing(name);
  return importer_.leaf(graph(), frame_.prefix + leaf_name(), *a->t);
}

std::string Call::leaf_name() const { return std::string(node_.outputs.empty() ? op() : node_.outputs[0]); }

Imported Call::leaf(const Tensor& tensor, ElementType type) const {
  return importer_.leaf(graph(), frame_.prefix + leaf_name(), tensor, type);
}

const GraphProto& Call::subgraph(std::string_view name) const {
  const auto* a = find(name, AttributeProto::Kind::graph);
  if (!a) missing(name);
  return *a->g;
}

ElementType Call::element_type(std::string_view name, std::optional<ElementType> otherwise) const {
  if (!has_attribute(name) && otherwise) return *otherwise;
  const int64_t number = integer(name);
  const auto type = number >= 0 && number <= kLastElementType ? element_type_of(static_cast<int32_t>(number))
                                                              : std::nullopt;
  if (!type) fail("its attribute '{}' is {}, which is no element type", name, number);
  return *type;
}

int64_t Call::normalized(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) fail("there is no axis {} in a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

int64_t Call::axis(std::string_view name, int64_t otherwise, int64_t rank) const {
  return normalized(integer(name, otherwise), rank);
}

std::optional<std::vector<int64_t>> Call::axes(int64_t input, int64_t rank) {
  std::vector<int64_t> out;
  if (has(input)) {
    out = numbers(input, "the list of axes");
  } else if (has_attribute("axes")) {
    out = integers("axes");
  } else {
    return std::nullopt;
  }
  for (int64_t& a : out) a = normalized(a, rank);
  std::vector<int64_t> sorted = out;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) fail("its list of axes has an axis twice");
  return out;
}

void Call::ignores(std::string_view names) const {
  std::istringstream words{std::string(names)};
  for (std::string word; words >> word;) known_attributes_.insert(word);
}

void Call::expect_known_attributes() const {
  if (node_.attributes.empty()) return;
  ignores("consumed_inputs");  // the oldest ops of all kinds say which memory they may overwrite
  // Other sets of ops grow without a new version.
  const bool own = Importer::is_own(node_.domain);
  expect_attributes(node_, known_attributes_, formatted("{} (opset {})", op(), opset_),
                    own ? ErrorKind::invalid_file : ErrorKind::unsupported);
}

// --- Outputs ---

bool Call::wants(int64_t i) const {
  return i < output_count() && !node_.outputs[static_cast<size_t>(i)].empty();
}

void Call::out(int64_t i, Value value, ElementType type) {
  if (i >= output_count()) return;  // nobody asked for it
  if (type == ElementType::uint64 && value.dtype() == DType::i64) {
    // Negative numbers leave the range of i64 here, which is noticed.
    value = cast(value + minimum(value, 0.0) * static_cast<double>(INT32_MIN), DType::u32);
  }
  check(value_dtype(value.dtype()) == carrier(type), "a rule makes values of the carrier of their type");
  outputs_[static_cast<size_t>(i)] = {.type = type, .value = std::move(value)};
}

void Call::out(int64_t i, Ints ints, ElementType type) {
  if (i < output_count()) outputs_[static_cast<size_t>(i)] = {.type = type, .ints = std::move(ints)};
}

void Call::out(int64_t i, Imported made) {
  if (i < output_count()) outputs_[static_cast<size_t>(i)] = std::move(made);
}

// --- Help for rules ---

Value Call::like(Value value, double number) const {
  return graph().scalar(value_dtype(value.dtype()), number);
}

DType Call::carried(ElementType type) const {
  const auto dtype = carrier(type);
  if (!dtype) {
    refuse(type == ElementType::string ? Refusal::not_a_tensor : Refusal::element_type,
           "the element type {} is not supported", to_string(type));
  }
  return type == ElementType::uint64 ? DType::i64 : *dtype;
}

Value Call::materialize(const Ints& ints, ElementType type) const {
  carried(type);  // or refused
  const DType dtype = *carrier(type);
  if (ints.is_static()) return graph().constant(Tensor::from_ints(dtype, ints.shape, ints.numbers()));
  // Each is a node of its own.
  if (std::ssize(ints.values) > kMaxSymbolic)
    refuse(Refusal::other, "it computes with {} sizes that are known only when it runs", ints.values.size());
  std::vector<Value> parts;
  for (const Dim& d : ints.values) parts.push_back(range(graph(), 1, d));
  const Value flat = parts.size() == 1 ? parts[0] : concat(parts, 0);
  return cast(reshape(flat, Shape(ints.shape)), dtype);
}

Value Call::wrapped(Value value, ElementType type, bool saturate) const {
  if (const auto format = small_float_format(type)) return round_to_format(value, *format, saturate);
  if (!is_narrowed(type)) return value;
  const DType dtype = value.dtype();
  const double range = static_cast<double>(int64_t{1} << bits_of(type));
  const Value wide = dtype == DType::i32 ? value : cast(value, DType::i32);
  Value low = bitwise_and(wide, range - 1);
  if (!is_unsigned(type)) low = bitwise_xor(low, range / 2) - range / 2;
  return dtype == DType::i32 ? low : cast(low, dtype);
}

}  // namespace rlx::onnx
