#include "runtime/weights.h"

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/states.h"
#include "ir/subgraphs.h"
#include "kernels/lowering.h"
#include "runtime/derivation.h"
#include "runtime/transfer.h"

namespace rlx {

// Gives out parts of new buffers, one after the other, each up to the device's limit. The buffers are empty
// until they are made.
class Weights::Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}
  Allocation place(int64_t bytes, std::string_view name) {
    const int64_t padded = round_up(bytes, kBindingAlignment);
    if (padded > max_bytes_) {
      fail(ErrorKind::out_of_memory, "'{}' needs {} bytes, but the largest buffer of the device has {}", name,
           bytes, max_bytes_);
    }
    if (parts_.empty() || parts_.back().bytes + padded > max_bytes_)
      parts_.push_back({std::make_shared<gpu::Buffer>(), 0});
    const Allocation out{parts_.back().buffer, parts_.back().bytes, bytes};
    parts_.back().bytes += padded;
    return out;
  }
  // In a buffer of its own.
  Allocation place_alone(int64_t bytes, std::string_view name) {
    close();
    Allocation out = place(bytes, name);
    close();
    return out;
  }
  // What follows goes into a new buffer.
  void close() {
    if (!parts_.empty() && parts_.back().bytes > 0) parts_.push_back({std::make_shared<gpu::Buffer>(), 0});
  }
  int64_t bytes() const {
    int64_t out = 0;
    for (const Part& part : parts_) out += part.bytes;
    return out;
  }
  void make(gpu::Device& device) {
    for (const Part& part : parts_) {
      if (part.bytes > 0) *part.buffer = create_storage(device, part.bytes, "weights");
    }
  }

 private:
  struct Part {
    std::shared_ptr<gpu::Buffer> buffer;
    int64_t bytes;
  };
  int64_t max_bytes_;
  std::vector<Part> parts_;
};

