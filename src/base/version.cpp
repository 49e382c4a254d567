#include "rlx/version.h"

#define RLX_TEXT_OF(number) #number
#define RLX_TEXT(number) RLX_TEXT_OF(number)

namespace rlx {

const char* version() {
  return RLX_TEXT(RLX_VERSION_MAJOR) "." RLX_TEXT(RLX_VERSION_MINOR) "." RLX_TEXT(RLX_VERSION_PATCH);
}

}  // namespace rlx
