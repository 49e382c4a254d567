// Pipelines: found in memory, or compiled, many at a time.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <fstream>
#include <mutex>
#include <ranges>
#include <thread>

#include "base/format.h"
#include "base/hash.h"
#include "gpu/core.h"
#include "gpu/warm_up.h"

namespace rlx::gpu {

namespace {

using PipelinePtr = std::shared_ptr<const Pipeline::Impl>;

uint64_t hash_of(const PipelineRequest& request) {
  Hash hash;
  hash.text(request.wgsl).number(request.bindings.size());
  for (const BindingKind kind : request.bindings) hash.number(static_cast<uint64_t>(kind));
  return hash.value();
}

bool same_contents(const PipelineRequest& a, const PipelineRequest& b) {
  return a.wgsl == b.wgsl && a.bindings == b.bindings;
}

// Needs pipelines_mutex.
PipelinePtr find(Core& core, const PipelineRequest& request, uint64_t hash) {
  const auto [begin, end] = core.pipelines.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    if (!same_contents(entry->second.pipeline->request, request)) continue;
    entry->second.last_asked = ++core.pipeline_clock;
    return entry->second.pipeline;
  }
  return nullptr;
}

// Forgets pipelines that only this cache uses, the least recently requested first, down to half of what is
// kept: each takes a megabyte or more of compiled code. Needs pipelines_mutex.
void trim(Core& core) {
  constexpr size_t kKeptIdle = 256;
  std::vector<decltype(core.pipelines)::iterator> idle;
  for (auto entry = core.pipelines.begin(); entry != core.pipelines.end(); ++entry) {
    if (entry->second.pipeline.use_count() == 1) idle.push_back(entry);
  }
  if (idle.size() <= kKeptIdle) return;
  std::ranges::sort(idle, {}, [](const auto& entry) { return entry->second.last_asked; });
  for (size_t i = 0; i < idle.size() - kKeptIdle / 2; ++i) core.pipelines.erase(idle[i]);
}

wgpu::BufferBindingType binding_type(BindingKind kind) {
  switch (kind) {
    case BindingKind::uniform:
      return wgpu::BufferBindingType::Uniform;
    case BindingKind::read:
      return wgpu::BufferBindingType::ReadOnlyStorage;
    case BindingKind::read_write:
      return wgpu::BufferBindingType::Storage;
  }
  return wgpu::BufferBindingType::Undefined;
}

wgpu::BindGroupLayout make_layout(const wgpu::Device& device, const PipelineRequest& request) {
  std::vector<wgpu::BindGroupLayoutEntry> entries(request.bindings.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].visibility = wgpu::ShaderStage::Compute;
    entries[i].buffer.type = binding_type(request.bindings[i]);
  }
  wgpu::BindGroupLayoutDescriptor descriptor;
  descriptor.label = std::string_view(request.label);
  descriptor.entryCount = entries.size();
  descriptor.entries = entries.data();
  return device.CreateBindGroupLayout(&descriptor);
}

// "softmax.wgsl:12": where a line of the module (from 1) comes from, or "" if it does not say.
std::string source_place(std::string_view wgsl, int64_t line) {
  std::string file;
  int64_t at = 0;
  for (const auto part : std::views::split(wgsl, '\n') | std::views::take(line)) {
    const std::string_view text(part);
    ++at;
    if (text.starts_with("//# ")) {
      const size_t space = text.rfind(' ');
      file = text.substr(4, space - 4);
      std::from_chars(text.data() + space + 1, text.data() + text.size(), at);
      --at;
    }
  }
  return file.empty() ? "" : formatted("{}:{}", file, at);
}

// The two numbers of a word ":194:7"; nothing if it is not one.
std::optional<std::pair<int64_t, std::string_view>> parse_position(std::string_view word) {
  if (!word.starts_with(':')) return std::nullopt;
  int64_t line = 0;
  const char* const word_end = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data() + 1, word_end, line);
  if (error != std::errc() || end == word_end || *end != ':') return std::nullopt;
  const std::string_view column(end + 1, word_end);
  const bool digits = std::ranges::all_of(column, [](char c) { return c >= '0' && c <= '9'; });
  if (column.empty() || !digits) return std::nullopt;
  return std::pair(line, column);
}

