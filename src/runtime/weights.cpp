#include "runtime/weights.h"

#include <algorithm>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "kernels/lowering.h"
#include "runtime/transfer.h"

namespace rlx {

// Fills buffers one after the other, each up to the device's limit.
class Weights::Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}
  Placement place(int64_t bytes, std::string_view name) {
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

namespace {

int64_t bytes_of(const TensorType& type) { return storage_bytes(type.dtype, type.shape.elements().value()); }

// The parts of a concat are written one by one, so that one of them can change alone.
Target for_loading(Target target) {
  target.forced.emplace("concat", "copies");
  return target;
}

constexpr size_t kNoCone = SIZE_MAX;
constexpr size_t kSeveralCones = SIZE_MAX - 1;

// The cone that uses each storage.
std::vector<size_t> users(const Program& program, const std::vector<Cone>& cones) {
  std::vector<size_t> out(program.storages.size(), kNoCone);
  for (size_t c = 0; c < cones.size(); ++c) {
    for (size_t i : cones[c].dispatches) {
      for (const Operand& o : program.dispatches[i].operands) {
        if (!o.present()) continue;
        size_t& user = out[static_cast<size_t>(o.storage)];
        user = user == kNoCone || user == c ? c : kSeveralCones;
      }
    }
  }
  return out;
}

}  // namespace

Weights::Weights(std::shared_ptr<gpu::Device> device, const LoadSplit& split, const Target& target)
    : device_(std::move(device)) {
  add_leaves(split.main);
  for (const LoadSplit::Joined& joined : split.joined) {
    for (const LoadSplit::Joined::Part& part : joined.parts)
      entries_.try_emplace(part.name, Entry{.type = part.type});
    entries_.at(joined.name).derived = true;
  }
  for (const Graph::Output& out : split.load.outputs()) entries_.at(out.name).derived = true;

  Packer packer(static_cast<int64_t>(device_->caps().max_buffer_bytes));
  place_leaves(packer, split);
  const Program program = lower(split.load, for_loading(target));
  load_names_ = program.names;
  const std::vector<Cone> cones = find_cones(program, split.load);
  add_leaves(split.load);
  std::vector<Placement> placements = place_load_phase(packer, program, cones);
  packer.close();  // what follows is written by kernels, weights are not: they must not share a buffer
  if (program.overflow >= 0) {
    const auto words = static_cast<size_t>(program.overflow);
    placements[words] = packer.place(program.storages[words].bytes, "overflow");
    packer.close();
  }
  for (auto& [name, e] : entries_) {
    if (e.kind == LeafKind::state) state_bytes_ += place(packer, name, e);
  }
  for (int64_t bytes : packer.sizes) buffers_.push_back(create_storage(*device_, bytes, "weights"));
  if (program.overflow >= 0) {
    const Placement& place = placements[static_cast<size_t>(program.overflow)];
    overflow_ = {&buffer(place.buffer), static_cast<uint64_t>(place.offset),
                 static_cast<uint64_t>(place.bytes)};
  }
  for (const Cone& cone : cones) bind_cone(program, cone, placements);
  for (size_t s = 0; s < placements.size(); ++s) {
    if (const std::shared_ptr<const Tensor>& table = program.storages[s].table)
      rlx::upload(*device_, buffer(placements[s].buffer), placements[s].offset, table->dtype(),
                  table->bytes(), name_of(program.storages[s]));
  }
  load_constants(split);
}

const std::string& Weights::name_of(const Storage& storage) const {
  return load_names_[static_cast<size_t>(storage.node)].name;
}

int64_t Weights::place(Packer& packer, std::string_view name, Entry& e) {
  e.place = packer.place(bytes_of(e.type), name);
  return e.place.bytes;
}

// Params and constants that runs read, and what the load phase makes.
void Weights::place_leaves(Packer& packer, const LoadSplit& split) {
  for (const LoadSplit::Joined& joined : split.joined) {
    Entry& whole = entries_.at(joined.name);
    weight_bytes_ += place(packer, joined.name, whole);
    int64_t offset = whole.place.offset;
    for (const LoadSplit::Joined::Part& part : joined.parts) {
      entries_.at(part.name).place = {whole.place.buffer, offset, bytes_of(part.type)};
      offset += bytes_of(part.type);
    }
  }
  for (auto& [name, e] : entries_) {
    if (e.kind != LeafKind::state && e.place.buffer < 0)
      (e.derived ? derived_bytes_ : weight_bytes_) += place(packer, name, e);
  }
}

// Where the storages of the load phase are that stay; buffer -1 for those that exist while a cone runs.
std::vector<Placement> Weights::place_load_phase(Packer& packer, const Program& program,
                                                 const std::vector<Cone>& cones) {
  const std::vector<size_t> user = users(program, cones);
  std::vector<Placement> placements(program.storages.size());
  for (const Program::Output& out : program.outputs)
    placements[static_cast<size_t>(program.operand(out).storage)] = entries_.at(out.name).place;
  for (size_t s = 0; s < placements.size(); ++s) {
    const Storage& storage = program.storages[s];
    const Cone* const cone = user[s] < cones.size() ? &cones[user[s]] : nullptr;
    if (storage.leaf) {
      Entry& e = entries_.at(name_of(storage));
      const bool is_param = e.kind == LeafKind::param;
      if (is_param && cone) e.cone = user[s];
      // On the device for its cone only, if that needs no other param: it is then given anew when it changes.
      e.staged = e.place.buffer < 0 && cone && cone->params.size() == (is_param ? 1 : 0);
      if (e.place.buffer < 0 && !e.staged && user[s] != kNoCone)
        weight_bytes_ += place(packer, name_of(storage), e);
      placements[s] = e.place;
    } else if (placements[s].buffer < 0 && !storage.overflow && (user[s] == kSeveralCones || storage.table)) {
      placements[s] = packer.place(storage.bytes, name_of(storage));
      derived_bytes_ += storage.bytes;
    }
  }
  return placements;
}

// What depends on constants alone runs first of all.
void Weights::bind_cone(const Program& program, const Cone& cone, std::vector<Placement> placements) {
  const std::vector<int64_t> sizes =
      place_cone(program, cone, static_cast<int32_t>(buffers_.size()), device_->caps(), placements);
  loading_sizes_.resize(std::max(loading_sizes_.size(), sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) loading_sizes_[i] = std::max(loading_sizes_[i], sizes[i]);
  LoadCone& made = cones_.emplace_back(load_dispatches_.size(), 0, cone.params.empty());
  for (size_t i : cone.dispatches) {
    for (BoundDispatch& d : bind_dispatch(program.dispatches[i], placements, device_->caps()))
      load_dispatches_.push_back(std::move(d));
    if (overflow_.buffer)
      made.before.push_back(overflow_.clearing(static_cast<size_t>(program.dispatches[i].node), 1));
  }
  made.count = load_dispatches_.size() - made.first;
  for (size_t s = 0; s < placements.size(); ++s) {
    if (!program.storages[s].leaf || placements[s].buffer < 0) continue;
    Entry& e = entries_.at(name_of(program.storages[s]));
    if (e.staged) e.place = placements[s];
  }
}

void Weights::add_leaves(const Graph& top) {
  for_each_graph(top, [&](const Graph& graph) {
    for (const Node& n : graph.nodes()) {
      // The constants of bodies are tables of the plans, since their names are not unique.
      const bool named = n.op->is(LeafKind::param) || n.op->is(LeafKind::state);
      if (named || (n.op->is(LeafKind::constant) && &graph == &top)) add_leaf(n);
    }
  });
}

void Weights::add_leaf(const Node& n) {
  const TensorType& type = n.outputs[0];
  if (!type.shape.is_static()) {
    fail("the {} '{}' has the symbolic shape {}; bind its symbols when compiling", n.op->name(), n.name,
         type.shape.text());
  }
  entries_.try_emplace(n.name, Entry{.type = type, .kind = *n.op->leaf()});
}

void Weights::load_constants(const LoadSplit& split) {
  if (std::ranges::contains(cones_, true, &LoadCone::dirty)) begin_loading();
  for (const Graph* graph : {&split.main, &split.load}) {
    for (const Node& n : graph->nodes()) {
      const auto* constant = op_cast<Constant>(*n.op);
      if (!constant) continue;
      Entry& e = entries_.at(n.name);
      if (!e.set && e.place.buffer >= 0) upload(e, constant->value, n.name);
      e.set = true;
    }
  }
  for (const auto& [name, e] : entries_) missing_ += e.kind == LeafKind::param && !e.derived;
  end_loading();
}

void Weights::upload(const Entry& entry, const Tensor& value, std::string_view what) {
  rlx::upload(*device_, buffer(entry.place.buffer), entry.place.offset, entry.type.dtype, value, what);
}

const gpu::Buffer& Weights::buffer(int32_t id) const {
  const auto fixed = static_cast<int32_t>(buffers_.size());
  return id < fixed ? buffers_[static_cast<size_t>(id)] : loading_buffers_[static_cast<size_t>(id - fixed)];
}

void Weights::begin_loading() {
  if (loading_) return;
  std::vector<gpu::Buffer> made;
  for (int64_t bytes : loading_sizes_) made.push_back(create_storage(*device_, bytes, "loading"));
  loading_buffers_ = std::move(made);
  loading_ = std::make_unique<Commands>(device_, load_dispatches_,
                                        [this](int32_t id) -> const gpu::Buffer& { return buffer(id); });
}

void Weights::run_cone(size_t cone) {
  const LoadCone& c = cones_[cone];
  device_->submit({.before = c.before, .dispatches = loading_->all().subspan(c.first, c.count)});
}

// Runs the cones that wait, and lets go of what is needed for loading only. After an error it can be called
// again, and goes on where it was.
void Weights::end_loading() {
  for (size_t c = 0; c < cones_.size(); ++c) {
    if (!cones_[c].dirty) continue;
    run_cone(c);
    cones_[c].dirty = false;
  }
  std::vector<std::byte> words(overflow_.bytes);
  if (overflow_.buffer) device_->read(*overflow_.buffer, overflow_.offset, words);
  if (std::ranges::all_of(words, [](std::byte b) { return b == std::byte{0}; })) words.clear();
  overflowed_ = std::move(words);
  loading_.reset();
  loading_buffers_.clear();
}

void Weights::finish_loading() {
  if (missing_ > 0) fail_missing();
  if (loading_) end_loading();
  check_overflow(overflowed_, load_names_);
}

std::vector<Placement> Weights::placements(const Program& program, const Graph& graph) const {
  std::vector<Placement> out(program.storages.size());
  for (const auto& [name, storage] : program.leaves)
    out[static_cast<size_t>(storage)] = entries_.at(name).place;
  for (size_t s = 0; s < out.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (storage.leaf == LeafKind::constant) out[s] = entries_.at(graph.node(storage.node).name).place;
  }
  return out;
}

bool Weights::has_param(std::string_view name) const {
  const auto it = entries_.find(name);
  return it != entries_.end() && it->second.kind == LeafKind::param && !it->second.derived;
}

Weights::Entry& Weights::require(std::string_view name, LeafKind kind) {
  const auto wanted = [&](const Entry& e) { return e.kind == kind && !e.derived; };
  const auto it = entries_.find(name);
  if (it != entries_.end() && wanted(it->second)) return it->second;
  std::vector<std::string> names;
  for (const auto& [n, e] : entries_) {
    if (wanted(e)) names.push_back(n);
  }
  const std::string known = excerpt(joined(names), 200);
  fail(ErrorKind::invalid_argument, "the graph has no {} named '{}' (it has: {})",
       kind == LeafKind::state ? "state" : "param", name, known.empty() ? "none" : known);
}

Weights::Entry& Weights::require_param(std::string_view name, DType given) {
  Entry& entry = require(name, LeafKind::param);
  const DType wanted = entry.type.dtype;
  const bool rounds = given == DType::f32 && (wanted == DType::f16 || wanted == DType::bf16);
  if (given != wanted && !rounds) {
    fail(ErrorKind::invalid_argument, "the param '{}' has type {}, but {} values were given", name,
         to_string(wanted), to_string(given));
  }
  return entry;
}

void Weights::set_param(std::string_view name, DType dtype, std::span<const std::byte> host) {
  const TensorType& type = require_param(name, dtype).type;
  if (const size_t bytes = host_bytes_of(dtype, type.shape.elements().value()); host.size() != bytes) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, {} bytes, but {} bytes were given", name,
         type.text(), bytes, host.size());
  }
  set_params({{name, Tensor(dtype, type.shape.values(), host, nullptr)}});
}

