// Mapped files are known while they are mapped: nothing may be written over them.
#include "import/file_bytes.h"
#include "tests/support/paths.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rlx {
namespace {

TEST(FileBytes, AreListedWhileTheyAreMapped) {
  const std::string path = in_source("tests/fixtures/npy.npz");
  const auto is_open = [&] { return std::ranges::contains(FileBytes::open_files(), path); };
  EXPECT_FALSE(is_open());
  {
    const FileBytes file(path);
    const FileBytes again(in_source("tests"), "fixtures/npy.npz");
    EXPECT_TRUE(is_open());
    EXPECT_EQ(std::ranges::count(FileBytes::open_files(), path), 2);
  }
  EXPECT_FALSE(is_open());
}

}  // namespace
}  // namespace rlx