// Tint's ":194:7 error: ..." with the place in the sources instead of the line of the module.
std::string with_source_places(std::string_view message, std::string_view wgsl) {
  std::string out;
  while (!message.empty()) {
    const size_t word_end = std::min(message.find_first_of(" \t\n"), message.size());
    const std::string_view word = message.substr(0, word_end);
    const auto position = parse_position(word);
    const std::string place = position ? source_place(wgsl, position->first) : "";
    out += place.empty() ? std::string(word) : formatted("{}:{}", place, position->second);
    const size_t rest = std::min(message.find_first_not_of(" \t\n", word_end), message.size());
    out += message.substr(word_end, rest - word_end);
    message.remove_prefix(rest);
  }
  return out;
}

// For DeviceOptions::wgsl_dir.
void write_module(const std::filesystem::path& dir, const PipelineRequest& request) {
  const std::filesystem::path path = dir / formatted("{}-{:016x}.wgsl", request.label, hash_of(request));
  std::error_code ignored;  // the file says whether it worked
  std::filesystem::create_directories(dir, ignored);
  std::ofstream file(path);
  file << request.wgsl << std::flush;
  if (!file) fail(ErrorKind::invalid_argument, "the WGSL of a kernel cannot be written to {}", path.string());
}

// What a compiler's message says about the WGSL, without what called the compiler.
std::string_view about_wgsl(std::string_view message) {
  constexpr std::string_view kBefore = "Error while parsing WGSL: ";
  if (const size_t at = message.find(kBefore); at != std::string_view::npos)
    message.remove_prefix(at + kBefore.size());
  return message.substr(0, message.find("\n - While calling"));
}

// Throws what has been reported in this call as an error of the kernel.
void check_compiled(Call& call, const PipelineRequest& request) {
  if (const std::optional<Error> error = call.take_error()) {
    fail(ErrorKind::invalid_argument, "the kernel '{}' does not compile: {}", request.label,
         with_source_places(about_wgsl(error->what()), request.wgsl));
  }
}

wgpu::ShaderModule make_module(Core& core, const PipelineRequest& request) {
  wgpu::ShaderSourceWGSL source;
  source.code = std::string_view(request.wgsl);
  wgpu::ShaderModuleDescriptor module;
  module.nextInChain = &source;
  module.label = std::string_view(request.label);
  return core.device.CreateShaderModule(&module);
}

std::shared_ptr<Pipeline::Impl> describe(Core& core, const PipelineRequest& request) {
  auto result = std::make_shared<Pipeline::Impl>();
  result->request = request;
  result->layout = make_layout(core.device, request);
  return result;
}

// Throws if the WGSL or the layout is wrong.
std::shared_ptr<const Pipeline::Impl> compile(Core& core, const PipelineRequest& request) {
  if (!core.wgsl_dir.empty()) write_module(core.wgsl_dir, request);
  Call call(core);
  const std::shared_ptr<Pipeline::Impl> result = describe(core, request);
  wgpu::ComputePipelineDescriptor descriptor;
  descriptor.compute.module = make_module(core, request);
  check_compiled(call,
                 request);  // before the pipeline, whose error would only say that the module is invalid

  wgpu::PipelineLayoutDescriptor layout;
  layout.bindGroupLayoutCount = 1;
  layout.bindGroupLayouts = &result->layout;
  descriptor.label = std::string_view(request.label);
  descriptor.layout = core.device.CreatePipelineLayout(&layout);
  descriptor.compute.entryPoint = "main";
  result->pipeline = core.device.CreateComputePipeline(&descriptor);
  check_compiled(call, request);
  call.check();
  return result;
}

constexpr size_t kLeastForSideDevice = 16;
constexpr size_t kMostSideDevices = 7;

}  // namespace

const std::string& Pipeline::label() const {
  static const std::string none;
  return impl_ ? impl_->request.label : none;
}

