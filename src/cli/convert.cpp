#include <filesystem>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/text.h"
#include "import/safetensors_writer.h"

namespace rlx::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelFlags model;
  std::string output;
};

void convert(const Options& o) {
  const fs::path text_path = o.output;
  const fs::path weights_path = fs::path(text_path).replace_extension(".safetensors");
  if (text_path == weights_path || text_path.stem().empty())
    throw Misuse(
        formatted("--output is '{}'; it must be the name of a text file, such as model.rlx", o.output));
  const LoadedModel model = o.model.load();
  // Both are written before either has its name.
  NewFile text(text_path.string());
  text.write(rlx::print(model.graph));
  if (!model.weights.empty()) {
    NewFile weights(weights_path.string());
    write_safetensors(weights, model.weights);
    weights.commit();
  }
  text.commit();
  print(formatted("wrote {}, {} nodes\n", text_path.string(), model.graph.size()));
  if (model.weights.empty()) return;
  int64_t bytes = 0;
  for (const auto& [name, value] : model.weights) bytes += static_cast<int64_t>(value.byte_size());
  print(formatted("wrote {}, {} params, {}\nrun it with: rlx run {} --load {}\n", weights_path.string(),
                  model.weights.size(), bytes_text(bytes), text_path.string(), weights_path.string()));
}

}  // namespace

void add_convert(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("convert", "Writes an ONNX model as a graph text and its weights");
  o->model.add_to(command);
  command.required("-o,--output", o->output, "The text to write; the weights go beside it, as .safetensors",
                   {.value = "FILE"});
  command.footer(
      "Inputs that decide a shape become part of the text: give them with --input.\n"
      "\n"
      "Examples:\n"
      "  rlx convert model.onnx -o model.rlx\n"
      "  rlx run model.rlx --load model.safetensors");
  command.action([o] { convert(*o); });
}

}  // namespace rlx::cli
