// An adapter as JSON, the same in every report.
#pragma once

#include "base/json.h"
#include "rlx/adapter.h"

namespace rlx::cli {

Json to_json(const AdapterInfo& adapter);

}  // namespace rlx::cli