struct PipelineBatch::Impl {
  Impl(std::shared_ptr<Core> with, std::vector<PipelineRequest> wanted)
      : core(std::move(with)), requests(std::move(wanted)), pipelines(requests.size()) {}
  ~Impl() { stop = true; }

  // Makes the next one, with the thread's other device if it has one; false if there is none.
  bool make_one(SideDevice* side = nullptr);
  void warm_up(const PipelinePtr& made, bool is_new, SideDevice* side);
  void add(size_t request, PipelinePtr made);
  // What a worker does.
  void work(bool with_side);
  // Whether the driver has compiled all of them, once they are made.
  bool poll_driver();

  std::shared_ptr<Core> core;
  std::vector<PipelineRequest> requests;
  std::vector<Pipeline> pipelines;  // of the requests; empty while they are being made
  std::vector<uint64_t> hashes;
  std::vector<size_t> missing;   // requests
  std::atomic<size_t> next = 0;  // of `missing`
  std::atomic<size_t> made = 0;
  std::atomic<size_t> working = 0;     // workers
  std::shared_ptr<QueueEnd> compiled;  // where the driver compiles late: when it has, after all are made
  std::atomic<bool> stop = false;
  std::atomic<bool> is_wrong = false;
  mutable std::mutex mutex;  // guards the two below, and `pipelines`
  std::exception_ptr error;
  size_t failed = 0;
  std::vector<std::jthread> workers;  // the last member: they use the others
};

void PipelineBatch::Impl::add(size_t request, PipelinePtr made_now) {
  const std::lock_guard lock(core->pipelines_mutex);
  ++core->pipelines_created;
  // Another batch may have made the same one first; then that one is kept.
  if (PipelinePtr other = find(*core, requests[request], hashes[request])) {
    made_now = std::move(other);
  } else {
    core->pipelines.emplace(hashes[request], CachedPipeline{made_now, ++core->pipeline_clock});
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (hashes[i] == hashes[request] && same_contents(requests[i], requests[request]))
      pipelines[i].impl_ = made_now;
  }
}

// A pipeline that was translated just now is new to the driver too: it is compiled on the other device, or
// this thread waits for it, so that both get as many as they can take. All others it has on disk.
void PipelineBatch::Impl::warm_up(const PipelinePtr& made_now, bool is_new, SideDevice* side) {
  if (!core->compiles_late || core->describes_pipelines) return;
  if (is_new && side && side->compile(made_now)) return;
  dispatch_nothing(*core, *made_now);
  if (is_new) core->wait(*core->end_of_queue());
}

void PipelineBatch::Impl::work(bool with_side) {
  {
    SideDevice side(*core);
    while (make_one(with_side ? &side : nullptr)) {
    }
    side.finish();
  }
  --working;
}

bool PipelineBatch::Impl::poll_driver() {
  if (!core->compiles_late || core->describes_pipelines || missing.empty() || core->lost) return true;
  const CallScope scope;
  if (!compiled) compiled = core->end_of_queue();
  return compiled->done || core->poll(compiled->future);
}

bool PipelineBatch::Impl::make_one(SideDevice* side) {
  if (stop) return false;
  const size_t i = next++;
  if (i >= missing.size()) return false;
  const CallScope scope;
  try {
    const PipelineRequest& request = requests[missing[i]];
    const uint64_t translated = DiskCache::shaders_translated_here();
    PipelinePtr made_now = core->describes_pipelines ? describe(*core, request) : compile(*core, request);
    warm_up(made_now, DiskCache::shaders_translated_here() != translated, side);
    const std::lock_guard lock(mutex);
    add(missing[i], std::move(made_now));
    core->report(ProgressStage::pipelines, static_cast<int64_t>(++made), std::ssize(missing));
  } catch (...) {
    const std::lock_guard lock(mutex);
    if (!error) {
      error = std::current_exception();
      failed = missing[i];
    }
    is_wrong = stop = true;
  }
  return true;
}

