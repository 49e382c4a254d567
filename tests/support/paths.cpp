#include "tests/support/paths.h"

namespace rlx {

std::string in_source(const std::string& path) { return RLX_SOURCE_DIR "/" + path; }
std::string cli_path() { return RLX_CLI_PATH; }

}  // namespace rlx
