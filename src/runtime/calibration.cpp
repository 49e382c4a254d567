#include "runtime/calibration.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <vector>

#include "base/border.h"
#include "base/fail.h"
#include "base/flags.h"
#include "base/json.h"
#include "rlx/compile.h"
#include "rlx/device_tensor.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/linear_algebra.h"
#include "runtime/device_access.h"

namespace rlx {

namespace fs = std::filesystem;

// --- The file ---

namespace {

// Another number for files whose fields mean something else.
constexpr int kVersion = 1;

struct Field {
  const char* name;
  double Calibration::* value;
};
constexpr Field kNumbers[] = {{"sgemm_gflops", &Calibration::sgemm_gflops},
                              {"memory_bw_gbps", &Calibration::memory_bw_gbps},
                              {"cache_bw_gbps", &Calibration::cache_bw_gbps},
                              {"dispatch_ns", &Calibration::dispatch_ns},
                              {"submit_ns", &Calibration::submit_ns},
                              {"roundtrip_overhead_ns", &Calibration::roundtrip_overhead_ns}};
struct Text {
  const char* name;
  std::string Calibration::* value;
};
constexpr Text kTexts[] = {{"device_name", &Calibration::device_name},
                           {"backend", &Calibration::backend},
                           {"driver", &Calibration::driver}};

std::string folder_or_usual(const std::string& folder) { return folder.empty() ? cache_folder() : folder; }

fs::path file_in(const std::string& folder, std::string_view device_name) {
  return fs::path(folder) / Calibration::file_name(device_name);
}

// Why the calibration is not of this device; "" if it is.
std::string mismatch(const Calibration& c, const AdapterInfo& info) {
  if (c.device_name != info.name)
    return formatted("it is of the adapter '{}', not of '{}'", c.device_name, info.name);
  if (c.backend != info.backend) return formatted("it was measured with {}, not {}", c.backend, info.backend);
  if (c.driver != info.driver)
    return formatted("it was measured with the driver '{}', which is '{}' now", c.driver, info.driver);
  return "";
}

// Nothing where there is no file; `passed_over` says why one is not used.
std::optional<Calibration> stored(const AdapterInfo& info, const std::string& folder,
                                  std::string& passed_over) {
  if (folder.empty()) return std::nullopt;
  const fs::path path = file_in(folder, info.name);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  // A calibration has some hundred bytes; what is longer is something else.
  std::string text(1 << 16, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  try {
    Calibration out = Calibration::from_json(text);
    passed_over = mismatch(out, info);
    if (passed_over.empty()) return out;
  } catch (const Error& e) {
    passed_over = e.what();
  }
  passed_over = formatted("{} is passed over: {}", path.string(), passed_over);
  return std::nullopt;
}

}  // namespace

std::string Calibration::file_name(std::string_view device_name) {
  const auto is_kept = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::string slug(device_name);
  for (char& c : slug) c = is_kept(c) ? c : '_';
  return "wgpu-calib-" + slug + ".json";
}

std::string Calibration::to_json() const {
  Json out = Json::object({{"version", kVersion}});
  for (const Text& t : kTexts) out.set(t.name, this->*t.value);
  for (const Field& f : kNumbers) out.set(f.name, this->*f.value);
  return out.text(2) + "\n";
}

Calibration Calibration::from_json(std::string_view text) try {
  const std::optional<Json> json = Json::read(text);
  if (!json) fail(ErrorKind::invalid_file, "the text is no JSON");
  const auto member = [&](const char* name) {
    std::optional<Json> found = json->member(name);
    if (!found) fail(ErrorKind::invalid_file, "it has no '{}'", name);
    return *std::move(found);
  };
  if (const auto version = member("version").number(); !version || *version != kVersion)
    fail(ErrorKind::invalid_file, "its version is {}, and this program reads {}", member("version").text(),
         kVersion);
  Calibration out;
  for (const Text& t : kTexts) {
    const Json value = member(t.name);
    const std::optional<std::string> words = value.string();
    if (!words) fail(ErrorKind::invalid_file, "'{}' is {}, which is no text", t.name, value.text());
    out.*t.value = *words;
  }
  for (const Field& f : kNumbers) {
    const Json value = member(f.name);
    const std::optional<double> number = value.number();
    // Estimates divide by them.
    if (!number || !std::isfinite(*number) || *number <= 0)
      fail(ErrorKind::invalid_file, "'{}' is {}, which is no positive number", f.name, value.text());
    out.*f.value = *number;
  }
  return out;
} catch (...) {
  throw_as_error("reading a calibration");
}

std::string Calibration::save(const std::string& cache_dir) const try {
  const std::string folder = folder_or_usual(cache_dir);
  if (folder.empty())
    fail(ErrorKind::invalid_file, "there is no folder for it: neither HOME nor RLX_CACHE_DIR is set");
  const fs::path path = file_in(folder, device_name);
  std::error_code error;
  fs::create_directories(folder, error);
  // Renamed into place when complete: another process never sees half a file.
  fs::path temporary = path;
  temporary += formatted(".{:08x}.tmp", std::random_device()());
  std::ofstream out(temporary, std::ios::binary);
  out << to_json();
  out.close();
  if (out) fs::rename(temporary, path, error);
  if (!out || error) {
    fs::remove(temporary, error);
    fail(ErrorKind::invalid_file, "{} cannot be written", path.string());
  }
  return path.string();
} catch (...) {
  throw_as_error("writing a calibration");
}

// --- Measuring ---

namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// The least that `once` returns, which is nanoseconds.
template <class F>
double least_of(const CalibrationOptions& o, F&& once) {
  for (int64_t i = 0; i < o.warm_up; ++i) once();
  double least = once();
  for (int64_t i = 1; i < o.repeats; ++i) least = std::min(least, once());
  return std::max(least, 1.0);  // a clock may not have moved
}

double device_ns(Executable& exe, const RunInputs& inputs) {
  double sum = 0;
  for (const DispatchReport& d : exe.profile(inputs)) sum += static_cast<double>(d.end_ns - d.begin_ns);
  return sum;
}

Tensor ones(int64_t elements) { return Tensor::full(DType::f32, {elements}, 1); }

// y = -x
Executable negation(const Device& device, int64_t elements) {
  Graph g;
  g.name = "copy";
  g.output("y", -g.input("x", DType::f32, {elements}));
  return compile(g, device);
}

double product_gflops(const Device& device, const CalibrationOptions& o) {
  const int64_t n = o.product_size;
  Graph g;
  g.name = "product";
  const Value x = g.input("x", DType::f32, {n, n});
  g.output("y", matmul(x, g.param("w", DType::f32, {n, n})));
  Executable exe = compile(g, device);
  const Tensor one = Tensor::full(DType::f32, {n, n}, 1);
  exe.set_param("w", one);
  const NamedTensors inputs = {{"x", one}};
  const double ns = least_of(o, [&] { return device_ns(exe, inputs); });
  return 2 * std::pow(static_cast<double>(n), 3) / ns;  // operations per ns are 10^9 per second
}

double copy_gbps(const Device& device, const CalibrationOptions& o, int64_t bytes) {
  const auto most = static_cast<int64_t>(
      std::min(device.caps().max_binding_bytes, device.caps().max_buffer_bytes) / sizeof(float));
  const int64_t elements = std::clamp<int64_t>(bytes / 8, 4, std::max<int64_t>(most / 4 * 4, 4));
  Executable exe = negation(device, elements);
  const NamedDeviceTensors inputs = {{"x", DeviceTensor(device, ones(elements))}};
  const double ns = least_of(o, [&] { return device_ns(exe, inputs); });
  return 8 * static_cast<double>(elements) / ns;
}

// Runs that compute next to nothing.
struct Overheads {
  double dispatch_ns, submit_ns, roundtrip_ns;
};
Overheads overheads(const Device& device, const CalibrationOptions& o) {
  constexpr int64_t kElements = 16;
  Executable exe = negation(device, kElements);
  const Tensor x = ones(kElements);
  Overheads out = {};
  {
    const NamedTensors inputs = {{"x", x}};
    out.dispatch_ns = least_of(o, [&] { return device_ns(exe, inputs); });
  }
  std::vector<float> y(kElements);
  const auto values = x.span<float>();
  out.roundtrip_ns = least_of(o, [&] {
    const auto start = Clock::now();
    exe.run({input_from("x", values)}, {output_to("y", y)});
    return ns_since(start);
  });
  const DeviceTensor from(device, x);
  DeviceTensor to = DeviceTensor::zeros(device, DType::f32, {kElements});
  out.submit_ns = least_of(o, [&] {
    to.read();  // nothing is under way
    const auto start = Clock::now();
    exe.run({input_from("x", from)}, {output_to("y", to)});
    return ns_since(start);
  });
  return out;
}

void check_budget(const CalibrationOptions& o) {
  const auto positive = [](const char* name, int64_t value) {
    if (value < 1) fail(ErrorKind::invalid_argument, "{} is {}; it must be at least 1", name, value);
  };
  positive("product_size", o.product_size);
  positive("copy_bytes", o.copy_bytes);
  positive("repeats", o.repeats);
  if (o.warm_up < 0) fail(ErrorKind::invalid_argument, "warm_up is {}; it cannot be negative", o.warm_up);
}

std::string folder_for(const Device& device, const CalibrationOptions& o) {
  return folder_or_usual(o.cache_dir.empty() ? DeviceAccess::get(device)->cache_folder() : o.cache_dir);
}

void tell(const CalibrationOptions& o, const std::string& text) {
  if (o.log && !text.empty()) o.log(text);
}

}  // namespace

Calibration Calibration::measure(const Device& device, const CalibrationOptions& options) try {
  check_budget(options);
  const AdapterInfo& info = device.info();
  if (!device.caps().timestamps) {
    fail(ErrorKind::unsupported, "the device '{}' has no timestamps, so there is nothing to measure with",
         info.name);
  }
  const Overheads runs = overheads(device, options);
  return {.device_name = info.name,
          .backend = info.backend,
          .driver = info.driver,
          .sgemm_gflops = product_gflops(device, options),
          .memory_bw_gbps = copy_gbps(device, options, options.copy_bytes),
          .cache_bw_gbps = copy_gbps(device, options, options.copy_bytes / 32),
          .dispatch_ns = runs.dispatch_ns,
          .submit_ns = runs.submit_ns,
          .roundtrip_overhead_ns = runs.roundtrip_ns};
} catch (...) {
  throw_as_error("calibrating a device");
}

std::optional<Calibration> Calibration::load(const Device& device, const CalibrationOptions& options) try {
  std::string passed_over;
  std::optional<Calibration> out = stored(device.info(), folder_for(device, options), passed_over);
  tell(options, passed_over);
  return out;
} catch (...) {
  throw_as_error("reading a calibration");
}

Calibration Calibration::load_or_measure(const Device& device, const CalibrationOptions& options) try {
  if (!options.again) {
    if (std::optional<Calibration> known = load(device, options)) return *std::move(known);
  }
  Calibration out = measure(device, options);
  try {
    out.save(folder_for(device, options));
  } catch (const Error& e) {
    tell(options, e.what());
  }
  return out;
} catch (...) {
  throw_as_error("calibrating a device");
}

// --- Use ---

MeasuredSpeed speed_of(const Calibration& c) {
  return {.product_gflops = c.sgemm_gflops,
          .memory_gbps = c.memory_bw_gbps,
          .cache_gbps = c.cache_bw_gbps,
          .dispatch_ns = c.dispatch_ns,
          .roundtrip_ns = c.roundtrip_overhead_ns};
}

void check_adapter(const Calibration& c, const std::string& adapter) {
  if (c.device_name == adapter) return;
  fail(ErrorKind::invalid_argument, "the calibration is of the adapter '{}', and the device is '{}'",
       c.device_name, adapter);
}

void take_stored_calibration(gpu::Device& device, const DeviceOptions& options) {
  if (!options.calibrated || env_flag("RLX_NO_CALIBRATION")) return;
  std::string passed_over;
  if (const auto known = stored(device.info(), folder_or_usual(options.cache_dir), passed_over))
    device.set_measured(speed_of(*known));
}

}  // namespace rlx
