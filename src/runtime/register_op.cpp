// Registration of custom ops, which includes the compiler for WGSL: a kernel is wrong when it is registered,
// not when it is first used.
#include <algorithm>
#include <optional>

#include "base/border.h"
#include "gpu/device.h"
#include "kernels/default_module.h"
#include "ops/machinery/custom_op.h"

namespace rlx {
namespace {

// One for each type that a kernel sees: f16 is f32 to it.
constexpr DType kKernelTypes[] = {DType::f32, DType::i32, DType::u32, DType::bool_};
// Operands of any type that are not input 0. Which types go together only uses of the op say, so that one
// combination has to compile; more of them than this are left to those uses.
constexpr size_t kMostOpen = 4;

DType kernel_type(DType type) {
  if (type == DType::u32 || type == DType::u8) return DType::u32;
  if (is_integer(type)) return DType::i32;
  return type == DType::bool_ ? type : DType::f32;
}

// What is wrong with the kernel whose operands have these types, if anything.
std::optional<Error> error_with(gpu::Device& device, const DeclaredOp& d, const std::vector<DType>& types) {
  try {
    device.check_wgsl({.label = d.kernel->name, .wgsl = default_module_text(d.kernel, types)});
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

// The next combination of the numbers below kKernelTypes' size; false after the last.
bool next(std::vector<size_t>& digits) {
  for (size_t& digit : digits) {
    if (++digit < std::size(kKernelTypes)) return true;
    digit = 0;
  }
  return false;
}

// Fails if the kernel is wrong whatever the operands that are open are.
void check_with(gpu::Device& device, const DeclaredOp& d, DType first, std::vector<DType> types,
                const std::vector<size_t>& open) {
  std::optional<Error> error = error_with(device, d, types);
  std::vector<size_t> digits(open.size());
  for (bool more = error.has_value() && !open.empty(); more; more = next(digits)) {
    for (size_t i = 0; i < open.size(); ++i) types[open[i]] = kKernelTypes[digits[i]];
    if (!error_with(device, d, types)) return;
  }
  if (!error) return;
  const bool any = d.kernel->operands[d.inputs[0]].kind == OperandDecl::Kind::any;
  throw any && d.types.size() > 1
      ? error->within(formatted("with {} in {}", to_string(first), d.kernel->operands[d.inputs[0]].name))
      : *error;
}

void check_kernel(const DeclaredOp& d) {
  const std::shared_ptr<gpu::Device> device = gpu::Device::open_for_checks();
  if (!device) return;  // the first graph that uses the op will say it
  std::vector<DType> seen;
  for (const std::string& name : d.types) {
    const DType first = kernel_type(*parse_dtype(name));
    if (std::ranges::contains(seen, first)) continue;
    seen.push_back(first);
    std::vector<DType> types;
    std::vector<size_t> open;
    for (size_t i = 0; i < d.kernel->operands.size(); ++i) {
      const OperandDecl::Kind kind = d.kernel->operands[i].kind;
      if (kind == OperandDecl::Kind::any && i != d.inputs[0]) open.push_back(i);
      types.push_back(kind == OperandDecl::Kind::float_ ? DType::f32
                      : kind == OperandDecl::Kind::int_ ? DType::i32
                                                        : first);
    }
    if (open.size() <= kMostOpen) check_with(*device, d, first, std::move(types), open);
    if (d.kernel->operands[d.inputs[0]].kind != OperandDecl::Kind::any) return;  // one type is like the other
  }
}

}  // namespace

void register_op(CustomOp op) try {
  const DeclaredOpPtr declared = declare_op(std::move(op));
  check_kernel(*declared);
  add_op(declared);
} catch (...) {
  throw_as_error("registering an op");
}

}  // namespace rlx
