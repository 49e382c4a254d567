// The importer, inputs and outputs of a model: their shapes, the symbols in these, and the seed as an input.
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

Shape Importer::input_shape(const ValueInfo& info) {
  const auto given = options_.values.find(info.name);
  if (!info.shape) {
    if (given == options_.values.end())
      throw Refused(Refusal::host_value,
                    formatted("the input '{}' has no shape in the file", excerpt(info.name)));
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
      shape.push_back(symbol(std::string(d.param)));
    } else {
      shape.push_back(Dim::symbol(fresh_symbol(formatted("{}_{}", info.name, i))));
    }
  }
  for (const auto& [name, dim] : options_.symbols) {
    for (int64_t i = 0; i < shape.rank(); ++i) shape[i] = shape[i].replace(name, dim);
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
    Imported in{.type = info.type};
    try {
      if (info.kind != ValueInfo::Kind::tensor || info.type == ElementType::string)
        throw Refused(Refusal::not_a_tensor, "it is not a tensor of numbers");
      const auto dtype = carrier(info.type);
      if (!dtype)
        throw Refused(Refusal::element_type,
                      formatted("the element type {} is not supported", to_string(info.type)));
      if (const auto host = host_inputs_.find(info.name); host != host_inputs_.end()) {
        const Tensor& value = host->second;
        if (!is_float(info.type) && value.elements() <= kMaxInts && value.dtype() != DType::c64) {
          const std::vector<int64_t> numbers = value.integers();
          in.ints = Ints{value.shape(), {numbers.begin(), numbers.end()}};
        } else {
          in.value = graph_.constant(value, std::string(info.name));
        }
      } else {
        in.value = graph_.input(std::string(info.name), *dtype, input_shape(info));
      }
    } catch (const Refused& e) {
      problems_.push_back({e.why(), std::string(info.name), "input", e.what()});
      in.failed = true;
    }
    types_[std::string(info.name)] = info.type;
    scope_.values.emplace(info.name, std::move(in));
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
  std::set<std::string_view> names;
  for (const ValueInfo& info : model_.graph.outputs) {
    if (!names.insert(info.name).second)
      fail(ErrorKind::invalid_file, "there are two outputs '{}'", excerpt(info.name));
    const auto it = scope_.values.find(info.name);
    if (it == scope_.values.end()) {
      fail(ErrorKind::invalid_file, "the output '{}' is not the output of any node", excerpt(info.name));
    }
    Imported& v = it->second;
    if (v.failed) continue;
    Frame frame{.scope = scope_, .opsets = model_.opsets};
    if (!v.value) v.value = Call(*this, frame, NodeProto()).materialize(*v.ints, v.type);
    types_[std::string(info.name)] = v.type;
    graph_.output(std::string(info.name), v.value);
  }
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
