// The samples of an op, run on a device and compared with its reference.
#include <algorithm>

#include "base/border.h"
#include "base/fail.h"
#include "ir/tolerance.h"
#include "rlx/compile.h"
#include "rlx/custom_op.h"
#include "runtime/op_samples.h"

namespace rlx {
namespace {

// Where and by how much the output differs; nothing if it does not.
std::optional<std::string> difference(const Tensor& got, const RefTensor& want, const Tolerance& tolerance) {
  if (got.shape() != want.dims)
    return formatted("has the shape {} instead of {}", Shape(got.shape()).text(), Shape(want.dims).text());
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double number = got.real(i);
    const double wanted = is_float(want.dtype) ? want.real[static_cast<size_t>(i)]
                                               : static_cast<double>(want.ints[static_cast<size_t>(i)]);
    const Closeness c = is_float(want.dtype) ? compare(number, wanted, want.dtype, tolerance)
                                             : Closeness{.close = number == wanted};
    if (!c.close)
      return formatted("is {} instead of {} at element {}, by more than {}", number, wanted, i, c.allowed);
  }
  return std::nullopt;
}

// Where an output differs from the reference, by its name.
std::optional<std::string> check_sample(const Sample& s, const Device& device,
                                        const CompileOptions& options) {
  NamedTensors leaves = s.inputs;
  leaves.insert(s.states.begin(), s.states.end());
  Executable exe = compile(s.graph, device, options);
  for (const auto& [name, value] : s.states) exe.write_state(name, value);
  const NamedTensors got = exe.run(s.inputs);
  const Node& node = s.graph.node(s.graph.find("y"));
  std::vector<TensorType> types;
  for (const ValueId v : node.inputs) types.push_back(v.is_absent() ? TensorType{} : s.graph.type(v));
  for (const auto& [name, want] : run_reference(s.graph, leaves)) {
    if (const auto found = difference(got.at(name), want, node.op->tolerance(types)))
      return formatted("output {} {}", name, *found);
  }
  return std::nullopt;
}

}  // namespace

int64_t check_op(std::string_view name, const Device& device) try {
  const OpInfo& info = op_table().at(name);
  if (!info.custom) fail(ErrorKind::invalid_argument, "the op '{}' is not a custom op", name);
  if (info.samples.empty())
    fail(ErrorKind::invalid_argument, "the op '{}' has no samples to check it with", name);
  int64_t runs = 0;
  for (const std::string& sample : info.samples) {
    for (const DType type : types_of(info)) {
      for (const Reach reach : {Reach::direct, Reach::transposed, Reach::narrowed}) {
        for (const std::string& kernel : info.variants) {
          const Sample s = make_sample(info, sample, type, reach, /*seed=*/1);
          const CompileOptions options{.kernels = {{info.name, kernel}}, .optimize = false};
          if (const auto found = check_sample(s, device, options))
            fail("{} with T = {} and the kernel {}: {}\n{}", sample, to_string(type), kernel, *found, s.text);
          ++runs;
        }
      }
    }
  }
  return runs;
} catch (...) {
  throw_as_error("checking an op");
}

}  // namespace rlx
