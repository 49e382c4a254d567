// A folder includes only from lower layers; see ARCHITECTURE.md.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/support/paths.h"

namespace rlx {
namespace {

const std::map<std::string, std::set<std::string>> kSees = {
    {"base", {"base"}},
    {"encodings", {"base", "encodings"}},
    {"ir", {"base", "encodings", "ir"}},
    {"kernels", {"base", "encodings", "ir", "kernels"}},
    {"ops", {"base", "encodings", "ir", "kernels", "ops"}},
    {"passes", {"base", "encodings", "ir", "kernels", "ops", "passes"}},
    {"plan", {"base", "encodings", "ir", "kernels", "ops", "plan"}},
    {"gpu", {"base", "gpu"}},
    {"runtime", {"base", "encodings", "ir", "kernels", "ops", "passes", "plan", "gpu", "runtime"}},
    {"import", {"base", "ir", "ops", "import"}},
    {"models", {"base", "ir", "ops", "import", "models"}},
    {"vision", {"base", "ir", "ops", "import", "vision"}},
    {"audio", {"base", "import", "audio"}},
    {"extras", {"extras"}},
    {"measure", {"base", "ir", "ops", "import", "measure"}},
    {"cli",
     {"base", "encodings", "ir", "kernels", "ops", "passes", "plan", "gpu", "runtime", "import", "models",
      "vision", "audio", "extras", "measure", "cli"}},
};

TEST(Layers, NothingLooksUp) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const auto& [folder, sees] : kSees) {
    const fs::path root = fs::path(in_source("src")) / folder;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        constexpr std::string_view kInclude = "#include \"";  // or <
        const size_t slash = line.find('/');
        if (!line.starts_with(kInclude.substr(0, 9)) || slash == std::string::npos) continue;
        const std::string target = line.substr(kInclude.size(), slash - kInclude.size());
        if (target == "webgpu" || target == "dawn") {
          EXPECT_EQ(folder, "gpu") << entry.path() << ": " << line;
        } else if (kSees.contains(target)) {
          EXPECT_TRUE(sees.contains(target)) << entry.path() << " looks up: " << line;
        }
      }
    }
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace rlx
