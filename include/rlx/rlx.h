// All of rlx: graphs, ops, devices, running, models and weight files.
#pragma once

#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/diagnostics.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/format.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/safetensors.h"
#include "rlx/tensor.h"
#include "rlx/version.h"
