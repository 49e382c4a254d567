#include "cli/graph_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/fail.h"
#include "cli/progress.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "import/file_bytes.h"
#include "import/npy.h"
#include "import/onnx/model_file.h"
#include "ir/op.h"

namespace rlx::cli {
namespace {

// --- The inputs that are given ---

// An input of the model, as far as it is known before the model is loaded.
struct Declared {
  std::string name;
  onnx::ElementType type = onnx::ElementType::undefined;
  std::optional<std::vector<std::optional<int64_t>>> shape = {};  // numbers where they are fixed
  std::string shape_text = {};
  std::string encoding = {};  // of an encoded one, which is float32 to its readers
  bool sequence = false;      // then the rest is about its elements

  std::string text() const {
    return (encoding.empty() ? std::string(numpy_name(type)) : encoding) + shape_text;
  }
};

std::vector<Declared> declared_inputs(const Graph& graph) {
  std::vector<Declared> out;
  for (const Node& n : graph.nodes()) {
    if (!n.op->is(LeafKind::input)) continue;
    const TensorType& type = n.outputs[0];
    Declared d{.name = n.name, .type = onnx::element_type_of(type.dtype), .shape_text = type.shape.text()};
    if (is_encoded(type.dtype)) d.encoding = to_string(type.dtype);
    d.shape.emplace();
    for (const Dim& dim : type.shape)
      d.shape->push_back(dim.is_static() ? std::optional(dim.value()) : std::nullopt);
    out.push_back(std::move(d));
  }
  return out;
}

std::vector<Declared> declared_inputs(const onnx::GraphProto& graph) {
  std::vector<Declared> out;
  for (const onnx::ValueInfo& info : graph.inputs) {
    if (std::ranges::contains(graph.initializers, info.name, &onnx::TensorProto::name)) continue;
    Declared d{.name = std::string(info.name),
               .type = info.type,
               .sequence = info.kind == onnx::ValueInfo::Kind::sequence};
    if (info.shape) {
      const auto text = [](const onnx::DimProto& dim) {
        return dim.value ? std::to_string(*dim.value) : dim.param.empty() ? "?" : std::string(dim.param);
      };
      d.shape.emplace();
      for (const onnx::DimProto& dim : *info.shape) d.shape->push_back(dim.value);
      d.shape_text = formatted("[{}]", joined(*info.shape, text));
    }
    out.push_back(std::move(d));
  }
  return out;
}

// "frames" of "frames[3]"; nothing if it is not the name of an element.
std::optional<std::string> sequence_of(const std::string& name) {
  const size_t bracket = name.rfind('[');
  if (bracket == std::string::npos || !name.ends_with(']') || name.size() > bracket + 7) return std::nullopt;
  const std::string index = name.substr(bracket + 1, name.size() - bracket - 2);
  const bool digits =
      !index.empty() && std::ranges::all_of(index, [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || (index.size() > 1 && index[0] == '0')) return std::nullopt;
  return name.substr(0, bracket);
}

const Declared& find_input(const std::vector<Declared>& declared, const std::string& name) {
  const auto input = std::ranges::find(declared, name, &Declared::name);
  if (input != declared.end() && input->sequence) {
    throw Misuse(formatted("--input: '{}' is a sequence; give each of its tensors: --input '{}=FILE.npy'",
                           name, onnx::element_name(name, 0)));
  }
  if (input != declared.end()) return *input;
  if (const auto sequence = sequence_of(name)) {
    const auto whole = std::ranges::find(declared, *sequence, &Declared::name);
    if (whole != declared.end() && whole->sequence) return *whole;
  }
  throw Misuse(formatted("--input: the model has no input '{}'; its inputs are: {}", name,
                         joined(declared, &Declared::name)));
}

NpyArray open_input(const Declared& input, const std::string& path) {
  try {
    return open_npy(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    throw Misuse(formatted("the input '{}' is {}, but {}", input.name, input.text(), e.what()));
  }
}

std::map<std::string, NpyArray> open_archive(const std::string& path) {
  try {
    return open_npz(path);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::unsupported) throw;
    throw Misuse(formatted("--input: {}", e.what()));
  }
}

std::map<std::string, NpyArray> open_inputs(const std::vector<std::string>& items,
                                            const std::vector<Declared>& declared) {
  std::map<std::string, NpyArray> out;
  const auto add = [&](const std::string& name, NpyArray array) {
    if (!out.emplace(name, std::move(array)).second)
      throw Misuse(formatted("--input gives the input '{}' twice", name));
  };
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (item.ends_with(".npz")) {
      if (equals != std::string::npos && !std::filesystem::exists(item)) {
        throw Misuse(
            formatted("--input is '{}'; the arrays of an npz file have names of their own: --input {}", item,
                      item.substr(equals + 1)));
      }
      for (auto& [name, array] : open_archive(item)) add(name, std::move(array));
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size())
      throw Misuse(formatted("--input is '{}'; it must be NAME=FILE.npy or FILE.npz", item));
    const std::string name = item.substr(0, equals);
    add(name, open_input(find_input(declared, name), item.substr(equals + 1)));
  }
  return out;
}

bool fits(const Declared& input, const std::vector<int64_t>& shape) {
  if (!input.shape) return true;
  const auto same = [](int64_t given, std::optional<int64_t> fixed) { return !fixed || given == *fixed; };
  return std::ranges::equal(shape, *input.shape, same);
}

Tensor converted(const NpyArray& array, const Declared& input) {
  if (!fits(input, array.shape)) {
    throw Misuse(formatted("the input '{}' has the shape {}, but {} has {}", input.name, input.shape_text,
                           array.name, Shape(array.shape).text()));
  }
  if (!input.encoding.empty()) {
    throw Misuse(formatted("the input '{}' is {}, but {} has {}{}: NumPy's files have no encoded types",
                           input.name, input.text(), array.name, numpy_name(array.type),
                           Shape(array.shape).text()));
  }
  try {
    return array.as(input.type);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument) throw;
    throw Misuse(formatted("the input '{}': {}", input.name, e.what()));
  }
}

NamedTensors given_inputs(const std::vector<std::string>& items, const std::vector<Declared>& declared) {
  NamedTensors out;
  for (const auto& [name, array] : open_inputs(items, declared))
    out.emplace(name, converted(array, find_input(declared, name)));
  return out;
}

// --- The two forms ---

Model load_text(const ModelFlags& flags) {
  if (!flags.lengths.empty()) throw Misuse("--length is for ONNX models; a graph text has no sequences");
  if (flags.seed) throw Misuse("--seed is for ONNX models; in a graph text, seeds are inputs or constants");
  const FileBytes bytes(flags.file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  Model out;
  try {
    out.graph = parse_graph(text);
    verify(out.graph);
  } catch (const Error& e) {
    throw e.within(flags.file);
  }
  out.inputs = given_inputs(flags.inputs, declared_inputs(out.graph));
  return out;
}

// The values of --length.
std::map<std::string, std::optional<int64_t>, std::less<>> given_lengths(
    const std::vector<std::string>& items) {
  std::map<std::string, std::optional<int64_t>, std::less<>> out;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    const std::string text = equals == std::string::npos ? "" : item.substr(equals + 1);
    int64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const bool number = error == std::errc() && end == text.data() + text.size() && length >= 0;
    if (equals == 0 || text.empty() || (!number && text != "none"))
      throw Misuse(formatted(
          "--length is '{}'; it must be NAME=N, with a whole number of at least 0, or NAME=none for "
          "an optional",
          item));
    if (!out.emplace(item.substr(0, equals), number ? std::optional(length) : std::nullopt).second)
      throw Misuse(formatted("--length gives the input '{}' twice", item.substr(0, equals)));
  }
  return out;
}

// A file with control characters is taken for an ONNX model, whatever its name.
onnx::ModelFile open_onnx(const std::string& file) {
  try {
    return onnx::ModelFile::open(file);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_file || !file.ends_with(".rlx")) throw;
    throw Error(e.kind(),
                formatted("{}; nor is it the text of a graph, which has no control characters", e.what()));
  }
}

