// All of rlx: graphs, ops, devices and running.
#pragma once

#include "rlx/device.h"
#include "rlx/error.h"
#include "rlx/graph.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "rlx/tensor.h"
