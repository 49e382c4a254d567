#include "measure/conformance.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <memory>
#include <optional>

#include "base/fail.h"
#include "import/onnx/model_file.h"
#include "ir/tolerance.h"
#include "rlx/compile.h"

namespace rlx::measure {
namespace {

namespace fs = std::filesystem;
using onnx::ElementType;
using onnx::Refusal;

// ONNX's own, in the order in which they are shown; a folder may have others.
constexpr std::string_view kKnownSuites[] = {"node", "simple", "pytorch-converted", "pytorch-operator",
                                             "light"};

// --- The files of a case ---

using TypedTensor = std::pair<Tensor, ElementType>;

// A file of a case: a tensor, the tensors of a sequence, or an optional, which may hold nothing.
struct Stored {
  std::vector<TypedTensor> tensors;
  bool sequence = false;
  bool absent = false;
};

struct Data {
  NamedTensors inputs;
  std::map<std::string, std::optional<int64_t>, std::less<>> lengths;  // of inputs that are no tensors
  std::vector<Stored> outputs;
};

fs::directory_iterator entries_of(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator out(folder, error);
  if (error)
    fail(ErrorKind::invalid_file, "the folder '{}' cannot be read: {}", folder.string(), error.message());
  return out;
}

std::vector<ConformanceCase> all_cases_of(const fs::path& folder) {
  std::vector<ConformanceCase> out;
  for (const auto& entry : entries_of(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".onnx") {
      fs::path expected = path;
      expected.replace_filename(path.stem().string() + "_output_0.pb");
      out.push_back({.name = path.stem().string(), .model = path, .data = {}, .output = expected});
    } else if (fs::exists(path / "model.onnx")) {
      ConformanceCase c{.name = path.filename().string(), .model = path / "model.onnx", .data = {}};
      for (const auto& set : entries_of(path)) {
        if (set.is_directory()) c.data.push_back(set.path());
      }
      std::ranges::sort(c.data);
      out.push_back(std::move(c));
    }
  }
  std::ranges::sort(out, {}, &ConformanceCase::name);
  return out;
}

Stored read_stored(const fs::path& path, const onnx::ValueInfo& info) {
  const auto bytes = std::make_shared<const FileBytes>(path.string());
  onnx::TensorData data(bytes, "");
  const bool is_sequence = info.kind == onnx::ValueInfo::Kind::sequence;
  onnx::OptionalProto proto;
  if (info.optional) {
    proto = onnx::parse_optional(bytes->bytes(), path.string());
  } else if (is_sequence) {
    proto.sequence = onnx::parse_sequence(bytes->bytes(), path.string());
  } else {
    proto.tensor = onnx::parse_tensor(bytes->bytes(), path.string());
  }
  Stored out{.tensors = {}, .sequence = is_sequence, .absent = !proto.tensor && !proto.sequence};
  if (proto.tensor) proto.sequence = {*proto.tensor};
  for (const onnx::TensorProto& t : proto.sequence.value_or(std::vector<onnx::TensorProto>()))
    out.tensors.emplace_back(data.tensor(t), t.type);
  return out;
}

std::vector<const onnx::ValueInfo*> given_inputs(const onnx::GraphProto& graph) {
  std::vector<const onnx::ValueInfo*> out;
  for (const onnx::ValueInfo& info : graph.inputs) {
    if (!std::ranges::contains(graph.initializers, info.name, &onnx::TensorProto::name)) out.push_back(&info);
  }
  return out;
}

// The names in our graph of what a file holds.
std::vector<std::string> names_of(std::string_view name, const Stored& stored) {
  std::vector<std::string> out;
  for (size_t i = 0; i < stored.tensors.size(); ++i) {
    out.push_back(stored.sequence ? onnx::element_name(name, static_cast<int64_t>(i)) : std::string(name));
  }
  return out;
}

Data read_data(const fs::path& folder, const onnx::GraphProto& graph) {
  Data data;
  const std::vector<const onnx::ValueInfo*> inputs = given_inputs(graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const fs::path path = folder / formatted("input_{}.pb", i);
    if (!fs::exists(path)) continue;
    const Stored stored = read_stored(path, *inputs[i]);
    const std::string name(inputs[i]->name);
    const std::vector<std::string> names = names_of(name, stored);
    for (size_t k = 0; k < names.size(); ++k) data.inputs.emplace(names[k], stored.tensors[k].first);
    if (stored.absent) {
      data.lengths[name] = std::nullopt;
    } else if (stored.sequence) {
      data.lengths[name] = std::ssize(names);
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    data.outputs.push_back(read_stored(folder / formatted("output_{}.pb", i), graph.outputs[i]));
  }
  return data;
}

Data light_data(const ConformanceCase& c, const onnx::GraphProto& graph) {
  Data data;
  for (const onnx::ValueInfo& info : graph.inputs) {
    if (std::ranges::contains(graph.initializers, info.name, &onnx::TensorProto::name)) continue;
    std::vector<int64_t> shape;
    for (const onnx::DimProto& d : info.shape.value()) shape.push_back(d.value.value_or(1));
    const auto n = static_cast<size_t>(Shape(shape).elements().value());
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(n));
    data.inputs.emplace(info.name, Tensor::of(shape, values));
  }
  data.outputs.push_back(read_stored(c.output, graph.outputs[0]));
  return data;
}

// --- Judging ---

// What is wrong with the values of an output; empty if nothing is.
// `largest_share` of the largest number is allowed too: sums of a Fourier transform are rounded relative to
// that.
std::string compare(const std::string& name, const Tensor& got, const Tensor& want, double largest_share) {
  double largest = 0;
  for (int64_t i = 0; largest_share > 0 && i < want.elements(); ++i)
    if (const double size = std::abs(want.complex(i)); std::isfinite(size)) largest = std::max(largest, size);
  const double unit = want.dtype() == DType::f16 ? 0x1p-10 : want.dtype() == DType::bf16 ? 0x1p-7 : 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const std::complex<double> g = got.complex(i);
    const std::complex<double> w = want.complex(i);
    const double apart = std::hypot(difference(g.real(), w.real()), difference(g.imag(), w.imag()));
    if (apart == 0) continue;
    const bool exact = !is_float(want.dtype()) && want.dtype() != DType::c64;
    const double allowed = std::max(kConformanceAbsolute, largest_share * largest) +
                           std::max(kConformanceRelative, unit) * std::abs(w);
    if (exact || !std::isfinite(apart) || apart > allowed) {
      return formatted("element {} of the output '{}' ({}) is {:.9g} instead of {:.9g}", i, name,
                       want.type_text(), g.real(), w.real());
    }
  }
  return {};
}

// What ONNX's tests may be refused for; anything else counts as wrong.
std::optional<std::string> honest_reason(const onnx::ImportProblem& p) {
  switch (p.why) {
    case Refusal::missing_op:
      return "op " + p.op;
    case Refusal::element_type:
      return "type " + p.reason.substr(0, p.reason.find(','));
    case Refusal::not_a_tensor:
      return "strings";
    case Refusal::foreign_domain:
      return "domain " + p.op.substr(0, p.op.rfind('.'));
    case Refusal::host_value:
    case Refusal::other:
      return std::nullopt;
  }
  return std::nullopt;
}

ConformanceResult refused(const ConformanceCase& c, const std::vector<onnx::ImportProblem>& problems) {
  const onnx::ImportProblem& first = problems[0];
  const std::string text = formatted("{} ({}): {}", first.node, first.op, first.reason);
  const auto reason = honest_reason(first);
  for (const onnx::ImportProblem& p : problems) {
    if (!honest_reason(p)) return {c.name, Outcome::wrong, formatted("{} ({}): {}", p.node, p.op, p.reason)};
  }
  return {c.name, Outcome::refused, text, reason.value_or("")};
}

// What is wrong with the outputs: their types, or else a value.
struct Difference {
  std::string type = {};
  std::string value = {};
};

// Whether an output is as many tensors as it should be; what is wrong if not.
std::string compare_length(const std::string& name, const onnx::Imports& imports, const Stored& want) {
  const auto text = [](bool is_list, std::optional<int64_t> length) {
    if (!is_list) return std::string("a tensor");
    return length ? formatted("a sequence of {}", *length) : std::string("an optional that holds nothing");
  };
  const auto it = imports.lengths.find(name);
  const bool is_list = it != imports.lengths.end();
  const std::string got = text(is_list, is_list ? it->second : std::nullopt);
  const std::string wanted = text(want.sequence || want.absent,
                                  want.absent ? std::nullopt : std::optional(std::ssize(want.tensors)));
  return got == wanted ? "" : formatted("the output '{}' is {} instead of {}", name, got, wanted);
}

// What is wrong with one output, by its name in our graph.
Difference compare_output(const std::string& name, const onnx::Imports& imports, const NamedTensors& outputs,
                          const TypedTensor& wanted, double largest_share) {
  const auto& [want, type] = wanted;
  if (imports.types.at(name) != type) {
    return {formatted("the output '{}' is {} instead of {}", name, to_string(imports.types.at(name)),
                      to_string(type))};
  }
  const Tensor& got = outputs.at(name);
  if (got.shape() != want.shape() || got.dtype() != want.dtype())
    return {formatted("the output '{}' is {} instead of {}", name, got.type_text(), want.type_text())};
  return {.value = compare(name, got, want, largest_share)};
}

Difference run_and_compare(const onnx::GraphProto& graph, onnx::Imports& imports, const Data& data,
                           const Device& device, double largest_share) {
  Executable exe = compile(imports.graph, device);
  exe.set_params(imports.weights);
  NamedTensors inputs;
  for (const TensorInfo& info : exe.inputs()) {
    const auto it = data.inputs.find(info.name);
    if (it == data.inputs.end()) return {formatted("there is no value for the input '{}'", info.name)};
    inputs.emplace(info.name, it->second);
  }
  const NamedTensors outputs = exe.run(inputs);
  Difference out;
  for (size_t i = 0; i < data.outputs.size(); ++i) {
    const std::string name(graph.outputs[i].name);
    if (std::string wrong = compare_length(name, imports, data.outputs[i]); !wrong.empty()) return {wrong};
    const std::vector<std::string> names = names_of(name, data.outputs[i]);
    for (size_t k = 0; k < names.size(); ++k) {
      Difference one = compare_output(names[k], imports, outputs, data.outputs[i].tensors[k], largest_share);
      if (!one.type.empty()) return one;
      if (out.value.empty()) out.value = std::move(one.value);
    }
  }
  return out;
}

// Tests whose data contradict ONNX's text: QLinearMatMul saturates, but there -236 is expected to be 20. ONNX
// Runtime leaves them out as well.
constexpr std::string_view kDisputed[] = {
    "test_qlinearmatmul_2D_int8_float16", "test_qlinearmatmul_2D_int8_float32",
    "test_qlinearmatmul_3D_int8_float16", "test_qlinearmatmul_3D_int8_float32"};
constexpr const char* kDisputedReason = "expected data that contradict ONNX's text";

ConformanceResult run_case(const ConformanceCase& c, const Device& device) {
  onnx::ModelFile file = onnx::ModelFile::open(c.model.string());
  const size_t sets = c.output.empty() ? c.data.size() : 1;
  for (size_t i = 0; i < sets; ++i) {
    Data data;
    onnx::ImportOptions options;
    const std::vector<onnx::ImportProblem> problems =
        onnx::import_model(file.model, file.data, options).problems;
    const auto not_tensors = [](const onnx::ImportProblem& p) {
      return p.why == Refusal::not_a_tensor || p.why == Refusal::element_type ||
             p.why == Refusal::foreign_domain;
    };
    // Before its data is read, which may not be tensors.
    if (std::ranges::any_of(problems, not_tensors)) {
      std::vector<onnx::ImportProblem> these = problems;
      std::erase_if(these, [](const onnx::ImportProblem& p) { return p.why == Refusal::host_value; });
      return refused(c, these);
    }
    data = c.output.empty() ? read_data(c.data[i], file.model.graph) : light_data(c, file.model.graph);
    options.values = data.inputs;
    options.lengths = data.lengths;
    onnx::Imports imports = onnx::import_model(file.model, file.data, options);
    if (!imports.problems.empty()) return refused(c, imports.problems);
    const bool spectral = std::ranges::any_of(
        file.model.graph.nodes, [](const onnx::NodeProto& n) { return n.op == "DFT" || n.op == "STFT"; });
    const Difference wrong = run_and_compare(file.model.graph, imports, data, device, spectral ? 0x1p-22 : 0);
    if (!wrong.type.empty()) return {c.name, Outcome::wrong, wrong.type};
    // Another generator made the data: types and shapes are all that can agree.
    if (!wrong.value.empty() && imports.random)
      return {c.name, Outcome::refused, "its outputs are other random numbers", "random numbers"};
    if (!wrong.value.empty() && std::ranges::contains(kDisputed, c.name))
      return {c.name, Outcome::refused, wrong.value, kDisputedReason};
    if (!wrong.value.empty()) return {c.name, Outcome::wrong, wrong.value};
  }
  return {c.name, Outcome::passed};
}

}  // namespace

std::vector<std::string> conformance_suites(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : entries_of(folder)) {
    if (entry.is_directory() && !all_cases_of(entry.path()).empty())
      out.push_back(entry.path().filename().string());
  }
  const auto place = [](const std::string& name) {
    return std::ranges::find(kKnownSuites, name) - kKnownSuites;
  };
  std::ranges::sort(out, {}, [&](const std::string& name) { return std::pair(place(name), name); });
  return out;
}

std::vector<ConformanceCase> conformance_cases(const fs::path& suite, const ConformanceFilter& filter) {
  std::vector<ConformanceCase> all = all_cases_of(suite);
  std::erase_if(all, [&](const ConformanceCase& c) { return c.name.find(filter.only) == std::string::npos; });
  std::vector<ConformanceCase> out;
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(filter.every)) out.push_back(std::move(all[i]));
  return out;
}

ConformanceResult run_conformance_case(const ConformanceCase& c, const Device& device) {
  try {
    return run_case(c, device);
  } catch (const onnx::Refused& e) {
    const onnx::ImportProblem problem{e.why(), c.name, "data", e.what()};
    return refused(c, {problem});
  } catch (const Error& e) {
    return {c.name, Outcome::wrong, e.what()};
  }
}

}  // namespace rlx::measure
