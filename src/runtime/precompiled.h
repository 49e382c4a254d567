// The header of the passes, for a layer that is compiled for speed (CMakeLists.txt).
#pragma once

#include "passes/precompiled.h"
