#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/format.h"
#include "rlx/version.h"

namespace rlx::cli {

struct Command::Impl {
  CLI::App* parser;

  CLI::Option* styled(CLI::Option* option, const Shown& shown) const {
    if (!shown.value.empty()) option->type_name(shown.value);
    if (!shown.group.empty()) option->group(shown.group);
    return option;
  }
  // Values are read here and not by the parser, whose messages are about conversions.
  template <class T, class Fits>
  void value(const std::string& name, T& into, const char* shown, const std::string& wanted, Fits fits,
             const std::string& help) const {
    const auto read = [name, &into, wanted, fits](const std::string& text) {
      T number = {};
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size() || !fits(number)) {
        throw Misuse(formatted("{} is '{}'; it must be {}", name, text, wanted));
      }
      into = number;
    };
    parser->add_option_function<std::string>(name, read, help)->type_name(shown);
  }
};

void Command::text(const std::string& name, std::string& into, const std::string& help, const Shown& shown) {
  impl_->styled(impl_->parser->add_option(name, into, help), shown);
}

void Command::required(const std::string& name, std::string& into, const std::string& help,
                       const Shown& shown) {
  impl_->styled(impl_->parser->add_option(name, into, help), shown)->required();
}

void Command::list(const std::string& name, std::vector<std::string>& into, const std::string& help,
                   const Shown& shown) {
  CLI::Option* const option = impl_->styled(impl_->parser->add_option(name, into, help), shown);
  if (name.starts_with('-')) option->allow_extra_args(false);
}

void Command::number(const std::string& name, int64_t& into, int64_t low, int64_t high,
                     const std::string& help) {
  const std::string wanted = high == INT64_MAX ? formatted("a whole number from {} to 2^63-1", low)
                                               : formatted("a whole number from {} to {}", low, high);
  impl_->value(name, into, "N", wanted, [low, high](int64_t n) { return n >= low && n <= high; }, help);
}

void Command::seed(const std::string& name, uint64_t& into, const std::string& help) {
  impl_->value(name, into, "SEED", "a whole number from 0 to 2^64-1", [](uint64_t) { return true; }, help);
}

void Command::seconds(const std::string& name, double& into, const std::string& help) {
  impl_->value(
      name, into, "SECONDS", "a number above 0", [](double s) { return s > 0 && std::isfinite(s); }, help);
}

void Command::flag(const std::string& name, bool& into, const std::string& help, const Shown& shown) {
  impl_->styled(impl_->parser->add_flag(name, into, help)->disable_flag_override(), shown);
}

void Command::exclude(const std::string& one, const std::string& other) {
  impl_->parser->get_option(one)->excludes(impl_->parser->get_option(other));
}

void Command::footer(const std::string& text) { impl_->parser->footer(text); }

void Command::action(std::function<void()> run) { impl_->parser->callback(std::move(run)); }

// --- The whole program ---

struct Arguments::Impl {
  explicit Impl(const std::string& description) : parser(description, "rlx") {}
  CLI::App parser;
};

Arguments::Arguments(const std::string& description, const std::string& footer)
    : impl_(std::make_unique<Impl>(description)) {
  CLI::App& parser = impl_->parser;
  parser.footer(footer);
  const auto formatter = std::make_shared<CLI::Formatter>();
  formatter->enable_footer_formatting(false);  // examples keep their lines
  formatter->label("REQUIRED", "");
  formatter->label("TEXT", "");
  formatter->label("POSITIONALS", "Arguments");
  formatter->label("OPTIONS", "Options");
  formatter->label("SUBCOMMANDS", "Commands");
  parser.formatter(formatter);  // commands that are added later inherit it
  parser.set_version_flag("--version", formatted("rlx {}", version()), "The version of rlx");
  parser.require_subcommand(0, 1);
}

Arguments::~Arguments() = default;

Command Arguments::command(const std::string& name, const std::string& description) {
  return Command(std::make_shared<Command::Impl>(impl_->parser.add_subcommand(name, description)));
}

namespace {

// The parser's messages as one sentence: lower case at the start, no line breaks.
std::string sentence(std::string text) {
  if (const size_t at = text.find(" was given a disallowed flag override"); at != std::string::npos) {
    return "--" + text.substr(0, at) + " takes no value";
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  const bool word = text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) &&
                    !std::isupper(static_cast<unsigned char>(text[1]));
  if (word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

void Arguments::run(int argc, char** argv) {
  CLI::App& parser = impl_->parser;
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& e) {
    parser.exit(e);  // prints the help or the version
    return;
  } catch (const CLI::ParseError& e) {
    throw Misuse(sentence(e.what()) + " (try: rlx --help)");
  }
  if (parser.get_subcommands().empty()) {
    std::fputs(parser.help().c_str(), stderr);
    throw Misuse("a command is missing");
  }
}

}  // namespace rlx::cli
