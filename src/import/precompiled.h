// What importers include; compiled once for all of them (CMakeLists.txt). Sources still include what they
// use.
#pragma once

#include "base/format.h"
#include "base/precompiled.h"
#include "import/onnx/call.h"
#include "import/onnx/rules.h"
#include "ir/op.h"
#include "rlx/value.h"
