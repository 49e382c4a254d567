// What a graph will take on a device, from a calibration alone: nothing runs.
//
//   const rlx::GraphCost cost = rlx::predict_cost(graph, device);
//   const rlx::Device best = devices[rlx::choose_device(graph, devices)];
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlx/calibration.h"
#include "rlx/compile.h"
#include "rlx/export.h"
#include "rlx/graph.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A node after optimisation.
struct NodeCost {
  std::string node;
  std::string op;
  std::string kernel = {};  // of its longest dispatch, and which of the op's kernels it is
  std::string variant = {};
  int64_t dispatches = 0;
  double bytes = 0;  // read and written, each once
  double flops = 0;  // of products and attention
  double ns = 0;
};

struct GraphCost {
  std::vector<NodeCost> nodes;  // in running order, those of bodies once; views and leaves are not among them
  double overhead_ns = 0;       // of a run, whatever it computes
  double device_ns() const;     // of all nodes
  double ns() const { return overhead_ns + device_ns(); }
};

// The time of a run whose weights are on the device. All symbols must be bound by the options; sizes that
// only the run knows are taken to be typical. An iteration of a loop counts once, and so does each branch.
// Without a calibration the estimates are those that kernels are chosen by, whose sum says little.
GraphCost predict_cost(const Graph& graph, const Device& device, const CompileOptions& options = {});

// A device and how fast it is.
struct CalibratedDevice {
  Device device;
  Calibration calibration;
};

// The index of the device on which the graph is predicted to take least. One that cannot run it is passed
// over; an error if that is so for all.
size_t choose_device(const Graph& graph, std::span<const CalibratedDevice> devices,
                     const CompileOptions& options = {});
// The same with Calibration::load_or_measure for each that has timestamps; others are estimated.
size_t choose_device(const Graph& graph, std::span<const Device> devices, const CompileOptions& options = {});

}  // namespace rlx
RLX_EXPORT_END
