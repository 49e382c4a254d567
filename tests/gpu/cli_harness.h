// A test that calls the program as its users do, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/format.h"
#include "import/npy.h"
#include "rlx/npy.h"
#include "tests/support/paths.h"

namespace rlx::testing {

struct CliResult {
  int code = -1;
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / formatted("rlx-cli-test-{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  std::string write(const std::string& name, const Tensor& tensor) {
    write_npy(path(name), tensor);
    return path(name);
  }
  std::string write(const std::string& name, const Tensor& tensor, onnx::ElementType type) {
    write_npy(path(name), tensor, type);
    return path(name);
  }
  static std::string slurp(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  CliResult rlx(const std::string& arguments, const std::string& environment = "") {
    const std::filesystem::path out = folder_ / "stdout";
    const std::filesystem::path err = folder_ / "stderr";
    // What stands before may be a pipe into the program, and the arguments may redirect its input.
    const std::string command = formatted("{{ {} '{}' {} >'{}' 2>'{}'; }} </dev/null", environment,
                                          cli_path(), arguments, out.string(), err.string());
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
  }

  // One line that begins with `rlx: ` and has this in it.
  static void expect_complaint(const CliResult& r, int code, const std::string& part) {
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_TRUE(r.err.starts_with("rlx: ")) << r.err;
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
    EXPECT_TRUE(r.err.contains(part)) << r.err;
  }

  std::filesystem::path folder_;
};

}  // namespace rlx::testing