// Errors that the flags have made are misuse.
onnx::Model load_for(const ModelFlags& flags, onnx::ModelFile file, const onnx::LoadOptions& options) {
  try {
    return onnx::load(std::move(file), options);
  } catch (const onnx::RefusedFile& e) {
    const auto lacks_value = [](const onnx::ImportProblem& p) { return p.why == onnx::Refusal::host_value; };
    if (!std::ranges::all_of(e.problems(), lacks_value)) throw;
    throw Misuse(
        formatted("{}\ngive such inputs with --input NAME=FILE.npy, the lengths of sequences with --length "
                  "NAME=N",
                  e.what()));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::invalid_argument || flags.lengths.empty()) throw;
    throw Misuse(formatted("--length: {}", e.what()));
  }
}

Model load_onnx(const ModelFlags& flags, const SymbolValues& sizes) {
  onnx::ModelFile file = open_onnx(flags.file);
  const onnx::LoadOptions options{.values = given_inputs(flags.inputs, declared_inputs(file.model.graph)),
                                  .sizes = sizes,
                                  .lengths = given_lengths(flags.lengths),
                                  .seed = flags.seed.value_or(0)};
  onnx::Model model = load_for(flags, std::move(file), options);
  Model out{.graph = std::move(model.graph),
            .weights = std::move(model.weights),
            .fixed_inputs = std::move(model.fixed_inputs),
            .fixed_symbols = std::move(model.fixed_symbols)};
  for (const auto& [name, type] : model.carried) out.types.emplace(name, onnx::element_type_of(type).value());
  for (const auto& [name, value] : options.values) {
    if (out.fixed_inputs.contains(name)) continue;
    if (out.graph.find(name) < 0)
      throw Misuse(
          formatted("--input: there is no '{}' in a sequence of the length that --length gives", name));
    out.inputs.emplace(name, value);
  }
  return out;
}

}  // namespace

