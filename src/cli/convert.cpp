#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "import/new_file.h"
#include "import/safetensors_writer.h"
#include "rlx/safetensors.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelFlags model;
  std::string output;
  ReportFlags report;
};

// The weights go beside the text; a text on standard output has none.
std::string weights_file(const Options& o) {
  if (o.output == "-") return "";
  const fs::path text = o.output;
  const fs::path weights = fs::path(text).replace_extension(".safetensors");
  if (text == weights || text.stem().empty())
    throw Misuse(
        formatted("--output is '{}'; it must be the name of a text file, such as model.rlx", o.output));
  return weights.string();
}

struct Converted {
  int64_t nodes = 0, params = 0, bytes = 0;
};

// Both are written before either has its name.
void write_both(const Options& o, const std::string& weights_path, const Model& model) {
  NewFile text(o.output);
  text.write(rlx::to_text(model.graph));
  if (!model.weights.empty()) {
    NewFile weights(weights_path);
    write_safetensors(weights, model.weights);
    weights.commit();
  }
  text.commit();
}

void show(const Options& o, const std::string& weights_path, const Converted& made) {
  print(formatted("wrote {}, {} nodes\n", o.output, made.nodes));
  if (made.params == 0) return;
  print(formatted("wrote {}, {} params, {}\nrun it with: rlx run {} --load {}\n", weights_path, made.params,
                  bytes_text(made.bytes), o.output, weights_path));
}

// The user has not typed this name: what is there is replaced only if it is an older form of the same.
void check_weights(const std::string& path, const NamedTensors& weights) {
  if (weights.empty() || path.empty() || !fs::is_regular_file(path) || fs::file_size(path) == 0) return;
  const SafetensorsFile before = SafetensorsFile::open(path);
  std::vector<std::string> names;
  for (const SafetensorsFile::Entry& t : before.tensors()) names.push_back(t.name);
  const bool same = names.size() == weights.size() &&
                    std::ranges::all_of(names, [&](const std::string& n) { return weights.contains(n); });
  if (same) return;
  throw Misuse(
      formatted("--output: the weights would go to '{}', which exists and has other tensors than this model "
                "({}); it is "
                "not overwritten",
                path, excerpt(joined(names), 100)));
}

void convert(const Options& o) {
  const std::string weights = weights_file(o);
  const std::vector<OutputFile> outputs =
      o.report.outputs({{"--output", o.output, FileKind::graph_text},
                        {"the weights of --output", weights, FileKind::safetensors}});
  check_outputs(outputs, o.model.files());
  const Model model = o.model.load();
  check_outputs(outputs, o.model.files());  // external data is known now
  check_weights(weights, model.weights);
  Converted made{.nodes = model.graph.size(), .params = std::ssize(model.weights)};
  for (const auto& [name, value] : model.weights) made.bytes += static_cast<int64_t>(value.byte_size());
  if (o.output == "-") {
    print(rlx::to_text(model.graph));
    if (made.params > 0)
      note(formatted("the {} params of the model are not written: they need -o FILE.rlx", made.params));
  } else {
    const Progress progress(formatted("writing {}", short_name(o.output)));
    write_both(o, weights, model);
  }
  Json report = Json::object({{"file", with_shown_names(o.model.file)},
                              {"text", o.output},
                              {"nodes", made.nodes},
                              {"params", made.params},
                              {"weight_bytes", made.bytes}});
  if (made.params > 0 && !weights.empty()) report.set("weights", weights);
  o.report.write(report);
  if (!o.report.only_json() && o.output != "-") show(o, weights, made);
}

}  // namespace

void add_convert(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("convert", "Writes an ONNX model as a graph text and its weights");
  o->model.add_to(command);
  command.required("-o,--output", o->output,
                   "The text to write; the weights go beside it, as .safetensors. - prints the text alone",
                   {.value = "FILE"});
  o->report.add_to(command, "what was written");
  command.footer(
      "Inputs that decide a shape become part of the text: give them with --input.\n"
      "\n"
      "Examples:\n"
      "  rlx convert model.onnx -o model.rlx\n"
      "  rlx run model.rlx --load model.safetensors");
  command.action([o] {
    o->model.take_standard_input();
    convert(*o);
  });
}

}  // namespace rlx::cli
