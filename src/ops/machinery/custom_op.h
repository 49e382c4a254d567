// A custom op on its way into the table of ops.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "rlx/custom_op.h"

namespace rlx {

struct DeclaredOp {
  CustomOp op;
  KernelPtr kernel;
  std::vector<size_t> inputs, outputs, tables;               // operands of the kernel
  std::vector<std::string> types;                            // of input 0
  std::string operands_text, attributes_text, outputs_text;  // for OpInfo
  bool rows = false;
};
using DeclaredOpPtr = std::shared_ptr<const DeclaredOp>;

// What `register_op` is given, parsed; an error says what is wrong with it, apart from the rules of WGSL.
DeclaredOpPtr declare_op(CustomOp op);
// From now on graphs may use it.
void add_op(const DeclaredOpPtr& declared);

}  // namespace rlx
