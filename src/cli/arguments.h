// What the commands need from the argument parser, in plain types. The parser itself is a header that takes a
// compiler twenty seconds: only arguments.cpp includes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rlx::cli {

// A wrong call: printed, with exit code 2.
class Misuse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the help shows for an argument besides its text.
struct Shown {
  std::string value = {};  // the placeholder for the value, such as FILE
  std::string group = {};  // the heading that the argument is listed under
  bool hidden = false;     // listed nowhere
};

// One command with its arguments. A name without dashes is a positional argument. What the arguments are read
// into must live until the command has run.
class Command {
 public:
  void text(const std::string& name, std::string& into, const std::string& help, const Shown& shown = {});
  void required(const std::string& name, std::string& into, const std::string& help, const Shown& shown = {});
  // A flag with a list is given once for each item; a positional list takes all that is left.
  void list(const std::string& name, std::vector<std::string>& into, const std::string& help,
            const Shown& shown = {});
  void number(const std::string& name, int64_t& into, int64_t low, int64_t high, const std::string& help);
  void seed(const std::string& name, uint64_t& into, const std::string& help);
  void seed(const std::string& name, std::optional<uint64_t>& into, const std::string& help);
  void seconds(const std::string& name, double& into, const std::string& help);
  void flag(const std::string& name, bool& into, const std::string& help, const Shown& shown = {});
  // Two flags of which only one can be given.
  void exclude(const std::string& one, const std::string& other);
  void footer(const std::string& text);
  void action(std::function<void()> run);

  struct Impl;
  explicit Command(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

class Arguments {
 public:
  Arguments(const std::string& description, const std::string& footer);
  ~Arguments();
  Command command(const std::string& name, const std::string& description);
  // Reads the arguments and runs the command that they name, or prints the help or the version. Throws
  // Misuse, and whatever the command throws.
  void run(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx::cli
