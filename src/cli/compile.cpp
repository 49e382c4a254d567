#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fail.h"
#include "base/flags.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/graph_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/stopwatch.h"
#include "rlx/compile.h"
#include "runtime/compile_ahead.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  DeviceFlags device;
  ReportFlags report;
};

void compile_model(const Options& o) {
  check_outputs(o.report.outputs(), o.graph.model.files());
  const Model model = o.graph.load();
  const CompileOptions options = o.graph.options(model);
  const SymbolValues open = o.graph.open_symbols(model);
  const Device device = o.device.open();
  const measure::Stopwatch watch;
  const CompiledAhead made = [&] {
    const Progress progress(formatted("compiling {}", short_name(o.graph.model.file)));
    return compile_ahead(compile(model.graph, device, options), open);
  }();
  const double ms = watch.ms();
  const std::string folder = cache_folder();
  if (!folder.empty() && access(folder.c_str(), W_OK | X_OK) != 0)
    fail(ErrorKind::invalid_file, "{} modules were compiled, but nothing can be kept in {}: {}",
         made.pipelines, folder, std::strerror(errno));
  o.report.write(Json::object({{"file", with_shown_names(o.graph.model.file)},
                               {"adapter", device.info().name},
                               {"cache", folder},
                               {"dispatches", made.dispatches},
                               {"modules", made.pipelines},
                               {"new_modules", made.translated},
                               {"ms", ms}}));
  if (o.report.only_json()) return;
  print(formatted("{} dispatches of {} modules, of which {} were new, in {}\n", made.dispatches,
                  made.pipelines, made.translated, ms_text(ms)));
  print(folder.empty() ? "there is no cache folder, so they are not kept\n"
                       : formatted("they are kept in {}\n", folder));
}

}  // namespace

void add_compile(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command =
      arguments.command("compile", "Compiles a model's shaders ahead, so that its first run need not");
  o->graph.add_to(command);
  o->report.add_to(command, "the same");
  o->device.add_to(command);
  command.footer(
      "Everything is kept in the cache folder ($RLX_CACHE_DIR). A copy of it serves another machine with the "
      "same\n"
      "adapter and driver, and on software devices the same kind of CPU.\n"
      "\n"
      "Examples:\n"
      "  rlx compile model.onnx --dim batch=4\n"
      "  RLX_CACHE_DIR=shipped rlx compile model.rlx --capacity seq=512 --dim seq=1");
  command.action([o] {
    o->graph.model.take_standard_input();
    compile_model(*o);
  });
}

}  // namespace rlx::cli
