// A run from the call to its last submit: plan, weights, inputs, submits.
#include <algorithm>

#include "base/fail.h"
#include "runtime/executable.h"
#include "runtime/transfer.h"

namespace rlx {

namespace {

bool is_shape(const Shape& shape, const std::vector<int64_t>& sizes) {
  return std::ranges::equal(sizes, shape, [](int64_t size, const Dim& dim) { return dim.is(size); });
}

void check_input(const DevicePlan::InputSlot& slot, const InputRef& given, const gpu::Device& device) {
  if (given.dtype != slot.type.dtype) {
    fail(ErrorKind::invalid_argument, "the input '{}' has type {}, but {} values were given", slot.name,
         to_string(slot.type.dtype), to_string(given.dtype));
  }
  if (!given.shape.empty() && !is_shape(slot.type.shape, given.shape)) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
         slot.type.shape.text(), Shape(given.shape).text());
  }
  if (given.on_device) {
    const DeviceTensor::Impl& tensor = DeviceTensorAccess::get(*given.on_device);
    if (tensor.device.get() != &device)
      fail(ErrorKind::invalid_argument, "the tensor for the input '{}' is on another device", slot.name);
    if (!is_shape(slot.type.shape, tensor.shape)) {
      fail(ErrorKind::invalid_argument, "the input '{}' is {}, but {} was given", slot.name,
           slot.type.shape.text(), Shape(tensor.shape).text());
    }
    return;
  }
  if (given.bytes != slot.host_bytes) {
    fail(ErrorKind::invalid_argument, "the input '{}' is {}, {} bytes, but {} bytes were given", slot.name,
         slot.type.text(), slot.host_bytes, given.bytes);
  }
  if (!given.data && given.bytes > 0)
    fail(ErrorKind::invalid_argument, "the input '{}' has {} bytes at a null pointer", slot.name,
         given.bytes);
}

std::span<const std::byte> bytes_of(const InputRef& given) {
  return {static_cast<const std::byte*>(given.data), given.bytes};
}

}  // namespace

void Executable::Impl::check_inputs(const DevicePlan& plan, List<InputRef> inputs) const {
  for (const DevicePlan::InputSlot& slot : plan.inputs()) {
    if (const auto it = std::ranges::find(inputs, slot.name, &InputRef::name); it != inputs.end()) {
      check_input(slot, *it, *device_side->store->device);
      if (!it->on_device) check_elements(slot.type.dtype, bytes_of(*it), slot.name);
    } else if (!fed_to(slot)) {
      fail(ErrorKind::invalid_argument, "the input '{}' ({}) was not given", slot.name, slot.type.text());
    }
  }
}

void Executable::Impl::prepare(DevicePlan& plan, List<InputRef> inputs,
                               const std::shared_ptr<Context::Impl>& context) {
  device_side->weights.check_loaded();
  plan.select(device_side->store->with_room({this, context.get()},
                                            [&] { return device_side->weights.states_in(context); }));
  for (const DevicePlan::InputSlot& slot : plan.inputs()) {
    const auto given = std::ranges::find(inputs, slot.name, &InputRef::name);
    const gpu::Buffer& to = plan.buffer(slot.place.buffer);
    if (given != inputs.end() && !given->on_device) {
      write_elements(*device_side->store->device, to, slot.place.offset, slot.type.dtype, bytes_of(*given));
      continue;
    }
    const DeviceTensor::Impl& from =
        DeviceTensorAccess::get(given == inputs.end() ? *fed_to(slot) : *given->on_device);
    if (from.bytes() > 0)
      before.push_back({&from.buffer, 0, &to, static_cast<uint64_t>(slot.place.offset), from.bytes()});
  }
  if (const OverflowWords words = plan.overflow(); words.buffer) before.push_back(words.clearing());
  device_side->weights.wrote_params();  // whoever reads them next does so after this run
}

// What an earlier run has left for the input, if it has the size of this run's.
const DeviceTensor* Executable::Impl::fed_to(const DevicePlan::InputSlot& slot) const {
  if (device_side->compiled.options.force_input_upload) return nullptr;
  const auto feed = std::ranges::find(feeds, slot.name, &Feed::input);
  const bool fits = feed != feeds.end() && feed->value && feed->value->dtype() == slot.type.dtype &&
                    is_shape(slot.type.shape, feed->value->shape());
  return fits ? &*feed->value : nullptr;
}

