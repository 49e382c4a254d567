// The line that says how far the program is: on a terminal, and nowhere else.
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/gpu/cli_models.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

class CliProgress : public CliTest {
 protected:
  struct OnTerminal {
    int status = 0;
    std::string text;  // all that the terminal got
  };

  // The program on a terminal of its own, with this many columns. Its output goes to a file with
  // `redirected`. Interrupted with Ctrl-C as soon as the terminal has got `until`.
  OnTerminal on_terminal(const std::string& arguments, const std::string& environment = "",
                         unsigned short columns = 200, const std::string& until = "") {
    const std::string command =
        formatted("unset CI; export TERM=xterm; {} exec '{}' {}", environment, cli_path(), arguments);
    winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      signal(SIGINT, SIG_DFL);
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    OnTerminal out;
    bool interrupted = until.empty();
    char block[4096];
    // The last one closes the terminal: reading then fails.
    for (ssize_t count; (count = read(terminal, block, sizeof block)) > 0;) {
      out.text.append(block, static_cast<size_t>(count));
      if (interrupted || !out.text.contains(until)) continue;
      interrupted = true;
      const char control_c = 3;
      EXPECT_EQ(::write(terminal, &control_c, 1), 1);
    }
    waitpid(child, &out.status, 0);
    close(terminal);
    return out;
  }

  // What was shown in the line, one after the other.
  static std::vector<std::string> shown(const std::string& text) {
    constexpr std::string_view kErase = "\r\033[K";
    std::vector<std::string> out;
    for (size_t at = text.find(kErase); at != std::string::npos;) {
      const size_t next = text.find(kErase, at + kErase.size());
      out.push_back(text.substr(at + kErase.size(), next - at - kErase.size()));
      at = next;
    }
    return out;
  }
  static bool any(const std::vector<std::string>& lines, const std::string& part) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(part); });
  }

  std::string call_ = "run " + in_source("examples/mlp.rlx --dim batch=4 ");
};

TEST_F(CliProgress, ATerminalShowsEachStage) {
  const OnTerminal r = on_terminal(call_ + "--repeat 3 --verify >" + path("out"));
  ASSERT_EQ(r.status, 0) << r.text;
  const std::vector<std::string> lines = shown(r.text);
  for (const char* part : {"loading ", "opening the device", "compiling: 0 of 3 pipelines made",
                           "uploading weights", "first run", "0 of 3 dispatches", "comparing nodes"}) {
    EXPECT_TRUE(any(lines, part)) << part << "\n" << r.text;
  }
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "") << "the line is gone in the end";
  EXPECT_TRUE(r.text.starts_with("\r\033[K"));
  EXPECT_TRUE(slurp(path("out")).contains("3 nodes agree"));
  EXPECT_FALSE(slurp(path("out")).contains('\033'));
}

TEST_F(CliProgress, TextsStandBesideTheLine) {
  const OnTerminal r = on_terminal(call_);
  ASSERT_EQ(r.status, 0) << r.text;
  EXPECT_TRUE(any(shown(r.text), "compiling"));
  // Nothing of the line is left in front of what was printed.
  EXPECT_TRUE(r.text.contains("\r\033[K0 of 4 inputs and params are given")) << r.text;
  EXPECT_TRUE(r.text.contains("\r\033[Koutput  type")) << r.text;
}

TEST_F(CliProgress, PipesFilesAndCiHaveNothingOfIt) {
  const CliResult plain = rlx(call_);
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.err, "");
  EXPECT_FALSE(plain.out.contains('\033'));
  EXPECT_EQ(on_terminal(call_ + ">/dev/null", "export CI=true;").text, "");
  EXPECT_EQ(on_terminal(call_ + ">/dev/null", "export TERM=dumb;").text, "");
  EXPECT_EQ(on_terminal(call_ + ">/dev/null 2>" + path("err")).text, "");
  EXPECT_EQ(slurp(path("err")), "");
  const OnTerminal as_json = on_terminal(call_ + "--json >" + path("json"));
  EXPECT_TRUE(nlohmann::json::parse(slurp(path("json"))).contains("outputs"));
  EXPECT_TRUE(any(shown(as_json.text), "compiling"));
}

TEST_F(CliProgress, TheLineFitsInTheTerminal) {
  const OnTerminal r = on_terminal(call_ + ">/dev/null", "", 24);
  EXPECT_EQ(r.status, 0);
  for (const std::string& line : shown(r.text)) EXPECT_LT(line.size(), 24u) << line;
}

TEST_F(CliProgress, ControlCEndsItCleanly) {
  const OnTerminal r = on_terminal(call_ + "--repeat 1000000000 >/dev/null", "", 200, "running");
  EXPECT_TRUE(WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGINT) << r.status << r.text;
  EXPECT_TRUE(r.text.ends_with("\r\033[Krlx: interrupted; nothing half-written is left\r\n")) << r.text;
}

}  // namespace
}  // namespace rlx::testing