Weights::Entry& Weights::require_param(const NewParam& param) {
  Entry& entry = require_param(param.name, param.value.dtype());
  if (param.value.shape() != entry.type.shape.values()) {
    fail(ErrorKind::invalid_argument, "the param '{}' is {}, but {} was given", param.name, entry.type.text(),
         param.value.type_text());
  }
  return entry;
}

void Weights::put(std::string_view name, const Entry& entry, const Tensor& value) {
  if (entry.place.buffer >= 0) upload(entry, value, name);
  if (entry.staged) {
    run_cone(*entry.cone);
  } else if (entry.cone) {
    cones_[*entry.cone].dirty = true;
  }
}

void Weights::set_params(std::vector<NewParam> params) {
  for (const NewParam& p : params) require_param(p);
  const auto entry = [&](const NewParam& p) -> Entry& { return entries_.find(p.name)->second; };
  // Those without a value come first: as long as they can still fail to be read, no value has been replaced.
  std::ranges::stable_partition(params, [&](const NewParam& p) { return !entry(p).set; });
  for (NewParam& p : params) {
    if (entry(p).set) p.value = ready_to_upload(p.value, p.name);
  }
  if (std::ranges::any_of(params, [&](const NewParam& p) { return entry(p).cone.has_value(); }))
    begin_loading();
  size_t tried = 0;
  try {
    while (tried < params.size()) {
      const NewParam& p = params[tried++];
      put(p.name, entry(p), p.value);
    }
  } catch (...) {
    for (const NewParam& p : std::span(params).first(tried)) missing_ += std::exchange(entry(p).set, false);
    throw;
  }
  for (const NewParam& p : params) missing_ -= !std::exchange(entry(p).set, true);
}

void Weights::write_state(std::string_view name, const Tensor& value) {
  const Entry& entry = require(name, LeafKind::state);
  if (value.dtype() != entry.type.dtype || value.shape() != entry.type.shape.values()) {
    fail(ErrorKind::invalid_argument, "the state '{}' is {}, but {} was given", name, entry.type.text(),
         value.type_text());
  }
  upload(entry, ready_to_upload(value, name), name);
}

Tensor Weights::read_state(std::string_view name) {
  const Entry& entry = require(name, LeafKind::state);
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
    if (e.kind != LeafKind::state) continue;
    device_->clear(buffers_[static_cast<size_t>(e.place.buffer)], static_cast<uint64_t>(e.place.offset),
                   static_cast<uint64_t>(round_up(e.place.bytes, 4)));
  }
}

void Weights::fail_missing() const {
  std::string names;
  for (const auto& [name, e] : entries_) {
    const bool waits = e.kind == LeafKind::param && !e.derived && !e.set;
    if (waits && names.size() < 200) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  fail(ErrorKind::invalid_argument, "{} of the graph's params ha{} no value yet: {}; call set_param",
       missing_, missing_ == 1 ? "s" : "ve", names);
}

}  // namespace rlx
