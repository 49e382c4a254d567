// The inside of an Executable.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "rlx/session.h"
#include "runtime/diagnostics.h"
#include "runtime/instance.h"
#include "runtime/weights.h"

namespace rlx {

struct Executable::Impl {
  Impl(std::shared_ptr<gpu::Device> d, const Graph& source_graph, const CompileOptions& compile_options);

  // All below are called with `mutex` held.
  Instance& instance_for(std::span<const InputRef> inputs, SymbolRefs symbols);
  Instance& instance_for(const Bindings& bindings);
  void upload_inputs(Instance& instance, std::span<const InputRef> inputs);
  // Encodes and submits; copies the wanted outputs into the readback. Offsets there are in `copies`.
  void submit(Instance& instance, gpu::Readback* readback, std::span<const std::string_view> outputs);
  const Instance::OutputSlot& output_slot(Instance& instance, std::string_view name) const;
  void bind_symbols(std::span<const InputRef> inputs, SymbolRefs symbols);
  // With `capacities`, memory is reserved for those values of the symbols.
  std::unique_ptr<Instance> make_instance(const Bindings& capacities, Graph now, Program program);
  const Instance& planned_instance(const Bindings& bindings);
  PlanReport plan_report(const Instance& instance) const;
  // The dispatches of the instance with the device's clock around each, from the first one on.
  std::vector<DispatchReport> submit_timed(const Instance& instance, const gpu::Work& work);
  Tensor read_value(const Instance& instance, int32_t node, int32_t output) const;

  std::mutex mutex;
  std::shared_ptr<gpu::Device> device;
  CompileOptions options;
  ForcedVariants forced;
  Graph source;  // as given, for rebuild
  Graph graph;   // after optimisation
  std::unique_ptr<Weights> weights;

  struct Plan {
    Bindings key;      // capacity symbols stand at their capacity
    Bindings current;  // what the parameters were written for
    std::unique_ptr<Instance> instance;
  };
  std::list<Plan> plans;  // most recently used first
  Instance* last = nullptr;

  struct Symbol {
    std::string name;
    int64_t value = -1;
    int64_t capacity = 0;  // 0: none
  };
  std::vector<Symbol> symbols;  // of the graph, with the values of the run at hand
  struct Feed {
    std::string input, output;
  };
  std::vector<Feed> feeds;
  std::vector<gpu::Copy> copies;  // scratch of submit, kept to allocate nothing
  std::vector<gpu::Copy> feed_copies;
  int64_t submits = 0;
  int64_t plans_made = 0;
  std::unique_ptr<Diagnostics> diagnostics;  // null unless DebugOptions ask for something
};

}  // namespace rlx
