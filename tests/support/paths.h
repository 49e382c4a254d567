// Where things are on this machine. Only one source knows: the others are the same for every checkout, and so
// found in the compiler's cache.
#pragma once

#include <string>

namespace rlx {

// A file or folder of the source tree: in_source("tests/fixtures/npy.npz").
std::string in_source(const std::string& path);
// The program rlx.
std::string cli_path();

}  // namespace rlx