void Executable::Impl::add_readback(const DevicePlan& plan, const DevicePlan::OutputSlot& slot,
                                    uint64_t& total) {
  const uint64_t bytes = readback_bytes(slot.device_bytes);
  if (bytes > 0) copies.push_back({&plan.buffer(slot.buffer), slot.offset, nullptr, total, bytes});
  total += bytes;
}

uint64_t Executable::Impl::add_overflow(const DevicePlan& plan, uint64_t& total) {
  const OverflowWords words = plan.overflow();
  if (words.buffer) copies.push_back({words.buffer, words.offset, nullptr, total, words.bytes});
  return std::exchange(total, total + words.bytes);
}

void Executable::Impl::add_on_device(const DevicePlan& plan, const DevicePlan::OutputSlot& slot,
                                     const DeviceTensor& tensor) {
  const uint64_t bytes = readback_bytes(slot.device_bytes);
  if (bytes > 0)
    copies.push_back(
        {&plan.buffer(slot.buffer), slot.offset, &DeviceTensorAccess::get(tensor).buffer, 0, bytes});
}

void Executable::Impl::add_feeds(const DevicePlan& plan) {
  for (Feed& feed : feeds) {
    const DevicePlan::OutputSlot& from = plan.output(feed.output);
    if (!feed.next || feed.next->dtype() != from.type.dtype ||
        !std::ranges::equal(feed.next->shape(), from.dims))
      feed.next = DeviceTensorAccess::make(device_side->store->device, from.type.dtype,
                                           {from.dims.begin(), from.dims.end()});
    add_on_device(plan, from, *feed.next);
  }
}

void Executable::Impl::note_run(const DevicePlan& plan) {
  for (Feed& feed : feeds) std::swap(feed.value, feed.next);
  report_run(plan);
}

void Executable::Impl::submit(const DevicePlan& plan, std::span<const size_t> commands, const gpu::Work& work,
                              std::vector<DispatchReport>* times) {
  const size_t count = work.dispatches.size();
  gpu::Work piece = work;
  size_t first = 0;
  do {
    const size_t end = plan.end_of_submit(commands, first, count);
    piece.dispatches = work.dispatches.subspan(first, end - first);
    piece.after = end == count ? work.after : std::span<const gpu::Copy>();
    piece.readback = end == count ? work.readback : nullptr;
    submit_piece(plan, {commands, first}, piece, times);
    piece.before = {};
    first = end;
  } while (first < count);
}

void Executable::Impl::submit_piece(const DevicePlan& plan, const Piece& of, const gpu::Work& work,
                                    std::vector<DispatchReport>* times) {
  ++submits;
  const bool traces = diagnostics && diagnostics->traces();
  if ((!times && !traces) || work.dispatches.empty()) {
    device_side->store->device->submit(work);
    return;
  }
  const double start_us = traces ? diagnostics->now_us() : 0;
  std::vector<DispatchReport> part = submit_timed(plan, of, work);
  if (traces) diagnostics->timed(start_us, part);
  if (!times) return;
  // After those of the submits before: what the host does in between is not a dispatch's time.
  const uint64_t end = times->empty() ? 0 : times->back().end_ns;
  for (DispatchReport& d : part) {
    d.begin_ns += end;
    d.end_ns += end;
    times->push_back(std::move(d));
  }
}

void Executable::Impl::report_run(const DevicePlan& plan) {
  if (!diagnostics) return;
  diagnostics->ran(*device_side->compiled.graph,
                   [&](std::string_view node, int32_t output) { return plan.read_value(node, output); });
}

std::vector<DispatchReport> Executable::Impl::submit_timed(const DevicePlan& plan, const Piece& of,
                                                           const gpu::Work& work) {
  const std::vector<gpu::DispatchTime> times = device_side->store->device->submit_timed(work);
  std::vector<DispatchReport> out;
  for (size_t i = 0; i < times.size(); ++i) {
    const size_t step = of.step(i);
    const BoundDispatch& d = plan.dispatches()[step];
    out.push_back({plan.names()[static_cast<size_t>(d.node)].name, d.kernel->name, d.variant.text(),
                   times[i].begin_ns - times[0].begin_ns, times[i].end_ns - times[0].begin_ns,
                   static_cast<int64_t>(step)});
  }
  return out;
}

// --- A run, from the call to the last submit ---

