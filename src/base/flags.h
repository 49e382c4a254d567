// Environment flags, read in one place. docs/flags.md lists them all.
#pragma once

#include <cstdint>
#include <string>

namespace rlx {

// On if set, not empty, and none of 0, false, off, no (case-insensitive).
bool env_flag(const char* name);
// The text of the variable, or "" when it is unset.
std::string env_text(const char* name);
// The number in the variable, `otherwise` when unset; an error that names the variable when it is not a
// number.
int64_t env_number(const char* name, int64_t otherwise);

// The folder for files that speed up later starts ($RLX_CACHE_DIR, else $XDG_CACHE_HOME/rlx, else
// ~/.cache/rlx); "" when there is none.
std::string cache_folder();

}  // namespace rlx
