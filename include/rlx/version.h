// The version of these headers; rlx::version() is that of the library they are linked with.
#pragma once

#include "rlx/export.h"

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 2
#define RLX_VERSION_PATCH 0

RLX_EXPORT_BEGIN
namespace rlx {

const char* version();  // "0.2.0"

}  // namespace rlx
RLX_EXPORT_END