std::shared_ptr<Executable::Impl::ActiveRun> Executable::Impl::launch(const RunRequest& request,
                                                                      std::shared_ptr<RunCaller> keep) {
  device_side->store->finish_active();  // its own, and those of others that may write the same params
  before.clear();
  copies.clear();
  device_side->symbols.bind(*device_side->compiled.graph, request.inputs, request.symbols);
  const std::shared_ptr<Context::Impl>& context = context_of(request.context);
  const std::shared_ptr<DevicePlan> plan = device_side->store->with_room(
      {this, context.get()}, [&] { return device_side->plans.find(device_side->symbols); });
  if (plan && device_side->weights.is_loaded() &&
      Runner::waits_for_nothing(*device_side->store->device, *plan)) {
    // The steps of go(), with nothing to wait for: nothing is allocated.
    request.caller.add_data();
    check_inputs(*plan, request.inputs);
    gpu::Readback* const readback = add_outputs(request.caller, *plan, *context);
    prepare(*plan, request.inputs, context);
    device_side->last = plan;
    add_feeds(*plan);
    submit(*plan, {},
           {.before = before,
            .dispatches = plan->commands(),
            .after = copies,
            .readback = readback,
            .what = plan->what()},
           request.times);
    note_run(*plan);
    return nullptr;
  }
  active = std::make_shared<ActiveRun>(*this, request, std::move(keep));
  active->task = go(*active);
  const std::shared_ptr<ActiveRun> run = active;
  return run->advance(false) ? nullptr : run;
}

void Executable::Impl::launch_and_wait(const RunRequest& request) {
  if (const std::shared_ptr<ActiveRun> run = launch(request)) run->advance(true);
}

Task<> Executable::Impl::go(ActiveRun& run) {
  const auto with_room = [&](auto action) {
    return Store::Impl::with_room_later(device_side->store->device, {this, run.context.get()},
                                        device_side->store.get(), action);
  };
  run.plan = co_await with_room([&] { return make_plan(); });
  report_if_new(*run.plan);
  run.request.caller.add_data();
  check_inputs(*run.plan, run.request.inputs);
  // What is wrong with the outputs is found before anything is changed, unless their sizes come later.
  if (!run.plan->has_segments()) run.readback = add_outputs(run.request.caller, *run.plan, *run.context);
  if (!device_side->weights.is_loaded()) co_await with_room([&] { return device_side->weights.load(); });
  prepare(*run.plan, run.request.inputs, run.context);
  device_side->last = run.plan;
  Runner runner(*device_side->store->device, *run.plan, before, run);
  co_await runner.run();
  note_run(*run.plan);
}

Task<std::shared_ptr<DevicePlan>> Executable::Impl::make_plan() {
  device_side->weights.need_buffers();
  co_return co_await device_side->plans.get(device_side->symbols);
}

gpu::Readback* Executable::Impl::add_outputs(RunCaller& caller, const DevicePlan& plan,
                                             const Context::Impl& context) {
  return device_side->store->with_room({this, &context}, [&] {
    copies.clear();
    return caller.add_outputs(plan);
  });
}

Executable::Impl::ActiveRun::ActiveRun(Impl& executable, const RunRequest& asked,
                                       std::shared_ptr<RunCaller> kept)
    : exe(executable),
      store(exe.device_side->store),
      request(asked),
      keep(std::move(kept)),
      context(exe.context_of(asked.context)) {}

bool Executable::Impl::ActiveRun::advance(bool block) {
  if (!done) {
    const std::shared_ptr<ActiveRun> self = exe.active;  // until the end of this
    try {
      done = task.advance(position, block);
      if (!done) return false;
      task.take();
    } catch (...) {
      done = true;
      error = std::current_exception();
    }
    end();
  }
  if (error) std::rethrow_exception(error);
  return true;
}

void Executable::Impl::ActiveRun::cancel() {
  if (done) return;
  const std::shared_ptr<ActiveRun> self = exe.active;  // until the end of this
  done = true;
  end();
}

void Executable::Impl::ActiveRun::end() {
  task = {};
  keep.reset();
  plan.reset();
  exe.active.reset();
}

void Executable::Impl::ActiveRun::submit(std::span<const size_t> commands, const gpu::Work& work) {
  exe.submit(*plan, commands, work, request.times);
}

void Executable::Impl::ActiveRun::add_outputs(gpu::Work& work) {
  if (!readback) readback = exe.add_outputs(request.caller, *plan, *context);
  exe.add_feeds(*plan);
  work.after = exe.copies;
  work.readback = *readback;
}

void Executable::Impl::finish_active() {
  if (!active) return;
  const std::shared_ptr<ActiveRun> run = active;
  try {
    run->advance(true);
  } catch (...) {
    // Whoever waits for that run is told.
  }
}

}  // namespace rlx
