// rlx compile: a second start compiles nothing, also with a copy of the caches.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/gpu/cli_models.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSteps = R"(graph steps {
  %x = input : f32[batch, 8]
  %w = param : f32[8, 8]
  %w2 = exp(%w)
  %a = matmul(%x, %w2)
  %b = softmax(%a)
  %c = sum(%b) {axes=[1]}
  output b = %b
  output c = %c
}
)";

class CompileCommand : public CliTest {
 protected:
  std::string model_ = write("steps.rlx", kSteps) + " --dim batch=3";

  std::string with(const std::string& cache) const {
    // The driver's cache of whoever runs the tests is not the one that is tested.
    return formatted("env -u MESA_SHADER_CACHE_DIR RLX_CACHE_DIR='{}'", path(cache));
  }
  json compiled(const std::string& cache) {
    const CliResult r = rlx("compile " + model_ + " --json", with(cache));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out, nullptr, false);
  }
  // Sizes of all files of a cache; a driver may note in a file when it was last read.
  std::map<std::string, uintmax_t> contents(const std::string& cache) const {
    std::map<std::string, uintmax_t> out;
    for (const auto& entry : fs::recursive_directory_iterator(path(cache))) {
      if (entry.is_regular_file()) out[fs::relative(entry.path(), path(cache))] = entry.file_size();
    }
    return out;
  }
  json outputs(const std::string& cache) {
    const CliResult r = rlx("run " + model_ + " --json", with(cache));
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out, nullptr, false).at("outputs");
  }
};

TEST_F(CompileCommand, AfterItNothingIsCompiled) {
  const json first = compiled("cache");
  EXPECT_GE(first.at("modules"), 4) << "with that of the load phase";
  EXPECT_EQ(first.at("new_modules"), first.at("modules"));
  const auto kept = contents("cache");
  EXPECT_FALSE(kept.empty());

  const json second = compiled("cache");
  EXPECT_EQ(second.at("new_modules"), 0);
  EXPECT_EQ(second.at("modules"), first.at("modules"));
  outputs("cache");
  EXPECT_EQ(contents("cache"), kept) << "neither we nor the driver had anything to add";
}

TEST_F(CompileCommand, ACopyOfTheCacheServes) {
  const json first = compiled("cache");
  const json want = outputs("cache");
  fs::copy(path("cache"), path("copy"), fs::copy_options::recursive);
  fs::remove_all(path("cache"));
  const auto kept = contents("copy");
  EXPECT_EQ(compiled("copy").at("new_modules"), 0);
  EXPECT_EQ(outputs("copy"), want);
  EXPECT_EQ(contents("copy"), kept);
}

TEST_F(CompileCommand, BrokenEntriesAreMadeAgain) {
  const json first = compiled("cache");
  const json want = outputs("cache");
  const auto kept = contents("cache");
  for (const auto& [name, bytes] : kept) fs::resize_file(path("cache/" + name), bytes / 2);
  EXPECT_EQ(outputs("cache"), want);
  EXPECT_EQ(compiled("cache").at("new_modules"), 0) << "the run has made them";
}

TEST_F(CompileCommand, WrongArgumentsAreSentences) {
  expect_complaint(rlx("compile"), 2, "FILE");
  expect_complaint(rlx("compile none.rlx"), 1, "none.rlx");
  expect_complaint(rlx("compile " + write("steps.rlx", kSteps)), 2, "--dim batch=N");
  const CliResult text = rlx("compile " + model_, with("cache"));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(text.out.contains("they are kept in " + path("cache"))) << text.out;
}

}  // namespace
}  // namespace rlx::testing
