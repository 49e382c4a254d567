// A compiled graph: weights in, runs, results out.
//
// Threads: every member of an Executable may be called from any thread at any time, except that moving or
// destroying one must not overlap other calls. Runs take effect in the order of the calls; only the
// wait for results happens in parallel. Lifetime: an Executable, a Run and a Device may be destroyed in any
// order; each keeps what it needs. Errors: an rlx::Error leaves the executable usable, unless the device is
// lost: rebuild() it on a new one. A call that is refused changes nothing; a run that fails while it runs (an
// overflow, a size beyond its capacity) leaves states as far as it came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "rlx/export.h"
#include "rlx/list.h"
#include "rlx/pending.h"
#include "rlx/report.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

struct CompileOptions;
class Context;
class Store;

// Data for an input, read during the call only.
struct InputRef {
  std::string_view name;
  DType dtype = DType::f32;
  const void* data = nullptr;
  size_t bytes = 0;
  // May stay empty where the graph has a static shape, or one symbol that the length determines.
  std::vector<int64_t> shape = {};
  const DeviceTensor* on_device = nullptr;  // if given, in the place of data and bytes
};

// Memory for an output; its size must be the output's, also where only the run knows that: another size is
// then an error after the run.
struct OutputRef {
  std::string_view name;
  DType dtype = DType::f32;
  void* data = nullptr;
  size_t bytes = 0;
  DeviceTensor* on_device = nullptr;  // if given, in the place of data and bytes
};

// rlx::input_from("x", values) and rlx::output_to("y", results), of vectors, arrays or spans.
template <ElementRange R>
InputRef input_from(std::string_view name, const R& values, std::vector<int64_t> shape = {}) {
  return {name, DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>::value, std::ranges::data(values),
          std::ranges::size(values) * sizeof(std::ranges::range_value_t<R>), std::move(shape)};
}
template <ElementRange R>
OutputRef output_to(std::string_view name, R&& values) {
  return {name, DTypeOf<std::ranges::range_value_t<R>>::value, std::ranges::data(values),
          std::ranges::size(values) * sizeof(std::ranges::range_value_t<R>)};
}

// The same with tensors of the device: their elements do not pass through the host.
inline InputRef input_from(std::string_view name, const DeviceTensor& tensor) {
  return {.name = name, .dtype = tensor.dtype(), .shape = tensor.shape(), .on_device = &tensor};
}
inline OutputRef output_to(std::string_view name, DeviceTensor& tensor) {
  return {.name = name, .dtype = tensor.dtype(), .on_device = &tensor};
}

// What a run is given by name, tensors of the host and of the device: {{"x", x}, {"hidden", on_device}}. A
// view of the tensors, for the time of a call: a NamedTensors, a NamedDeviceTensors, or a list of both kinds.
class RunInputs {
 public:
  struct Item {
    std::string name;
    std::variant<Tensor, DeviceTensor> value;
  };
  RunInputs() = default;
  // NOLINTBEGIN(google-explicit-constructor): these are what they are made of
  RunInputs(std::initializer_list<Item> items) : items_(items.begin(), items.size()) {}
  RunInputs(const std::vector<Item>& items) : items_(items) {}
  RunInputs(const NamedTensors& tensors) : host_(&tensors) {}
  RunInputs(const NamedDeviceTensors& tensors) : device_(&tensors) {}
  // NOLINTEND(google-explicit-constructor)

  // f(name, tensor), with a Tensor or a DeviceTensor.
  template <class F>
  void for_each(F&& f) const {
    if (host_) {
      for (const auto& [name, tensor] : *host_) f(name, tensor);
    }
    if (device_) {
      for (const auto& [name, tensor] : *device_) f(name, tensor);
    }
    for (const Item& item : items_) std::visit([&](const auto& tensor) { f(item.name, tensor); }, item.value);
  }

 private:
  const NamedTensors* host_ = nullptr;
  const NamedDeviceTensors* device_ = nullptr;
  std::span<const Item> items_;
};

// Values for symbols that no input's shape determines, such as the length of a cache: {{"pos", 2}}.
using SymbolList = List<std::pair<std::string_view, int64_t>>;

// What a graph takes or returns under a name.
struct TensorInfo {
  std::string name;
  TensorType type;
};

// A run in progress: get() returns its outputs. Dropping it is safe; the run continues.
using Run = Pending<NamedTensors>;

class Executable {
 public:
  struct Impl;

  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;
  ~Executable();

