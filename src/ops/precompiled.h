// What ops are made of; compiled once for all of them (CMakeLists.txt). Sources still include what they use.
#pragma once

#include "base/checked.h"
#include "base/format.h"
#include "base/precompiled.h"
#include "ir/op.h"
#include "ir/reference.h"
#include "kernels/binder.h"
#include "kernels/lowering.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