void ModelFlags::add_to(Command& command) {
  command.required("FILE", file, "An ONNX model, or a graph in its text form; - is standard input");
  add_inputs_to(command);
}

void ModelFlags::add_inputs_to(Command& command) {
  command.list("--input", inputs, "The value of an input, or those of several from an npz file",
               {.value = "NAME=FILE.npy|FILE.npz"});
  command.list(
      "--length", lengths,
      "How many tensors an input has that is a sequence (NAME[0], NAME[1] ... are inputs then); none for an "
      "optional that holds nothing",
      {.value = "NAME=N"});
  command.seed("--seed", seed,
               "The seed of an ONNX model's nodes that draw random numbers and have none (default 0)");
}

void ModelFlags::take_standard_input() {
  cli::take_standard_input(file);
  for (std::string& item : inputs) {
    if (!item.ends_with("=-")) continue;
    std::string path = "-";
    cli::take_standard_input(path);
    item.replace(item.size() - 1, 1, path);
  }
}

std::vector<std::string> ModelFlags::files() const {
  std::vector<std::string> out = {file};
  for (const std::string& item : inputs) {
    out.push_back(item);
    if (const size_t equals = item.find('='); equals != std::string::npos)
      out.push_back(item.substr(equals + 1));
  }
  return out;
}

bool ModelFlags::is_onnx() const {
  if (file.empty()) throw Misuse("the name of the file is empty");
  const FileBytes bytes(file);
  const auto start = bytes.bytes().first(std::min<size_t>(bytes.bytes().size(), 4096));
  if (start.empty()) fail(ErrorKind::invalid_file, "{}: the file is empty", file);
  // Texts have line ends and tabs, but no other control characters; an ONNX file begins with one.
  return std::ranges::any_of(start, [](std::byte b) {
    const auto c = static_cast<unsigned char>(b);
    return c < ' ' && c != '\n' && c != '\r' && c != '\t';
  });
}

Model ModelFlags::load(const SymbolValues& sizes) const {
  const bool onnx = is_onnx();
  const Progress progress(formatted("loading {}", short_name(file)));
  return onnx ? load_onnx(*this, sizes) : load_text(*this);
}

onnx::Info ModelFlags::inspect(const SymbolValues& sizes) const {
  const Progress progress(formatted("loading {}", short_name(file)));
  const onnx::ModelFile model = open_onnx(file);
  onnx::LoadOptions options{.values = given_inputs(inputs, declared_inputs(model.model.graph)),
                            .lengths = given_lengths(lengths)};
  for (const auto& [name, size] : sizes) options.symbols[name] = size;
  return onnx::inspect(file, options);
}

}  // namespace rlx::cli
