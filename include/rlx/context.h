// The states of one sequence, one chat or one training run: what a graph keeps from run to run.
//
//   rlx::Context chat(device);
//   exe.run(chat, {{"token", token}}, {{"pos", 3}});
//   rlx::Context other = chat.fork();     // the same prefix, from here on on its own
#pragma once

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

// A handle; copies share the states. One executable runs in any number of contexts, and executables whose
// states of the same name have the same type (prefill and decode) may use the same one. A state is there from
// the first run of an executable that has it, as zeros, or from the first write. Any thread may use it.
class Context {
 public:
  explicit Context(const Device& device);
  // A move is a copy, so that no handle is ever empty.
  Context(const Context&) = default;
  Context& operator=(const Context&) = default;

  std::vector<TensorInfo> states() const;  // so far, by name
  bool contains(std::string_view name) const;
  Tensor read(std::string_view name) const;
  NamedTensors read() const;  // all of them: to save a context
  // A state that is not there yet is made. Another type or shape than it has is an error.
  void write(std::string_view name, const Tensor& value);
  void write(std::string_view name, const DeviceTensor& value);
  void write(const NamedTensors& values);  // all or none
  void reset();                            // all to zeros

  // Another context with the same states, copied on the device.
  Context fork() const;

  // Moves the states to the host, so that the device has room; the next run or write brings them back.
  void park();
  bool parked() const;
  uint64_t bytes() const;  // on the device

  struct Impl;

 private:
  friend struct ContextAccess;
  explicit Context(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rlx
RLX_EXPORT_END
