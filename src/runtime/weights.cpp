#include "runtime/weights.h"

#include <algorithm>

#include "base/fail.h"
#include "ir/op.h"
#include "kernels/lowering.h"
#include "runtime/transfer.h"

namespace rlx {

namespace {

// Fills buffers one after the other, each up to the device's limit.
class Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}
  Placement place(int64_t bytes, const std::string& name) {
    const int64_t padded = round_up(bytes, kBindingAlignment);
    if (padded > max_bytes_) {
      fail(ErrorKind::out_of_memory, "'{}' needs {} bytes, but the largest buffer of the device has {}", name,
           bytes, max_bytes_);
    }
    if (sizes.empty() || sizes.back() + padded > max_bytes_) sizes.push_back(0);
    const Placement p{static_cast<int32_t>(sizes.size()) - 1, sizes.back(), bytes};
    sizes.back() += padded;
    return p;
  }
  // What follows goes into a new buffer.
  void close() {
    if (!sizes.empty() && sizes.back() > 0) sizes.push_back(0);
  }
  std::vector<int64_t> sizes;

 private:
  int64_t max_bytes_;
};

}  // namespace

Weights::Weights(std::shared_ptr<gpu::Device> device, const Graph& graph) : device_(std::move(device)) {
  Packer packer(static_cast<int64_t>(device_->caps().max_buffer_bytes));
  const auto place = [&](bool states) {
    for (const Node& n : graph.nodes()) {
      const bool is_param = n.op->is(LeafKind::param);
      const bool is_state = n.op->is(LeafKind::state);
      if (states ? !is_state : !is_param && !n.op->is(LeafKind::constant)) continue;
      const TensorType& type = n.outputs[0];
      if (!type.shape.is_static()) {
        fail("the {} '{}' has the symbolic shape {}; bind its symbols when compiling", n.op->name(), n.name,
             type.shape.text());
      }
      const int64_t bytes = storage_bytes(type.dtype, type.shape.elements().value());
      entries_[n.name] = {type, packer.place(bytes, n.name), is_param, is_state, !is_param};
      (states ? state_bytes_ : weight_bytes_) += bytes;
      missing_ += is_param;
    }
  };
  place(false);
  packer.close();  // states are written by kernels, weights are not: they must not share a buffer
  place(true);
  for (int64_t bytes : packer.sizes) {
    buffers_.push_back(device_->create_buffer(
        gpu::BufferUse::storage, static_cast<uint64_t>(std::max<int64_t>(bytes, 256)), "weights"));
  }
  for (const Node& n : graph.nodes()) {
    const auto* constant = op_cast<Constant>(*n.op);
    if (constant) upload(entries_.at(n.name), constant->value.bytes(), n.name);
  }
}

void Weights::upload(const Entry& entry, std::span<const std::byte> host, std::string_view what) {
  rlx::upload(*device_, buffers_[static_cast<size_t>(entry.place.buffer)], entry.place.offset,
              entry.type.dtype, host, what);
}

std::vector<Placement> Weights::placements(const Program& program, const Graph& graph) const {
  std::vector<Placement> out(program.storages.size());
  for (size_t s = 0; s < out.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (!storage.leaf || storage.leaf == LeafKind::input) continue;
    const Entry* entry = find(graph.node(storage.node).name);
    check(entry != nullptr, "every param, constant and state has a place");
    out[s] = entry->place;
  }
  return out;
}

const Weights::Entry* Weights::find(std::string_view name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

Weights::Entry& Weights::require(std::string_view name, bool state) {
  const auto it = entries_.find(name);
  if (it != entries_.end() && (state ? it->second.is_state : it->second.is_param)) return it->second;
  std::vector<std::string> names;
  for (const auto& [n, e] : entries_) {
    if (state ? e.is_state : e.is_param) names.push_back(n);
  }
  const std::string known = excerpt(joined(names), 200);
  fail(ErrorKind::invalid_argument, "the graph has no {} named '{}' (it has: {})", state ? "state" : "param",
       name, known.empty() ? "none" : known);
}

void Weights::set_param(std::string_view name, DType dtype, std::span<const std::byte> host) {
  Entry& entry = require(name, false);
  const int64_t elements = entry.type.shape.elements().value();
  const bool rounds =
      dtype == DType::f32 && (entry.type.dtype == DType::f16 || entry.type.dtype == DType::bf16);
  if (dtype != entry.type.dtype && !rounds) {
    fail(ErrorKind::invalid_argument, "the param '{}' has type {}, but {} values were given", name,
         to_string(entry.type.dtype), to_string(dtype));
  }
  if (const size_t bytes = host_bytes_of(dtype, elements); host.size() != bytes) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, {} bytes, but {} bytes were given", name,
         entry.type.text(), bytes, host.size());
  }
  std::vector<std::byte> rounded;
  if (rounds) host = rounded = rounded_to(entry.type.dtype, host);
  upload(entry, host, name);
  missing_ -= !entry.set;
  entry.set = true;
  ++version_;
}

void Weights::write_state(std::string_view name, const Tensor& value) {
  const Entry& entry = require(name, true);
  if (value.dtype() != entry.type.dtype || value.shape() != entry.type.shape.values()) {
    fail(ErrorKind::invalid_argument, "the state '{}' is {}, but {} was given", name, entry.type.text(),
         value.type_text());
  }
  upload(entry, value.bytes(), name);
}

Tensor Weights::read_state(std::string_view name) {
  const Entry& entry = require(name, true);
  const auto elements = static_cast<size_t>(entry.type.shape.elements().value());
  std::vector<std::byte> device(elements * device_bytes(entry.type.dtype));
  device_->read(buffers_[static_cast<size_t>(entry.place.buffer)], static_cast<uint64_t>(entry.place.offset),
                device);
  std::vector<std::byte> host(elements * host_bytes(entry.type.dtype));
  from_device(entry.type.dtype, device, host);
  return Tensor(entry.type.dtype, entry.type.shape.values(), std::move(host));
}

void Weights::reset_states() {
  for (const auto& [name, e] : entries_) {
    if (!e.is_state) continue;
    device_->clear(buffers_[static_cast<size_t>(e.place.buffer)], static_cast<uint64_t>(e.place.offset),
                   static_cast<uint64_t>(round_up(e.place.bytes, 4)));
  }
}

void Weights::require_all() const {
  if (missing_ == 0) return;
  std::string names;
  for (const auto& [name, e] : entries_) {
    if (!e.set && names.size() < 200) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  fail(ErrorKind::invalid_argument, "{} of the graph's params ha{} no value yet: {}; call set_param",
       missing_, missing_ == 1 ? "s" : "ve", names);
}

}  // namespace rlx
