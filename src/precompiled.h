// What most sources of the library include; compiled once for all of them. A change of any of these headers
// reaches nearly every source anyway. Sources still include what they use: g++ is given the headers of the
// standard library only, and would miss the others.
#pragma once

#include "../cmake/precompiled.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/format.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "ops/machinery/op_table.h"
#include "rlx/graph.h"
