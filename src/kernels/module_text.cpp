// Writes the WGSL of a bound kernel: declarations and accessors before the kernel's own source.
#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/format.h"
#include "kernels/accessors.h"
#include "kernels/binder.h"
#include "kernels/default_module.h"
#include "kernels/fragment.h"

namespace rlx {
namespace {

// The source with the chosen values of its spec constants.
std::string with_specs(const Kernel& kernel, const SpecList& specs) {
  for (const SpecValue& s : specs) {
    check(std::ranges::contains(kernel.specs, s.name, &SpecDecl::name),
          "a spec constant is in the kernel source");
  }
  std::string source;
  size_t at = 0;
  for (const SpecDecl& decl : kernel.specs) {
    const auto given = std::ranges::find(specs, decl.name, &SpecValue::name);
    source.append(kernel.source, at, decl.begin - at);
    source += given == specs.end() ? decl.value : given->wgsl();
    at = decl.end;
  }
  return source.append(kernel.source, at);
}

}  // namespace

std::string module_text(const Kernel& kernel, const Pattern& pattern) {
  std::string out = "// " + kernel.name + "\n";
  if (pattern.f16 && !std::ranges::contains(kernel.enables, "f16")) out += "enable f16;\n";
  const Fragment* const lanes = pattern.cpu_lanes ? find_fragment("lanes_cpu") : nullptr;
  if (lanes && !std::ranges::contains(kernel.enables, "subgroups")) out += "enable subgroups;\n";
  for (const std::string& extension : kernel.enables) out += formatted("enable {};\n", extension);
  std::string views = "struct Views {\n";
  for (const std::string_view word : kViewsHead) views += formatted("  {}: u32,\n", word);
  std::string accessors;
  for (size_t i = 0; i < kernel.operands.size(); ++i) {
    const AccessorWriter writer(kernel, pattern, i);
    writer.members(views);
    writer.accessors(accessors);
  }
  out += views + "}\n@group(0) @binding(0) var<uniform> views: Views;\n";
  if (kernel.params_bytes > 0) out += "@group(0) @binding(1) var<uniform> params: Params;\n";
  for (size_t i = 0; i < pattern.bindings.size(); ++i) {
    const BindingPattern& b = pattern.bindings[i];
    out += formatted("@group(0) @binding({}) var<storage, {}> buf{}: array<{}>;\n", i + 2,
                     b.writable ? "read_write" : "read", i, element_text(b.element));
  }
  const std::string own = "//# accessors 1\n" + accessors + with_specs(kernel, pattern.specs);
  return out + needed_declarations(kernel, own, lanes) + own;
}

std::string default_module_text(const KernelPtr& kernel, DType encoding) {
  std::vector<DType> types;
  for (const OperandDecl& decl : kernel->operands) {
    types.push_back(decl.kind == OperandDecl::Kind::int_      ? DType::i32
                    : decl.kind == OperandDecl::Kind::encoded ? encoding
                                                              : DType::f32);
  }
  return default_module_text(kernel, types);
}

std::string default_module_text(const KernelPtr& kernel, std::span<const DType> types) {
  Dispatch d;
  d.kernel = kernel;
  d.groups = 1;
  std::vector<Placement> placements;
  for (const DType type : types) {
    Operand o;
    o.storage = static_cast<int32_t>(placements.size());
    o.dtype = type;
    o.view = View::contiguous({2, 2 * block_elements(o.dtype)});
    o.outer_rank = 1;
    d.operands.push_back(o);
    placements.push_back({static_cast<int32_t>(placements.size()), 0, 256});
  }
  Caps caps;
  caps.max_storage_buffers = static_cast<uint32_t>(std::max<size_t>(types.size(), 16));
  return module_text(*kernel, bind_dispatch(d, placements, caps)[0].pattern);
}

}  // namespace rlx
