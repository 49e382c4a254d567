// The importer, inputs and outputs of a model: their shapes, the symbols in these, and the seed as an input.
#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/fail.h"
#include "import/onnx/call.h"
#include "import/onnx/importer.h"
#include "import/onnx/importer_parts.h"

namespace rlx::onnx {
namespace {

// Exporters write sums and products of names too. Nothing if it is no text for a dimension.
std::optional<Dim> parsed_dim(const std::string& text) {
  try {
    return Dim::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

// The symbols that texts of dimensions mean, before any is made up.
void Importer::collect_input_symbols() {
  for (const ValueInfo& info : model_.graph.inputs) {
    for (const DimProto& d : info.shape.value_or(std::vector<DimProto>())) {
      if (d.value || d.param.empty()) continue;
      if (const auto dim = parsed_dim(std::string(d.param))) dim->collect_symbols(symbols_);
    }
  }
}

std::string Importer::fresh_symbol(std::string_view what) {
  std::string name;
  for (const char c : what) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || !parsed_dim(name))
    name = "_" + name;
  const std::string wanted = name;
  while (!symbols_.insert(name).second) name = formatted("{}_{}", wanted, ++numbering_[wanted]);
  return name;
}

// The same text is the same size, and texts that are no names are different ones.
Dim Importer::symbol(const std::string& text) {
  const auto [it, fresh] = named_dims_.try_emplace(text);
  if (fresh) {
    const auto dim = parsed_dim(text);
    it->second = dim ? *dim : Dim::symbol(fresh_symbol(text));
  }
  return it->second;
}

// Elements of a sequence whose values are given may differ in a size that has one name in the file.
void Importer::collect_varying_sizes() {
  for (const ValueInfo& info : model_.graph.inputs) {
    if (info.kind != ValueInfo::Kind::sequence || !info.shape) continue;
    const auto first = options_.values.find(element_name(info.name, 0));
    if (first == options_.values.end()) continue;
    for (int64_t i = 1;; ++i) {
      const auto other = options_.values.find(element_name(info.name, i));
      if (other == options_.values.end()) break;
      const std::vector<int64_t>& a = first->second.shape();
      const std::vector<int64_t>& b = other->second.shape();
      for (size_t k = 0; k < info.shape->size() && k < a.size() && k < b.size(); ++k) {
        if (a[k] != b[k]) varying_.emplace((*info.shape)[k].param);
      }
    }
  }
}

Shape Importer::input_shape(const ValueInfo& info, const std::string& name, std::optional<int64_t> index) {
  const auto given = options_.values.find(name);
  if (!info.shape) {
    if (given == options_.values.end())
      throw Refused(Refusal::host_value, formatted("the input '{}' has no shape in the file", excerpt(name)));
    return Shape(given->second.shape());
  }
  Shape shape;
  for (size_t i = 0; i < info.shape->size(); ++i) {
    const DimProto& d = (*info.shape)[i];
    if (d.value) {
      if (*d.value < 0)
        fail(ErrorKind::invalid_file, "the input '{}' has a dimension of {}", excerpt(info.name), *d.value);
      shape.push_back(Dim(*d.value));
    } else if (!d.param.empty()) {
      const bool varies = index && varying_.contains(d.param);
      shape.push_back(symbol(varies ? formatted("{}_{}", d.param, *index) : std::string(d.param)));
    } else {
      shape.push_back(Dim::symbol(fresh_symbol(formatted("{}_{}", name, i))));
    }
  }
  for (const auto& [symbol_name, dim] : options_.symbols) {
    for (int64_t i = 0; i < shape.rank(); ++i) shape[i] = shape[i].replace(symbol_name, dim);
  }
  return shape;
}

void Importer::declare_inputs() {
  std::set<std::string_view> names;
  for (const ValueInfo& info : model_.graph.inputs) {
    if (info.name.empty()) fail(ErrorKind::invalid_file, "an input has no name");
    if (!names.insert(info.name).second)
      fail(ErrorKind::invalid_file, "there are two inputs '{}'", excerpt(info.name));
    if (scope_.values.contains(info.name)) continue;  // an initializer is its value
    Imported in;
    try {
      in = declare_input(info);
    } catch (const Refused& e) {
      problems_.push_back({e.why(), std::string(info.name), "input", e.what()});
      in = {.type = info.type, .failed = true};
    }
    scope_.values.emplace(info.name, std::move(in));
  }
}

// An optional is taken to hold something unless it is said that it does not.
Imported Importer::declare_input(const ValueInfo& info) {
  const std::string name(info.name);
  if ((info.kind != ValueInfo::Kind::tensor && info.kind != ValueInfo::Kind::sequence) ||
      info.type == ElementType::string)
    throw Refused(Refusal::not_a_tensor, "it is not a tensor of numbers");
  const auto given = options_.lengths.find(name);
  if (given != options_.lengths.end() && !given->second) {
    lengths_[name] = std::nullopt;
    return {.type = info.type, .absent = true};
  }
  if (info.kind == ValueInfo::Kind::tensor) return declare_tensor(info, name, {});
  const int64_t length = given_length(info);
  std::vector<Imported> elements;
  for (int64_t i = 0; i < length; ++i) elements.push_back(declare_tensor(info, element_name(name, i), i));
  lengths_[name] = length;
  return Imported::sequence(std::move(elements), info.type);
}

// That is given, or that of the values that are.
int64_t Importer::given_length(const ValueInfo& info) const {
  const std::string name(info.name);
  const auto given = options_.lengths.find(name);
  int64_t length = given == options_.lengths.end() ? 0 : *given->second;
  if (given == options_.lengths.end()) {
    while (options_.values.contains(element_name(name, length))) ++length;
    if (length == 0)
      throw Refused(Refusal::host_value,
                    formatted("it is a sequence, whose length must be given with the model, or the values of "
                              "its elements '{}', '{}' and so on",
                              excerpt(element_name(name, 0)), excerpt(element_name(name, 1))));
  }
  if (length > kMaxSequence)
    fail(ErrorKind::invalid_argument, "the input '{}' has {} tensors; {} are the most", excerpt(name), length,
         kMaxSequence);
  return length;
}

Imported Importer::declare_tensor(const ValueInfo& info, const std::string& name,
                                  std::optional<int64_t> index) {
  const auto dtype = carrier(info.type);
  if (!dtype)
    throw Refused(Refusal::element_type,
                  formatted("the element type {} is not supported", to_string(info.type)));
  if (!types_.emplace(name, info.type).second)
    fail(ErrorKind::invalid_file, "there are two inputs '{}'", excerpt(name));
  if (index) {
    if (weights_.contains(name))
      fail(ErrorKind::invalid_file, "an element of an input and an initializer are both named '{}'",
           excerpt(name));
    make_free(graph_, name);
  }
  Imported in{.type = info.type};
  const auto host = host_inputs_.find(name);
  if (host == host_inputs_.end()) {
    in.value = graph_.input(name, *dtype, input_shape(info, name, index));
    return in;
  }
  const Tensor& value = host->second;
  if (!is_float(info.type) && value.elements() <= kMaxInts && value.dtype() != DType::c64) {
    const std::vector<int64_t> numbers = value.integers();
    in.ints = Ints{value.shape(), {numbers.begin(), numbers.end()}};
  } else {
    in.value = graph_.constant(value, name);
  }
  return in;
}

void Importer::check_given_lengths() const {
  for (const auto& [name, length] : options_.lengths) {
    const auto info = std::ranges::find(model_.graph.inputs, name, &ValueInfo::name);
    const bool fits = info != model_.graph.inputs.end() &&
                      (length ? info->kind == ValueInfo::Kind::sequence : info->optional);
    if (!fits)
      fail(ErrorKind::invalid_argument, "no input named '{}' is {}", excerpt(name),
           length ? "a sequence, which could have a length" : "an optional, which could hold nothing");
    if (length && (*length < 0 || *length > kMaxSequence))
      fail(ErrorKind::invalid_argument, "the length of the input '{}' is {}; it must be 0 to {}",
           excerpt(name), *length, kMaxSequence);
  }
}

void Importer::check_given_symbols() const {
  for (const auto& [name, dim] : options_.symbols) {
    if (symbols_.contains(name)) continue;
    fail(ErrorKind::invalid_argument, "the inputs have no symbol named '{}'{}", excerpt(name),
         symbols_.empty() ? "" : formatted("; they have: {}", excerpt(joined(symbols_), 500)));
  }
}

void Importer::declare_outputs() {
  if (model_.graph.outputs.empty()) fail(ErrorKind::invalid_file, "the model has no outputs");
  std::set<std::string> names;
  for (const ValueInfo& info : model_.graph.outputs) {
    const auto it = scope_.values.find(info.name);
    if (it == scope_.values.end()) {
      fail(ErrorKind::invalid_file, "the output '{}' is not the output of any node", excerpt(info.name));
    }
    if (it->second.failed) continue;
    declare_output(std::string(info.name), it->second, names);
  }
  if (graph_.outputs().empty() && problems_.empty())
    problems_.push_back(
        {Refusal::other, "", "output", "its outputs are sequences and optionals without elements"});
}

void Importer::declare_output(const std::string& name, Imported value, std::set<std::string>& names) {
  if (!names.insert(name).second) fail(ErrorKind::invalid_file, "there are two outputs '{}'", excerpt(name));
  Frame frame{.scope = scope_, .opsets = model_.opsets};
  materialize(frame, value);
  if (value.is_tensor()) {
    types_[name] = value.type;
    graph_.output(name, value.value);
    return;
  }
  lengths_[name] = value.absent ? std::nullopt : std::optional(std::ssize(*value.elements));
  for (int64_t i = 0; i < lengths_[name].value_or(0); ++i)
    declare_output(element_name(name, i), (*value.elements)[static_cast<size_t>(i)], names);
}

// --- Random numbers ---

Importer::Stream Importer::draw(Frame& frame, std::optional<uint64_t> seed) {
  random_ = true;
  if (seed) return {*seed};
  if (options_.seed_input.empty()) return {options_.seed, streams_++};
  return {seed_input(frame.scope), streams_++};
}

Value Importer::seed_input(Scope& scope) {
  const std::string& name = options_.seed_input;
  if (!seed_) {
    if (scope_.values.contains(name))
      fail("the model has a value named '{}', so that no input for the seed can have this name", name);
    make_free(graph_, name);
    seed_ = graph_.input(name, DType::u32, {2});
    types_[name] = ElementType::uint32;
    scope_.values.emplace(name, Imported{.type = ElementType::uint32, .value = seed_});
  }
  if (scope.graph == &graph_) return seed_;
  const Scope* outermost = &scope;
  while (outermost->outer) outermost = outermost->outer;
  if (outermost != &scope_)
    throw Refused(Refusal::other, "in a function that a sub-graph calls, no seed can come from an input");
  return find(scope, name)->value;
}

}  // namespace rlx::onnx
