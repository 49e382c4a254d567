#include <cctype>
#include <cstdio>
#include <new>

#include "base/fail.h"
#include "cli/commands.h"

namespace rlx::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  rlx demo                                  BERT-base on the GPU, checked against the CPU\n"
    "  rlx devices                               what this machine can run on\n"
    "  rlx ops softmax                           what an op computes, its attributes and kernels\n"
    "  rlx plan model.rlx --dim batch=4          dispatches, kernels and memory of a graph\n"
    "  rlx run model.rlx --random 1 --verify     runs it on random numbers and checks every node\n"
    "`rlx COMMAND --help` tells more of each.";

// Parser messages as one sentence: lower case at the start, no line breaks.
std::string sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  const bool word = text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) &&
                    !std::isupper(static_cast<unsigned char>(text[1]));
  if (word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

int complain(const std::string& text, int code) {
  std::fflush(stdout);
  std::fputs(formatted("rlx: {}\n", text).c_str(), stderr);
  return code;
}

int main(int argc, char** argv) {
  CLI::App app("A machine-learning compiler and runtime on WebGPU.", "rlx");
  app.footer(kExamples);
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->enable_footer_formatting(false);  // examples keep their lines
  formatter->label("REQUIRED", "");
  formatter->label("TEXT", "");
  formatter->label("POSITIONALS", "Arguments");
  formatter->label("OPTIONS", "Options");
  formatter->label("SUBCOMMANDS", "Commands");
  app.formatter(formatter);  // commands that are added later inherit it
  app.set_version_flag("--version", "rlx " RLX_VERSION, "The version of rlx");
  app.require_subcommand(0, 1);
  for (auto* add : {add_devices, add_ops, add_plan, add_run, add_bench, add_demo}) add(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      std::fputs(app.help().c_str(), stderr);
      return complain("a command is missing", 2);
    }
    return std::fflush(stdout) == 0 ? 0 : complain("the output could not be written", 1);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help and --version
  } catch (const CLI::ParseError& e) {
    return complain(sentence(e.what()) + " (try: rlx --help)", 2);
  } catch (const Misuse& e) {
    return complain(e.what(), 2);
  } catch (const std::bad_alloc&) {
    return complain("the host has not enough memory for this", 1);
  } catch (const std::exception& e) {
    return complain(e.what(), 1);
  }
}

}  // namespace
}  // namespace rlx::cli

int main(int argc, char** argv) { return rlx::cli::main(argc, argv); }
