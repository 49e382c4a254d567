#include "runtime/node_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "base/fail.h"
#include "ir/op.h"
#include "ir/tolerance.h"
#include "ops/products/product_op.h"
#include "runtime/transfer.h"

namespace rlx {
namespace {

SizedNode node_of(const DevicePlan& plan, size_t work) {
  const SizedGraph& sized = plan.lowered().sized;
  return {sized.graph, sized.largest(), plan.work()[work].node, false};
}

// A program with nothing but the node.
Program program_of(const Node& n, std::vector<Storage> storages) {
  Program program;
  program.storages = std::move(storages);
  program.names.push_back({n.name, std::string(n.op->name())});
  return program;
}

void lower_into(Program& program, const SizedNode& node, const NodeOperands& operands, const Target& target) {
  Scratch scratch(program.storages, program.overflow);
  NodeLowering lowering(program, {}, target, scratch, program.dispatches);
  lowering.lower(node, operands, 0);
  program.work.push_back({.node = 0, .first = 0, .count = program.dispatches.size()});
  if (program.overflow >= 0)
    program.storages[static_cast<size_t>(program.overflow)].bytes = storage_bytes(DType::i32, 1);
}

// By estimates alone: what was measured before does not count.
Target estimating(const DevicePlan& plan, std::shared_ptr<const Chooser> chooser) {
  Target target = plan.target();
  target.chooser = std::move(chooser);
  target.choices = nullptr;
  return target;
}

// Hears what is chosen while a node is lowered.
struct Listener final : Chooser {
  bool knows(std::string_view, std::string_view) const override { return false; }
  void chosen(const Decision& d) const override {
    const auto same = [&](const KernelProblem& p) { return p.family == d.family && p.key == d.key; };
    if (std::ranges::any_of(heard, same)) return;  // a part of what was decided before
    KernelProblem& p = heard.emplace_back(std::string(d.family), std::string(d.op), std::string(d.key));
    p.all.assign(d.all.begin(), d.all.end());
    p.taken = d.all[d.taken];
    p.forced = d.reason == Decision::Reason::forced;
  }
  mutable std::vector<KernelProblem> heard;
};

// Has one candidate taken for one problem, and estimates all others.
struct OneChoice final : Chooser {
  OneChoice(const KernelProblem& of, const Candidate& candidate) : problem(of), name(candidate.text()) {}
  bool knows(std::string_view family, std::string_view key) const override {
    return family == problem.family && key == problem.key;
  }
  std::string_view settled(std::string_view, std::string_view) const override { return name; }
  const KernelProblem& problem;
  const std::string name;
};

// Storages of the trial are numbered in the order in which the node's operands name them.
NodeOperands renumbered(NodeOperands operands, std::map<int32_t, int32_t>& numbers) {
  for (OperandList* list : {&operands.inputs, &operands.outputs}) {
    for (Operand& o : *list) {
      if (!o.present()) continue;
      const auto next = static_cast<int32_t>(numbers.size());
      o.storage = numbers.try_emplace(o.storage, next).first->second;
    }
  }
  return operands;
}

// As many numbers of the type as storages are filled with, over and over. Their count is a multiple of four,
// so that each copy begins with a whole word, and no size that rows usually have.
Tensor pattern(DType dtype, const std::optional<ValueRange>& range, int64_t elements) {
  constexpr int64_t kMost = 4 * 16381;
  const int64_t count = std::min(elements, kMost);
  std::mt19937 random(1);
  if (dtype == DType::c64) {
    std::vector<float> parts(static_cast<size_t>(2 * count));
    for (float& x : parts) x = static_cast<float>(random()) * 0x1p-31F - 1;
    const auto bytes = std::as_bytes(std::span(parts));
    return Tensor(dtype, {count}, std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  if (is_float(dtype)) {
    const ValueRange r = range.value_or(ValueRange{.low = -1, .high = 1});
    std::vector<double> values(static_cast<size_t>(count));
    for (double& x : values) x = r.low + static_cast<double>(random()) * 0x1p-32 * (r.high - r.low);
    return Tensor::from_doubles(dtype, {count}, values);
  }
  const ValueRange r = range.value_or(ValueRange{.low = 0, .high = dtype == DType::bool_ ? 1.0 : 9.0});
  const auto first = static_cast<int64_t>(r.low);
  const int64_t choices = std::max<int64_t>(static_cast<int64_t>(r.high) - first, 0) + 1;
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t& x : values) x = first + static_cast<int64_t>(random()) % choices;
  return Tensor::from_ints(dtype, {count}, values);
}

// Whether the plan has the values of the storage from run to run.
bool is_kept(const Storage& storage) { return storage.leaf && *storage.leaf != LeafKind::state; }

// Of all threads of the process.
double cpu_ns() { return static_cast<double>(std::clock()) * (1e9 / CLOCKS_PER_SEC); }

// Of a CPU, which computes a workgroup on one core.
double busy_cores(std::span<const gpu::DispatchCommand> commands) {
  double most = 1;
  for (const gpu::DispatchCommand& c : commands)
    most = std::max(most, static_cast<double>(c.x) * static_cast<double>(c.y) * static_cast<double>(c.z));
  return std::min(most, static_cast<double>(std::max(std::thread::hardware_concurrency(), 1u)));
}

}  // namespace

std::vector<KernelProblem> kernel_problems(const DevicePlan& plan) {
  std::vector<KernelProblem> out;
  for (size_t w = 0; w < plan.work().size(); ++w) {
    if (!plan.work()[w].code.empty()) continue;
    const SizedNode node = node_of(plan, w);
    const Program& whole = plan.lowered().program;
    std::map<int32_t, int32_t> numbers;
    const NodeOperands operands = renumbered(node.operands(whole.values), numbers);
    std::vector<Storage> storages(numbers.size());
    for (const auto& [from, to] : numbers)
      storages[static_cast<size_t>(to)].bytes = whole.storages[static_cast<size_t>(from)].bytes;
    const auto listener = std::make_shared<Listener>();
    Program program = program_of(node.node(), std::move(storages));
    lower_into(program, node, operands, estimating(plan, listener));
    for (KernelProblem& p : listener->heard) {
      const auto known = std::ranges::find_if(
          out, [&](const KernelProblem& k) { return k.family == p.family && k.key == p.key; });
      if (known != out.end()) {
        known->works.push_back(w);
        continue;
      }
      p.works = {w};
      std::ranges::stable_sort(p.all, {}, &Candidate::ns);
      out.push_back(std::move(p));
    }
  }
  return out;
}

NodeTrial::NodeTrial(const DevicePlan& plan, size_t work)
    : plan_(plan), device_(*plan.device()), work_(work), target_(estimating(plan, nullptr)) {
  const Program& whole = plan.lowered().program;
  const SizedNode node = node_of(plan, work);
  const NodeOperands theirs = node.operands(whole.values);
  std::map<int32_t, int32_t> numbers;
  operands_ = renumbered(theirs, numbers);
  // All of them have a place of their own: none is for the trial's plan to find.
  storages_.resize(numbers.size());
  placements_.resize(numbers.size());
  memory_.resize(numbers.size());
  std::set<int32_t> kept;
  for (const auto& [from, to] : numbers) {
    const Storage& storage = whole.storages[static_cast<size_t>(from)];
    const auto at = static_cast<size_t>(to);
    storages_[at] = {.leaf = LeafKind::param, .bytes = storage.bytes};
    memory_[at] = {.storage = to, .bytes = storage.bytes};
    placements_[at] = plan.place_of(from);
    if (is_kept(storage)) kept.insert(to);
  }
  const std::vector<TensorType> types = input_types(node.graph, node.node());
  for (size_t i = 0; i < operands_.outputs.size(); ++i) {
    const Operand& o = operands_.outputs[i];
    Memory& m = memory_[static_cast<size_t>(o.storage)];
    m.dtype = o.dtype;
    m.written = true;
    kept.erase(o.storage);
  }
  for (size_t i = 0; i < operands_.inputs.size(); ++i) {
    const Operand& o = operands_.inputs[i];
    if (!o.present() || kept.contains(o.storage)) continue;
    Memory& m = memory_[static_cast<size_t>(o.storage)];
    m.dtype = o.dtype;
    m.read = true;
    m.values = pattern(o.dtype, node.node().op->sensible_values(static_cast<int64_t>(i), types),
                       device_elements_in(o.dtype, m.bytes));
  }
  // Buffers of the trial are numbered after those of the plan.
  const auto first = plan.plan().fixed_buffers + static_cast<int32_t>(plan.plan().buffers.size());
  std::erase_if(memory_, [&](const Memory& m) { return kept.contains(m.storage); });
  for (size_t i = 0; i < memory_.size(); ++i) {
    Memory& m = memory_[i];
    m.buffer = create_storage(device_, m.bytes, "tuning");
    placements_[static_cast<size_t>(m.storage)] = {first + static_cast<int32_t>(i), 0, m.bytes};
    if (m.read) fill(m);
  }
}

void NodeTrial::fill(const Memory& m) const {
  const int64_t elements = device_elements_in(m.dtype, m.bytes);
  const int64_t length = m.values.elements();
  for (int64_t done = 0; done < elements; done += length) {
    const int64_t count = std::min(length, elements - done);
    const std::span<const std::byte> bytes = m.values.bytes().first(host_bytes_of(m.dtype, count));
    write_elements(device_, m.buffer, device_bytes_of(m.dtype, done), m.dtype, bytes);
  }
}

std::unique_ptr<NodeTrial::Made> NodeTrial::make(const KernelProblem& problem,
                                                 const Candidate& candidate) const {
  const SizedNode node = node_of(plan_, work_);
  Target target = target_;
  target.chooser = std::make_shared<OneChoice>(problem, candidate);
  Program program = program_of(node.node(), storages_);
  lower_into(program, node, operands_, target);
  const std::string name = candidate.text();
  if (std::ranges::none_of(program.dispatches, [&](const Dispatch& d) { return d.variant.text() == name; }))
    fail(ErrorKind::unsupported, "the kernel '{}' cannot be made for '{}'", name, node.node().name);

  std::vector<Placement> fixed = placements_;
  fixed.resize(program.storages.size());
  const auto first = plan_.plan().fixed_buffers + static_cast<int32_t>(plan_.plan().buffers.size());
  const int32_t own = first + static_cast<int32_t>(memory_.size());
  Plan plan = make_plan(program, fixed, own, device_.caps(), {.keep_all = true});
  auto made = std::make_unique<Made>();
  for (const int64_t bytes : plan.buffers) made->buffers_.push_back(create_storage(device_, bytes, "tuning"));
  const auto buffer = [this, first, own, made = made.get()](int32_t id) -> const gpu::Buffer& {
    return id < first ? plan_.buffer(id)
           : id < own ? memory_[static_cast<size_t>(id - first)].buffer
                      : made->buffers_[static_cast<size_t>(id - own)];
  };
  for (size_t s = 0; s < program.storages.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (!storage.table) continue;
    const Placement& place = plan.placements[s];
    upload(device_, buffer(place.buffer), place.offset, storage.table->dtype(), storage.table->bytes(), name);
  }
  std::vector<gpu::Pipeline> pipelines = Commands::pipelines(device_, plan.dispatches);
  made->commands_ =
      std::make_unique<Commands>(plan_.device(), std::move(plan.dispatches), std::move(pipelines), buffer);
  return made;
}

std::vector<NodeTrial::Result> NodeTrial::run(const Made& made) const {
  for (const Memory& m : memory_) {
    if (!m.written) continue;
    if (m.read) {
      fill(m);
    } else {
      device_.clear(m.buffer, 0, m.buffer.size());
    }
  }
  device_.submit({.dispatches = made.commands()});
  std::vector<Result> out;
  for (const Operand& o : operands_.outputs) {
    const auto m = std::ranges::find(memory_, o.storage, &Memory::storage);
    std::vector<std::byte> raw(static_cast<size_t>(m->bytes));
    device_.read(m->buffer, 0, raw);
    const int64_t elements = device_elements_in(o.dtype, m->bytes);
    std::vector<std::byte> host(host_bytes_of(o.dtype, elements));
    from_device(o.dtype, raw, host);
    Result& result = out.emplace_back(o.dtype);
    if (o.dtype == DType::c64) {
      o.view.for_each_position([&](int64_t at) {
        float parts[2];
        std::memcpy(parts, host.data() + 8 * at, 8);
        result.numbers.insert(result.numbers.end(), parts, parts + 2);
      });
      continue;
    }
    const std::vector<double> all = Tensor(o.dtype, {elements}, std::move(host)).doubles();
    o.view.for_each_position([&](int64_t at) { result.numbers.push_back(all[static_cast<size_t>(at)]); });
  }
  return out;
}

std::optional<std::string> NodeTrial::difference(const std::vector<Result>& got,
                                                 const std::vector<Result>& want) const {
  const SizedNode node = node_of(plan_, work_);
  Tolerance t = node.node().op->tolerance(input_types(node.graph, node.node()));
  // Both may be off, and factors may be rounded to f16.
  t.ulps *= 2;
  t.terms *= 4;
  if (target_.precision != Precision::exact) t.ulps += 4 * 0x1p-11 / epsilon(DType::f32);
  for (size_t o = 0; o < want.size(); ++o) {
    const bool real = is_float(want[o].dtype) || want[o].dtype == DType::c64;
    // Quantised bytes may fall on the other side of a half.
    const bool bytes = want[o].dtype == DType::i8 || want[o].dtype == DType::u8;
    // What cancels out is as exact as what it is made of.
    for (const double x : want[o].numbers) {
      if (std::isfinite(x)) t.scale = std::max(t.scale, std::fabs(x));
    }
    for (size_t i = 0; i < want[o].numbers.size(); ++i) {
      const double a = got[o].numbers[i];
      const double b = want[o].numbers[i];
      const DType dtype = want[o].dtype == DType::c64 ? DType::f32 : want[o].dtype;
      const bool close = real ? compare(a, b, dtype, t).close : std::fabs(a - b) <= (bytes ? 1 : 0);
      if (!close) return formatted("element {} of output {} is {} instead of {}", i, o, a, b);
    }
  }
  return std::nullopt;
}

double NodeTrial::time(const Made& made, double expected_ns) const {
  // Of a few microseconds a clock says little; what takes milliseconds is warm enough.
  constexpr double kEnoughNs = 3e5;
  const auto again = static_cast<size_t>(std::clamp(kEnoughNs / std::max(expected_ns, 1.0), 1.0, 20.0));
  const size_t count = made.commands().size();
  if (expected_ns < kEnoughNs) device_.submit({.dispatches = made.commands()});
  std::vector<gpu::DispatchCommand> commands;
  for (size_t i = 0; i < again; ++i)
    commands.insert(commands.end(), made.commands().begin(), made.commands().end());
  const double cpu_before = cpu_ns();
  const std::vector<gpu::DispatchTime> times = device_.submit_timed({.dispatches = commands});
  if (device_.caps().software()) {
    // Its timestamps are those of the host, which count whatever else the machine does in between.
    return (cpu_ns() - cpu_before) / static_cast<double>(again) / busy_cores(made.commands());
  }
  std::vector<double> sums(again);
  for (size_t i = 0; i < times.size(); ++i)
    sums[i / count] += static_cast<double>(times[i].end_ns - times[i].begin_ns);
  return std::ranges::min(sums);
}

}  // namespace rlx
