// What those who rewrite, lower and run graphs include; compiled once for all of them (CMakeLists.txt).
// Sources still include what they use.
#pragma once

#include "ops/precompiled.h"
#include "rlx/executable.h"
