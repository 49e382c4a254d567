#include "rlx/command_line.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "base/flags.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/standard_input.h"
#include "rlx/extras.h"

namespace rlx::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  rlx demo                                  reads the text in a picture, on the GPU\n"
    "  rlx ocr photo.jpg                         reads the text in yours\n"
    "  rlx transcribe recording.wav              writes down what is said\n"
    "  rlx spectrogram recording.wav -o out.png  draws which frequencies it has when\n"
    "  rlx devices                               what this machine can run on\n"
    "  rlx ops softmax                           what an op computes, its attributes and kernels\n"
    "  rlx info model.onnx                       what a model has, and what in it cannot run\n"
    "  rlx run model.onnx --input x=x.npy        runs it; --output-dir writes what comes out\n"
    "  rlx profile model.onnx --html page.html   where the time goes\n"
    "  rlx verify model.onnx --dim batch=4       compares a run on random numbers with the CPU\n"
    "  rlx tune model.onnx --dim batch=1         measures which of its kernels are fastest here\n"
    "  rlx plan model.rlx --dim batch=4          dispatches, kernels and memory of a graph\n"
    "  rlx compile model.rlx --dim batch=4       compiles its shaders, so that its first run need not\n"
    "`rlx COMMAND --help` says more about each.";

int complain(const std::string& text, int code) {
  std::fflush(stdout);
  std::fputs(formatted("rlx: {}\n", with_shown_names(text)).c_str(), stderr);
  return code;
}

// Mesa's drivers keep what they compile in a folder of their own. Beside what we keep, a copy of the cache
// folder has both. Before there are other threads, which might read the environment.
void keep_the_drivers_cache_beside_ours() {
  const std::string folder = cache_folder();
  std::error_code error;  // where it is no folder, the drivers' warnings would be added to our own error
  const bool usable = !std::filesystem::exists(folder, error) || std::filesystem::is_directory(folder, error);
  if (!folder.empty() && usable)
    setenv("MESA_SHADER_CACHE_DIR", (folder + "/driver").c_str(), /*overwrite=*/0);
}

int run(int argc, char** argv) {
  keep_the_drivers_cache_beside_ours();
  remove_unfinished_files_when_interrupted();
  try {
    register_extras();
    Arguments arguments("A machine-learning compiler and runtime on WebGPU.", kExamples);
    for (auto* add :
         {add_devices,     add_ops,  add_info,       add_plan,        add_compile, add_run,   add_profile,
          add_calibrate,   add_cost, add_tune,       add_verify,      add_convert, add_bench, add_gpu_report,
          add_conformance, add_ocr,  add_transcribe, add_spectrogram, add_splat,   add_demo})
      add(arguments);
    arguments.run(argc, argv);
    // What is larger than the buffer is written at once: its error is not one of the flush.
    const bool written = std::fflush(stdout) == 0 && !std::ferror(stdout);
    return written ? 0 : complain("the output could not be written", 1);
  } catch (const Misuse& e) {
    return complain(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("the host does not have enough memory for this", 1);
  } catch (const std::exception& e) {
    return complain(e.what(), 1);
  } catch (...) {
    return complain("something was thrown that is not an exception", 1);
  }
}

}  // namespace
}  // namespace rlx::cli

int rlx::command_line(int argc, char** argv) { return cli::run(argc, argv); }
