// A folder includes only what src/layers.txt lets it see.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace rlx {
namespace {

// "layer: what it sees", of each line that is no comment.
std::map<std::string, std::set<std::string>> layers() {
  std::map<std::string, std::set<std::string>> all;
  std::ifstream in(in_source("src/layers.txt"));
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with('#') || colon == std::string::npos) continue;
    const std::string layer = line.substr(0, colon);
    std::set<std::string>& sees = all[layer];
    sees.insert(layer);
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) {
      EXPECT_TRUE(all.contains(word)) << layer << " sees " << word << ", which is not above it in the list";
      sees.insert(word);
    }
  }
  return all;
}

TEST(Layers, NothingLooksUp) {
  namespace fs = std::filesystem;
  const std::map<std::string, std::set<std::string>> all = layers();
  for (const auto& entry : fs::directory_iterator(in_source("src"))) {
    if (!entry.is_directory()) continue;
    EXPECT_TRUE(all.contains(entry.path().filename())) << entry.path() << " is not in layers.txt";
  }
  int files = 0;
  for (const auto& [folder, sees] : all) {
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
        } else if (all.contains(target)) {
          EXPECT_TRUE(sees.contains(target)) << entry.path() << " looks up: " << line;
        }
      }
    }
  }
  EXPECT_GT(files, 50);
}

}  // namespace
}  // namespace rlx
