// The weights of one model on one device, for any number of executables.
//
//   rlx::Store store(device);
//   store.set(model.weights);                              // mapped files are not copied
//   rlx::Executable prefill = rlx::compile(prompt_graph, store);
//   rlx::Executable decode = rlx::compile(step_graph, store);
//
// A param of the graphs is the tensor of that name in the store, and is on the device once, however many
// executables read it; what their load phases derive from params is shared too where it is the same. The same
// name with another type or shape is an error of the compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/device.h"
#include "rlx/device_tensor.h"
#include "rlx/executable.h"
#include "rlx/export.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A handle; copies share the tensors. Any thread may use it: runs of its executables and changes of its
// tensors take turns.
class Store {
 public:
  explicit Store(const Device& device);
  // A move is a copy, so that no handle is ever empty.
  Store(const Store&) = default;
  Store& operator=(const Store&) = default;

  Device device() const;

  // Gives tensors new values, all or none. They reach the device when an executable needs them. The store
  // keeps the tensors that it is given, which costs nothing where they are views of a mapped file, so that
  // their memory on the device can be given up and filled again. f32 values are also accepted for f16 and
  // bf16 params, and rounded. A tensor of the device is copied there, and that copy stays.
  void set(std::string_view name, const Tensor& value);
  void set(const NamedTensors& values);
  void set(std::string_view name, const DeviceTensor& value);

  std::vector<TensorInfo> tensors() const;  // that have a value, by name
  bool contains(std::string_view name) const;
  // The value: of a tensor that graphs have written (training), what the last run left.
  Tensor read(std::string_view name) const;
  // Grows with every change, by set() or by a graph; 0 for what has no value.
  uint64_t version(std::string_view name) const;

  struct Use {
    uint64_t tensor_bytes = 0;   // on the device, of tensors as they are
    uint64_t derived_bytes = 0;  // and of what load phases have made of them
  };
  Use use() const;

  struct Impl;

 private:
  friend struct StoreAccess;
  explicit Store(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rlx
RLX_EXPORT_END