  // What the graph that was compiled has, in its order; symbols that were bound when compiling are numbers.
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> params() const;
  std::vector<TensorInfo> states() const;
  std::vector<TensorInfo> outputs() const;

  // The value must have the param's shape and type; f32 values are also accepted for f16 and bf16 params, and
  // rounded.
  void set_param(std::string_view name, const Tensor& value);
  void set_param(std::string_view name, DType dtype, std::span<const std::byte> bytes);
  template <ElementRange R>
  void set_param(std::string_view name, const R& values) {
    set_param(name, DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>::value,
              std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values))));
  }

  // Several at once: every run sees either none or all of them, also after an error. (Where the device itself
  // has failed, those that have lost their values have to be set again: a run says which.)
  void set_params(const NamedTensors& values);

  // Runs and waits: auto outputs = exe.run({{"x", x}}, {{"pos", 2}}). With a context, in its states and not
  // in those of the executable itself (context()).
  NamedTensors run(const RunInputs& inputs, SymbolList symbols = {});
  NamedTensors run(const Context& context, const RunInputs& inputs, SymbolList symbols = {});
  // The same with the caller's memory: exe.run({rlx::input_from("x", xs)}, {rlx::output_to("y", ys)}). Only
  // these outputs are read back, whole (Graph::Output::count), each as often as it is named; states and
  // params are written whichever outputs are. Allocates nothing once a plan for the shapes exists.
  void run(List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols = {});
  void run(const Context& context, List<InputRef> inputs, List<OutputRef> outputs, SymbolList symbols = {});
  // Returns once the work has been handed to the device, or where something has to be waited for before that
  // (kernels that are compiled, weights, words that decide how the run goes on): then it goes on as
  // rlx/pending.h says, at the latest with the next call that uses the same weights or states. No names: all
  // outputs.
  Run run_async(const RunInputs& inputs, const std::vector<std::string>& outputs = {},
                SymbolList symbols = {});
  Run run_async(const Context& context, const RunInputs& inputs, const std::vector<std::string>& outputs = {},
                SymbolList symbols = {});
  // The outputs stay on the device, in memory of their own, whole (Graph::Output::count). No names: all
  // outputs. Waits only where the run must be looked at: branches, loops, sizes that only it knows, and i64
  // that may not fit.
  NamedDeviceTensors run_on_device(const RunInputs& inputs, const std::vector<std::string>& outputs = {},
                                   SymbolList symbols = {});
  NamedDeviceTensors run_on_device(const Context& context, const RunInputs& inputs,
                                   const std::vector<std::string>& outputs = {}, SymbolList symbols = {});

  // After each run from now on, keeps an output on the device for the next run, whose input then needs no
  // data. A second call for the same input takes the place of the first. What is kept belongs to the
  // executable, whatever the contexts of its runs: for sequences, use states.
  void feed(std::string_view input, std::string_view output);

  // The states of runs that name no context, and the same by name.
  Context context() const;
  Tensor read_state(std::string_view name) const;
  void write_state(std::string_view name, const Tensor& value);
  void reset_states();  // all of them to zeros

  // Starts over on another device, after a loss: params must be set again, states are zero, feeds stay. With
  // a store, its tensors are the params.
  void rebuild(const Device& device);
  void rebuild(const Store& store);

  // The graph after optimisation.
  std::shared_ptr<const Graph> graph() const;
  // The plan for these values of the symbols; it is made if there is none yet.
  std::string plan_text(const SymbolValues& symbols = {}) const;
  PlanReport plan_report(const SymbolValues& symbols = {}) const;
  // The kernels that were chosen so far, by problem, for CompileOptions::choices.
  std::string choices() const;
  int64_t dispatch_count() const;  // of the plan that ran last; 0 if there is none yet
  // Made so far. Where it grows with every run, sizes change more than the plans that are kept can serve
  // (Graph::set_capacity, CompileOptions::max_plans).
  int64_t plan_count() const;
  MemoryReport memory() const;

  // One run with a timestamp around each dispatch.
  std::vector<DispatchReport> profile(const RunInputs& inputs, SymbolList symbols = {});
  // With CompileOptions::keep_intermediates: what a node of graph() had in the last run.
  Tensor value(std::string_view node, int32_t output = 0) const;

 private:
  friend struct ExecutableAccess;
  explicit Executable(std::unique_ptr<Impl> impl);
  Impl& impl() const;  // an error after a move
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
RLX_EXPORT_END
