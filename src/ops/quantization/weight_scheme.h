// What the codes of packed weights mean: the schemes of rlx/ops/quantization.h.
#pragma once

#include "ir/op.h"
#include "ops/products/load_packed.h"
#include "rlx/ops/quantization.h"

namespace rlx {

// What a scheme has: the codes, how scales are stored, and how many elements share one if that is fixed.
struct CodeScheme {
  using Code = products::LoadPacked::Code;
  using Scale = products::LoadPacked::Scale;

  Code code = Code::unsigned_int;
  int64_t bits = 8;
  Scale scale = Scale::number;
  int64_t block = 0;

  bool is_integer() const { return code == Code::unsigned_int || code == Code::signed_int; }
  // Floats of 8 bits are numbers without a scale.
  bool needs_scale() const { return code != Code::e4m3 && code != Code::e5m2; }
};

CodeScheme code_scheme(WeightScheme scheme);

// The number that a code stands for, before the zero point and the scale.
double code_value(const CodeScheme& scheme, unsigned code);
// That of a scale as it is stored.
double scale_value(const CodeScheme& scheme, double stored);

// Sensible bytes for the scales of mxfp4, of which 127 stands for 1. Small ones make weights below 2^-126,
// which devices may take for 0: products of them alone cannot be compared with anything.
inline ValueRange scale_exponents() { return {.low = 118, .high = 127}; }

// The attribute `scheme`.
void visit_scheme(AttributeVisitor& v, WeightScheme& scheme);

}  // namespace rlx
