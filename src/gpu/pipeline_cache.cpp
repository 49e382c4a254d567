// Pipelines: found in memory, or compiled, many at a time.
#include <algorithm>
#include <charconv>
#include <fstream>
#include <ranges>

#include "base/format.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "gpu/core.h"

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

// Throws if the WGSL or the layout is wrong.
std::shared_ptr<const Pipeline::Impl> compile(Core& core, const PipelineRequest& request) {
  if (!core.wgsl_dir.empty()) write_module(core.wgsl_dir, request);
  Call call(core);
  auto result = std::make_shared<Pipeline::Impl>();
  result->request = request;
  result->layout = make_layout(core.device, request);
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

struct Missing {
  const PipelineRequest* request = nullptr;
  uint64_t hash = 0;
  PipelinePtr compiled;
};

}  // namespace

const std::string& Pipeline::label() const {
  static const std::string none;
  return impl_ ? impl_->request.label : none;
}

std::vector<Pipeline> Device::pipelines(std::span<const PipelineRequest> requests) {
  const Call call(*core_);
  Core& core = *core_;
  std::vector<Pipeline> found(requests.size());
  std::vector<Missing> missing;
  {
    const std::lock_guard lock(core.pipelines_mutex);
    for (size_t i = 0; i < requests.size(); ++i) {
      const uint64_t hash = hash_of(requests[i]);
      found[i].impl_ = find(core, requests[i], hash);
      const bool known = found[i] || std::ranges::any_of(missing, [&](const Missing& other) {
                           return other.hash == hash && same_contents(*other.request, requests[i]);
                         });
      if (known) {
        ++core.memory_hits;
      } else {
        missing.push_back({.request = &requests[i], .hash = hash, .compiled = nullptr});
      }
    }
  }
  if (missing.empty()) return found;

  // On our own threads: Dawn's asynchronous creation is no faster, parses the WGSL on the calling thread, and
  // its worker threads delay the destruction of the device by 100 ms.
  const auto total = static_cast<int64_t>(missing.size());
  std::mutex made_mutex;
  int64_t made = 0;
  core.report(ProgressStage::pipelines, 0, total);
  parallel_for(total, 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      missing[i].compiled = compile(core, *missing[i].request);
      const std::lock_guard lock(made_mutex);
      core.report(ProgressStage::pipelines, ++made, total);
    }
  });

  const std::lock_guard lock(core.pipelines_mutex);
  for (const Missing& entry : missing) {
    ++core.pipelines_created;
    // Another thread may have made the same one first; then that one is kept.
    if (!find(core, *entry.request, entry.hash)) {
      core.pipelines.emplace(entry.hash, CachedPipeline{entry.compiled, ++core.pipeline_clock});
    }
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!found[i]) found[i].impl_ = find(core, requests[i], hash_of(requests[i]));
  }
  missing.clear();  // its references are no longer valid
  trim(core);
  return found;
}

void Device::check_wgsl(const PipelineRequest& request) {
  Call call(*core_);
  make_module(*core_, request);
  check_compiled(call, request);
}

Pipeline Device::pipeline(const PipelineRequest& request) { return pipelines({&request, 1}).front(); }

}  // namespace rlx::gpu