PipelineBatch::PipelineBatch() = default;
PipelineBatch::~PipelineBatch() = default;
PipelineBatch::PipelineBatch(PipelineBatch&&) noexcept = default;
PipelineBatch& PipelineBatch::operator=(PipelineBatch&&) noexcept = default;

bool PipelineBatch::ready() {
  PipelineBatch::Impl& b = *impl_;
  if (b.workers.empty() && !b.is_wrong) b.make_one();
  if (b.is_wrong) return true;
  return b.made == b.missing.size() && b.working == 0 && b.poll_driver();
}

void PipelineBatch::wait() {
  while (impl_->make_one()) {
  }
  impl_->workers.clear();  // joins them
  if (impl_->error) std::rethrow_exception(impl_->error);
  if (!impl_->poll_driver()) impl_->core->wait(*impl_->compiled);
}

ProgressReport PipelineBatch::progress() const {
  return {ProgressStage::pipelines, static_cast<int64_t>(impl_->made), std::ssize(impl_->missing)};
}

size_t PipelineBatch::failed() const { return impl_->failed; }

std::vector<Pipeline> PipelineBatch::take() {
  wait();
  const std::lock_guard lock(impl_->core->pipelines_mutex);
  if (!impl_->missing.empty()) trim(*impl_->core);
  return std::move(impl_->pipelines);
}

PipelineBatch Device::start_pipelines(std::vector<PipelineRequest> requests) {
  const Call call(*core_);
  PipelineBatch batch;
  batch.impl_ = std::make_unique<PipelineBatch::Impl>(core_, std::move(requests));
  PipelineBatch::Impl& b = *batch.impl_;
  {
    const std::lock_guard lock(core_->pipelines_mutex);
    for (size_t i = 0; i < b.requests.size(); ++i) {
      b.hashes.push_back(hash_of(b.requests[i]));
      b.pipelines[i].impl_ = find(*core_, b.requests[i], b.hashes[i]);
      const bool known =
          b.pipelines[i] || std::ranges::any_of(b.missing, [&](size_t other) {
            return b.hashes[other] == b.hashes[i] && same_contents(b.requests[other], b.requests[i]);
          });
      if (known) {
        ++core_->memory_hits;
      } else {
        b.missing.push_back(i);
      }
    }
  }
  if (b.missing.empty()) return batch;
  core_->report(ProgressStage::pipelines, 0, std::ssize(b.missing));
  if (!core_->worker_threads) return batch;
  // On our own threads: Dawn's asynchronous creation is no faster, parses the WGSL on the calling thread, and
  // its worker threads delay the destruction of the device by 100 ms. One core is left for the caller.
  const size_t cores = std::max(2u, std::thread::hardware_concurrency());
  const size_t workers = std::min(cores - 1, b.missing.size());
  // Opening another device takes as long as compiling a few pipelines, and each has threads of its own. What
  // it compiles gets here through the disk caches.
  const bool many = b.missing.size() >= kLeastForSideDevice && core_->side_options.disk_cache;
  const size_t sides = core_->compiles_late && many ? std::min(workers, kMostSideDevices) : 0;
  b.working = workers;
  for (size_t i = 0; i < workers; ++i) b.workers.emplace_back([&b, side = i < sides] { b.work(side); });
  return batch;
}

std::vector<Pipeline> Device::pipelines(std::vector<PipelineRequest> requests) {
  return start_pipelines(std::move(requests)).take();
}

void Device::check_wgsl(const PipelineRequest& request) {
  Call call(*core_);
  make_module(*core_, request);
  check_compiled(call, request);
}

void Device::describe_pipelines_only() { core_->describes_pipelines = true; }

void Device::compile_alone(const PipelineRequest& request) {
  const CallScope scope;
  const PipelinePtr made = compile(*core_, request);
  if (!core_->compiles_late) return;
  dispatch_nothing(*core_, *made);
  core_->wait(*core_->end_of_queue());
}

Pipeline Device::pipeline(PipelineRequest request) {
  std::vector<PipelineRequest> one;
  one.push_back(std::move(request));
  return pipelines(std::move(one)).front();
}

}  // namespace rlx::gpu
