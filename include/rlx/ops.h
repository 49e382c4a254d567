// Functions that add ops to the graph of their inputs. `rlx ops` lists all ops with their formulas; negative
// axes count from the end; inputs of element-wise ops broadcast as in NumPy.
#pragma once

#include "rlx/ops/attention.h"
#include "rlx/ops/control_flow.h"
#include "rlx/ops/convolution.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "rlx/ops/normalization.h"
#include "rlx/ops/order.h"
#include "rlx/ops/pooling.h"
#include "rlx/ops/quantization.h"
#include "rlx/ops/random.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/recurrent.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/resampling.h"
#include "rlx/ops/run_sizes.h"
#include "rlx/ops/spectra.h"
#include "rlx/ops/splatting.h"
#include "rlx/ops/state_space.h"
#include "rlx/ops/transformer.h"
