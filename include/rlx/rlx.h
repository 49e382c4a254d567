// Graphs, ops, devices, running, models and weight files; not custom ops (rlx/custom_op.h), pictures and
// sound (rlx/ocr.h, rlx/speech.h) or the command line (rlx/command_line.h).
#pragma once

#include "rlx/call.h"
#include "rlx/compile.h"
#include "rlx/context.h"
#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "rlx/diagnostics.h"
#include "rlx/error.h"
#include "rlx/executable.h"
#include "rlx/format.h"
#include "rlx/graph.h"
#include "rlx/models.h"
#include "rlx/npy.h"
#include "rlx/ops.h"
#include "rlx/pending.h"
#include "rlx/progress.h"
#include "rlx/safetensors.h"
#include "rlx/schema.h"
#include "rlx/store.h"
#include "rlx/tensor.h"
#include "rlx/version.h"