namespace {

int64_t bytes_of(const TensorType& type) { return storage_bytes(type.dtype, type.shape.elements().value()); }

// The parts of a concat are written one by one, so that one of them can change alone.
Target for_loading(Target target) {
  target.forced.emplace("concat", "copies");
  return target;
}

// Whether it has its buffer for itself.
bool is_alone(const Allocation& memory) {
  return static_cast<int64_t>(memory.buffer->size()) <= round_up(memory.bytes, kBindingAlignment);
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

Weights::Weights(std::shared_ptr<Store::Impl> store, const LoadSplit& split, const Target& target)
    : store_(std::move(store)), device_(store_->device) {
  add_leaves(split.main);
  for (const LoadSplit::Joined& joined : split.joined) {
    for (const LoadSplit::Joined::Part& part : joined.parts)
      entries_.try_emplace(part.name, Entry{.type = part.type});
    entries_.at(joined.name).derived = true;
  }
  for (const Graph::Output& out : split.load.outputs()) entries_.at(out.name).derived = true;
  for (const int32_t id : written_params(split.main)) {
    entries_.at(split.main.node(id).name).written = true;
    writes_params_ = true;
  }
  const Program program = lower(split.load, for_loading(target));
  load_names_ = program.names;
  const std::vector<Cone> cones = find_cones(program, split.load);

  const std::lock_guard lock(store_->mutex);
  Packer packer(static_cast<int64_t>(device_->caps().max_buffer_bytes));
  place_leaves(packer, split);
  add_leaves(split.load);
  for (const auto& [name, e] : entries_) {
    if (e.kind == LeafKind::param && !e.derived) store_->check_type(name, e.type);
  }
  std::vector<Placement> placements = place_load_phase(packer, program, cones);
  packer.close();  // what follows is written by kernels, weights are not: they must not share a buffer
  Allocation words;
  if (program.overflow >= 0) {
    const auto storage = static_cast<size_t>(program.overflow);
    words = packer.place(program.storages[storage].bytes, "overflow");
    placements[storage] = placement(words);
  }
  check_room(packer.bytes());
  packer.make(*device_);
  need_buffers();  // of what is shared and has been let go of
  if (words.buffer) {
    overflow_ = {words.buffer.get(), static_cast<uint64_t>(words.offset), static_cast<uint64_t>(words.bytes)};
  }
  for (const Cone& cone : cones) bind_cone(program, cone, placements);
  for (size_t s = 0; s < placements.size(); ++s) {
    if (const std::shared_ptr<const Tensor>& table = program.storages[s].table)
      rlx::upload(*device_, buffer(placements[s].buffer), placements[s].offset, table->dtype(),
                  table->bytes(), name_of(program.storages[s]));
  }
}

// Before anything is made or uploaded.
void Weights::check_room(int64_t bytes) const {
  const MemoryUse use = device_->memory();
  const uint64_t room = use.budget_bytes - std::min(use.bytes, use.budget_bytes);
  if (use.budget_bytes == 0 || static_cast<uint64_t>(bytes) <= room) return;
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [name, e] : entries_) largest.emplace_back(bytes_of(e.type), name);
  std::ranges::sort(largest, std::greater<>());
  if (largest.size() > 3) largest.resize(3);
  fail(ErrorKind::out_of_memory,
       "the weights need {} bytes, but of the {} bytes that the device '{}' may use, {} are in use; the "
       "largest are {}",
       bytes, use.budget_bytes, device_->info().name, use.bytes,
       joined(largest, [](const auto& e) { return formatted("'{}' ({} bytes)", e.second, e.first); }));
}

const std::string& Weights::name_of(const Storage& storage) const {
  return load_names_[static_cast<size_t>(storage.node)].name;
}

Placement Weights::placement(const Allocation& memory) {
  auto known = std::ranges::find(buffers_, memory.buffer);
  if (known == buffers_.end()) known = buffers_.insert(known, memory.buffer);
  return {static_cast<int32_t>(known - buffers_.begin()), memory.offset, memory.bytes};
}

// A param that stays on the device: where the store has it already, or in new memory.
void Weights::place_param(Packer& packer, const std::string& name, Entry& e) {
  const auto found = store_->find_copies({{name, e.type}});
  // What kernels write must not share a buffer with what they only read.
  if (!found.empty() && (!e.written || is_alone(found[0]->place))) {
    e.copy = found[0];
  } else {
    // In a store that is used by others they may write any param, and each is let go of on its own.
    const bool alone = e.written || store_->keeps_sources;
    const int64_t bytes = bytes_of(e.type);
    e.copy = std::make_shared<ParamCopy>(e.type,
                                         alone ? packer.place_alone(bytes, name) : packer.place(bytes, name));
    store_->add_copy(name, e.copy);
  }
  e.place = placement(e.copy->place);
  weight_bytes_ += e.place.bytes;
}

void Weights::place_joined(Packer& packer, const LoadSplit::Joined& joined) {
  std::vector<std::pair<std::string, TensorType>> parts;
  for (const LoadSplit::Joined::Part& part : joined.parts) parts.emplace_back(part.name, part.type);
  auto copies = store_->find_copies(parts);
  Entry& whole = entries_.at(joined.name);
  if (copies.empty()) {
    Allocation rest = packer.place(bytes_of(whole.type), joined.name);
    for (const auto& [name, type] : parts) {
      Allocation own = rest;
      own.bytes = bytes_of(type);
      rest.offset += own.bytes;
      copies.push_back(std::make_shared<ParamCopy>(type, own));
      store_->add_copy(name, copies.back());
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    Entry& e = entries_.at(parts[i].first);
    e.copy = copies[i];
    e.place = placement(copies[i]->place);
  }
  whole.place = entries_.at(parts[0].first).place;
  whole.place.bytes = bytes_of(whole.type);
  weight_bytes_ += whole.place.bytes;
}

// What the load phase makes: where another executable has made the same, or in new memory.
void Weights::place_derived(Packer& packer, const std::string& name, Entry& e, const std::string& recipe) {
  if (!recipe.empty()) e.made = store_->derived[recipe].lock();
  if (!e.made) {
    const int64_t bytes = bytes_of(e.type);
    // By itself, so that it can be let go of.
    e.made = std::make_shared<DerivedTensor>(recipe.empty() ? packer.place(bytes, name)
                                                            : packer.place_alone(bytes, name));
    if (!recipe.empty()) store_->derived[recipe] = e.made;
  }
  e.place = placement(e.made->place);
  derived_bytes_ += e.place.bytes;
}

// Params and constants that runs read, and what the load phase makes.
void Weights::place_leaves(Packer& packer, const LoadSplit& split) {
  for (const LoadSplit::Joined& joined : split.joined) place_joined(packer, joined);
  for (const Graph::Output& out : split.load.outputs()) {
    const std::string recipe = store_->keeps_sources ? derivation(split.load, out.value) : "";
    place_derived(packer, out.name, entries_.at(out.name), recipe);
  }
  for (auto& [name, e] : entries_) {
    if (e.place.buffer >= 0) continue;
    if (e.kind == LeafKind::param) {
      place_param(packer, name, e);
    } else {
      e.place = placement(packer.place(bytes_of(e.type), name));
      weight_bytes_ += e.place.bytes;
    }
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
      if (e.place.buffer < 0 && !e.staged && user[s] != kNoCone) {
        if (is_param) {
          place_param(packer, name_of(storage), e);
        } else {
          e.place = placement(packer.place(bytes_of(e.type), name_of(storage)));
          weight_bytes_ += e.place.bytes;
        }
      }
      placements[s] = e.place;
    } else if (placements[s].buffer < 0 && !storage.overflow && (user[s] == kSeveralCones || storage.table)) {
      placements[s] = placement(packer.place(storage.bytes, name_of(storage)));
      derived_bytes_ += storage.bytes;
    }
  }
  return placements;
}

// What depends on constants alone runs first of all.
void Weights::bind_cone(const Program& program, const Cone& cone, std::vector<Placement> placements) {
  const std::vector<int64_t> sizes = place_cone(program, cone, weight_buffers(), device_->caps(), placements);
  loading_sizes_.resize(std::max(loading_sizes_.size(), sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) loading_sizes_[i] = std::max(loading_sizes_[i], sizes[i]);
  LoadCone& made = cones_.emplace_back(load_dispatches_.size(), 0);
  for (const int32_t param : cone.params)
    made.params.push_back(name_of(program.storages[static_cast<size_t>(param)]));
  std::set<int32_t> written;
  for (size_t i : cone.dispatches) {
    const Dispatch& d = program.dispatches[i];
    for (size_t o = 0; o < d.operands.size(); ++o) {
      if (d.operands[o].present() && d.kernel->operands[o].out) written.insert(d.operands[o].storage);
    }
    for (BoundDispatch& b : bind_dispatch(d, placements, device_->caps()))
      load_dispatches_.push_back(std::move(b));
    if (overflow_.buffer) made.before.push_back(overflow_.clearing(static_cast<size_t>(d.node), 1));
  }
  made.count = load_dispatches_.size() - made.first;
  for (const Program::Output& out : program.outputs) {
    if (written.contains(program.operand(out).storage)) made.made.push_back(entries_.at(out.name).made.get());
  }
  // Room for the versions: when they are noted, nothing may fail.
  for (DerivedTensor* derived : made.made) {
    for (const std::string& param : made.params) derived->made_of.try_emplace(param, 0);
  }
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
  std::ranges::sort(states_, {}, &State::name);
}

void Weights::add_leaf(const Node& n) {
  const TensorType& type = n.outputs[0];
  if (!type.shape.is_static()) {
    fail("the {} '{}' has the symbolic shape {}; bind its symbols when compiling", n.op->name(), n.name,
         type.shape.text());
  }
  if (!n.op->is(LeafKind::state)) {
    entries_.try_emplace(n.name, Entry{.type = type, .kind = *n.op->leaf()});
  } else if (!std::ranges::contains(states_, n.name, &State::name)) {
    states_.push_back({n.name, type});
  }
}

Task<> Weights::load_constants(const LoadSplit& split) {
  if (std::ranges::any_of(cones_, [](const LoadCone& c) { return c.params.empty(); }))
    co_await begin_loading();
  std::set<std::string_view> done;
  for (const Graph* graph : {&split.main, &split.load}) {
    for (const Node& n : graph->nodes()) {
      const auto* constant = op_cast<Constant>(*n.op);
      if (!constant || !done.insert(n.name).second) continue;
      const Entry& e = entries_.at(n.name);
      if (e.place.buffer >= 0)
        rlx::upload(*device_, any_buffer(e.place.buffer), e.place.offset, e.type.dtype, constant->value,
                    n.name);
    }
  }
  for (LoadCone& cone : cones_) {
    if (cone.params.empty()) run_cone(cone);
  }
  if (loading_) co_await end_loading();
}

const gpu::Buffer& Weights::buffer(int32_t id) const { return *buffers_[static_cast<size_t>(id)]; }

const gpu::Buffer& Weights::any_buffer(int32_t id) const {
  return id < weight_buffers() ? buffer(id) : loading_buffers_[static_cast<size_t>(id - weight_buffers())];
}

Task<> Weights::begin_loading() {
  if (!loading_) begin_loading(co_await make_pipelines(*device_, load_dispatches_, load_names_));
}

void Weights::begin_loading(std::vector<gpu::Pipeline> pipelines) {
  std::vector<gpu::Buffer> made;
  for (int64_t bytes : loading_sizes_) made.push_back(create_storage(*device_, bytes, "loading"));
  loading_buffers_ = std::move(made);
  loading_ = std::make_unique<Commands>(device_, load_dispatches_, std::move(pipelines),
                                        [this](int32_t id) -> const gpu::Buffer& { return any_buffer(id); });
}

bool Weights::is_stale(const LoadCone& cone) const {
  return std::ranges::any_of(cone.made, [&](const DerivedTensor* made) {
    return std::ranges::any_of(cone.params, [&](const std::string& param) {
      return made->made_of.find(param)->second != store_->version(param);
    });
  });
}

void Weights::run_cone(LoadCone& cone) {
  device_->submit({.before = cone.before, .dispatches = loading_->all().subspan(cone.first, cone.count)});
  cone.ran = true;
  for (DerivedTensor* made : cone.made) {
    for (const std::string& param : cone.params) made->made_of.find(param)->second = store_->version(param);
  }
}

bool Weights::is_loaded() const { return seen_ == store_->clock && !loading_; }

// Of params before the next, so that the device need not hold all of them twice.
Task<> Weights::wait_for_uploads() {
  if (std::optional<gpu::Ticket> backlog = device_->upload_backlog()) co_await *backlog;
}

// After an error it can be called again, and goes on where it was.
Task<> Weights::load() {
  for (const auto& [name, e] : entries_) {
    if (e.kind != LeafKind::param || e.derived) continue;
    co_await wait_for_uploads();
    if (store_->version(name) == 0 || (e.copy && !store_->refresh(name, *e.copy))) fail_missing();
  }
  for (LoadCone& cone : cones_) {
    if (cone.params.empty() || !is_stale(cone)) continue;
    co_await begin_loading();
    for (const std::string& param : cone.params) {
      const Entry& e = entries_.at(param);
      co_await wait_for_uploads();
      if (e.staged && !store_->fill(param, e.type, any_buffer(e.place.buffer), e.place.offset))
        fail_missing();
    }
    run_cone(cone);
  }
  if (loading_) co_await end_loading();
  seen_ = store_->clock;
}

// Lets go of what is needed for loading only.
Task<> Weights::end_loading() {
  std::vector<std::byte> words;
  if (overflow_.buffer) {
    gpu::Readback read = device_->read_later(*overflow_.buffer, overflow_.offset, overflow_.bytes);
    co_await read;
    words.assign(read.bytes().begin(), read.bytes().end());
  }
  const bool overflowed = std::ranges::any_of(words, [](std::byte b) { return b != std::byte{0}; });
  if (!overflowed) words.clear();
  overflowed_ = std::move(words);
  for (LoadCone& cone : cones_) {
    // Other executables would not know that it is wrong: they make it themselves, and see it.
    if (overflowed && cone.ran && store_->keeps_sources) {
      for (DerivedTensor* made : cone.made) {
        for (auto& [param, version] : made->made_of) version = 0;
      }
    }
    cone.ran = false;
  }
  loading_.reset();
  loading_buffers_.clear();
}

void Weights::drop(const std::set<const gpu::Buffer*>& needed) {
  if (loading_) blocking(end_loading());
  if (!store_->keeps_sources) return;
  const auto let_go = [&](const Allocation& memory) {
    // What shares a buffer stays.
    if (needed.contains(memory.buffer.get()) || !is_alone(memory)) return false;
    memory.buffer->destroy();
    return true;
  };
  for (auto& [name, e] : entries_) {
    const auto param = store_->params.find(name);
    if (e.copy && param != store_->params.end() && param->second.source && let_go(e.copy->place))
      e.copy->version = 0;
    // What depends on constants alone is not made again.
    if (e.made && !e.made->made_of.empty() && let_go(e.made->place)) {
      for (auto& [from, version] : e.made->made_of) version = 0;
    }
  }
}

void Weights::add_buffers(std::set<const gpu::Buffer*>& needed) const {
  for (const std::shared_ptr<gpu::Buffer>& buffer : buffers_) needed.insert(buffer.get());
}

void Weights::need_buffers() {
  const auto need = [&](const Allocation& memory) {
    if (!*memory.buffer)
      *memory.buffer = create_storage(*device_, round_up(memory.bytes, kBindingAlignment), "weights");
  };
  for (const auto& [name, e] : entries_) {
    if (e.copy) need(e.copy->place);
    if (e.made) need(e.made->place);
  }
}

void Weights::wrote_params() {
  if (!writes_params_) return;
  for (const auto& [name, e] : entries_) {
    if (e.written) store_->wrote(name, e.copy);
  }
}

const TensorType* Weights::param_type(std::string_view name) const {
  const auto it = entries_.find(name);
  const bool is_param = it != entries_.end() && it->second.kind == LeafKind::param && !it->second.derived;
  return is_param ? &it->second.type : nullptr;
}

void Weights::expect_param(std::string_view name) {
  if (const auto it = entries_.find(name); it != entries_.end() && it->second.staged)
    blocking(begin_loading());
}

void Weights::take_param(std::string_view name, const Tensor& value) {
  const auto it = entries_.find(name);
  if (it == entries_.end() || !it->second.staged) return;
  const Entry& e = it->second;
  LoadCone& cone = cones_[*e.cone];
  if (!is_stale(cone)) return;  // another executable has made the same
  rlx::upload(*device_, any_buffer(e.place.buffer), e.place.offset, e.type.dtype, value, name);
  ++store_->uploads;
  run_cone(cone);
}

std::vector<Placement> Weights::placements(const Program& program, const Graph& graph) const {
  std::vector<Placement> out(program.storages.size());
  for (const auto& [name, storage] : program.leaves) {
    Placement& place = out[static_cast<size_t>(storage)];
    const auto state = std::ranges::find(states_, name, &State::name);
    place = state == states_.end()
                ? entries_.at(name).place
                : Placement{weight_buffers() + static_cast<int32_t>(state - states_.begin()), 0,
                            bytes_of(state->type)};
  }
  for (size_t s = 0; s < out.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (storage.leaf == LeafKind::constant) out[s] = entries_.at(graph.node(storage.node).name).place;
  }
  return out;
}

// --- States ---

int64_t Weights::state_bytes() const {
  int64_t out = 0;
  for (const State& state : states_) out += bytes_of(state.type);
  return out;
}

const TensorType& Weights::state_type(std::string_view name) const {
  const auto it = std::ranges::find(states_, name, &State::name);
  if (it != states_.end()) return it->type;
  const std::string known = excerpt(joined(states_, &State::name), 200);
  fail(ErrorKind::invalid_argument, "the graph has no state named '{}' (it has: {})", name,
       known.empty() ? "none" : known);
}

std::shared_ptr<const StateBuffers> Weights::states_in(const std::shared_ptr<Context::Impl>& context) {
  const std::lock_guard lock(context->mutex);
  context->ran_in = store_;
  const auto known = std::ranges::find_if(known_states_, [&](const auto& states) {
    return states->generation == context->generation && states->context.lock() == context;
  });
  if (known != known_states_.end()) return *known;
  std::erase_if(known_states_, [&](const auto& states) {
    const std::shared_ptr<Context::Impl> other = states->context.lock();
    return !other || other == context;
  });
  auto made = std::make_shared<StateBuffers>();
  for (const State& state : states_) context->require(state.name, state.type);  // some may be new
  for (const State& state : states_)
    made->buffers.push_back(&context->require(state.name, state.type).buffer);
  made->context = context;
  made->generation = context->generation;
  return known_states_.emplace_back(std::move(made));
}

void Weights::fail_missing() const {
  std::string names;
  int64_t missing = 0;
  for (const auto& [name, e] : entries_) {
    if (e.kind != LeafKind::param || e.derived || store_->version(name) > 0) continue;
    ++missing;
    if (names.size() < 200) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  if (missing == 0) {
    fail(ErrorKind::invalid_argument,
         "the values of some params are no longer on the device, and the store does not keep them; set them "
         "again");
  }
  fail(ErrorKind::invalid_argument, "{} of the graph's params ha{} no value yet: {}; call set_param", missing,
       missing == 1 ? "s" : "ve", names);
}

}  // namespace rlx
