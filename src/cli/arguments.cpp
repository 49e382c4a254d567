#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/format.h"
#include "base/similar.h"
#include "rlx/version.h"

namespace rlx::cli {

struct Command::Impl {
  CLI::App* parser;

  CLI::Option* styled(CLI::Option* option, const Shown& shown) const {
    if (!shown.value.empty()) option->type_name(shown.value);
    // A script whose variable is not set gives nothing, and would lose its result.
    if (shown.value.starts_with("FILE") || shown.value == "DIR" || shown.value == "PATH") {
      option->each([name = option->get_name()](const std::string& text) {
        if (text.empty())
          throw Misuse(formatted("{} is ''; it must be the name of a {}", name,
                                 name == "--output-dir" ? "folder" : "file"));
      });
    }
    if (!shown.group.empty() || shown.hidden) option->group(shown.group);
    return option;
  }
  // Values are read here and not by the parser, whose messages are about conversions.
  template <class T, class Into, class Fits>
  void value(const std::string& name, Into& into, const char* shown, const std::string& wanted, Fits fits,
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
  impl_->value<int64_t>(
      name, into, "N", wanted, [low, high](int64_t n) { return n >= low && n <= high; }, help);
}

namespace {
void seed_of(const Command::Impl& impl, const std::string& name, auto& into, const std::string& help) {
  impl.value<uint64_t>(
      name, into, "SEED", "a whole number from 0 to 2^64-1", [](uint64_t) { return true; }, help);
}
}  // namespace

void Command::seed(const std::string& name, uint64_t& into, const std::string& help) {
  seed_of(*impl_, name, into, help);
}
void Command::seed(const std::string& name, std::optional<uint64_t>& into, const std::string& help) {
  seed_of(*impl_, name, into, help);
}

void Command::seconds(const std::string& name, double& into, const std::string& help) {
  impl_->value<double>(
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
    const std::string flag = text.substr(0, at);
    return formatted("--{} takes no value{}", flag,
                     flag == "json" ? ": it prints JSON; --json-file FILE writes it to a file" : "");
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

// A word after --json is taken for something else, of which the message would be.
void expect_no_json_file(int argc, char** argv, const std::string& message) {
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string_view word = argv[i + 1];
    if (std::string_view(argv[i]) != "--json" || (word.starts_with('-') && word != "-")) continue;
    if (!message.contains("not expected")) continue;
    throw Misuse(formatted(
        "--json takes no value, but '{}' follows it: it prints JSON; --json-file FILE writes it to a file",
        word));
  }
}

// The parser would only say that the word was not expected.
void expect_command(const CLI::App& parser, const std::string& word) {
  std::string near;
  for (const CLI::App* command : parser.get_subcommands({})) {
    if (command->get_name() == word) return;
    if (is_near(word, command->get_name())) near += (near.empty() ? "similar: " : ", ") + command->get_name();
  }
  throw Misuse(formatted("there is no command '{}' ({}`rlx --help` lists all)", excerpt(word),
                         near.empty() ? "" : near + "; "));
}

}  // namespace

void Arguments::run(int argc, char** argv) {
  CLI::App& parser = impl_->parser;
  if (argc > 1 && argv[1][0] != '-') expect_command(parser, argv[1]);
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& e) {
    parser.exit(e);  // prints the help or the version
    return;
  } catch (const CLI::ParseError& e) {
    const auto chosen = parser.get_subcommands();
    expect_no_json_file(argc, argv, e.what());
    throw Misuse(formatted("{} (try: rlx {}--help)", sentence(e.what()),
                           chosen.empty() ? "" : chosen.front()->get_name() + " "));
  }
  if (parser.get_subcommands().empty()) {
    std::fputs(parser.help().c_str(), stderr);
    throw Misuse("a command is missing");
  }
}

}  // namespace rlx::cli
