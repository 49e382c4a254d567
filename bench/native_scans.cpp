// What bounds the scans on a CPU: the cases selective_scan and gated_delta of `rlx bench` beside the same
// loops in C++ on one core, and both beside a + b c of the same bytes. A loop that needs many times as long
// as a + b c is bound by its arithmetic, whoever runs it.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <print>
#include <vector>

#include "measure/bench_cases.h"
#include "measure/measure.h"
#include "rlx/device.h"

#if defined(__x86_64__)
#define RLX_WIDE __attribute__((target("avx2,fma")))
#else
#define RLX_WIDE
#endif

namespace rlx::measure {
namespace {

std::vector<float> numbers(size_t count, float from, float to) {
  std::vector<float> out(count);
  uint32_t state = 1;
  for (float& x : out) {
    state = state * 1664525u + 1013904223u;
    x = from + (to - from) * static_cast<float>(state >> 8) * 0x1p-24f;
  }
  return out;
}

// e^x by the polynomial of src/ops/state_space/lib/decay.wgsl, in a form that compilers vectorise.
RLX_WIDE inline float decay(float x) {
  const float t = std::clamp(x * 1.44269504f, -127.f, 128.f);
  const float rounded = t + 12582912.f;
  const float f = t - (rounded - 12582912.f);
  float p = f * 0.000154697322f + 0.00134100008f;
  p = f * p + 0.00961803086f;
  p = f * p + 0.0555029735f;
  p = f * p + 0.240226507f;
  p = f * p + 0.693147242f;
  p = f * p + 1.f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(rounded) << 23));
}

constexpr size_t kSteps = 1024;

struct Selective {
  static constexpr size_t kChannels = 1536, kStates = 16, kBlock = 32;
  std::vector<float> x = numbers(kSteps * kChannels, -1, 1), delta = numbers(kSteps * kChannels, 0.01f, 0.1f),
                     z = numbers(kSteps * kChannels, -1, 1), a = numbers(kStates * kChannels, -16, -1),
                     b = numbers(kSteps * kStates, -1, 1), c = numbers(kSteps * kStates, -1, 1),
                     y = numbers(kSteps * kChannels, 0, 1);

  RLX_WIDE void run() {
    for (size_t first = 0; first < kChannels; first += kBlock) {
      std::array<std::array<float, kBlock>, kStates> h = {};
      for (size_t t = 0; t < kSteps; ++t) {
        const float* const steps = &delta[t * kChannels + first];
        const float* const in = &x[t * kChannels + first];
        std::array<float, kBlock> sum = {};
        for (size_t s = 0; s < kStates; ++s) {
          const float bs = b[t * kStates + s], cs = c[t * kStates + s];
          const float* const rate = &a[s * kChannels + first];
          for (size_t i = 0; i < kBlock; ++i) {
            h[s][i] = decay(steps[i] * rate[i]) * h[s][i] + steps[i] * in[i] * bs;
            sum[i] += h[s][i] * cs;
          }
        }
        const float* const gate = &z[t * kChannels + first];
        for (size_t i = 0; i < kBlock; ++i)
          y[t * kChannels + first + i] = sum[i] * gate[i] / (1.f + decay(-gate[i]));
      }
    }
  }
  RLX_WIDE void multiply() {
    for (size_t i = 0; i < y.size(); ++i) y[i] = x[i] + delta[i] * z[i];
  }
};

struct GatedDelta {
  static constexpr size_t kHeads = 8, kWidth = 128;
  std::vector<float> q = numbers(kSteps * kHeads * kWidth, -1, 1), k = numbers(q.size(), -0.1f, 0.1f),
                     v = numbers(q.size(), -1, 1), g = numbers(kSteps * kHeads, -1, 0),
                     beta = numbers(kSteps * kHeads, 0, 1), y = numbers(q.size(), 0, 1);

  RLX_WIDE void run() {
    using Row = std::array<float, kWidth>;
    for (size_t head = 0; head < kHeads; ++head) {
      std::array<Row, kWidth> state = {};
      for (size_t t = 0; t < kSteps; ++t) {
        const size_t at = t * kHeads + head, first = at * kWidth;
        const float keep = decay(g[at]);
        Row known = {}, read = {}, error = {};
        for (size_t i = 0; i < kWidth; ++i) {
          for (size_t j = 0; j < kWidth; ++j) {
            state[i][j] *= keep;
            known[j] += state[i][j] * k[first + i];
          }
        }
        for (size_t j = 0; j < kWidth; ++j) error[j] = beta[at] * (v[first + j] - known[j]);
        for (size_t i = 0; i < kWidth; ++i) {
          for (size_t j = 0; j < kWidth; ++j) {
            state[i][j] += k[first + i] * error[j];
            read[j] += state[i][j] * q[first + i];
          }
        }
        for (size_t j = 0; j < kWidth; ++j) y[first + j] = read[j];
      }
    }
  }
  RLX_WIDE void multiply() {
    for (size_t i = 0; i < y.size(); ++i) y[i] = q[i] + k[i] * v[i];
  }
};

double median_cpu_ms(auto&& run) {
  std::vector<double> times(11);
  for (double& ms : times) {
    const double before = process_cpu_ms();
    run();
    ms = process_cpu_ms() - before;
  }
  std::ranges::nth_element(times, times.begin() + 5);
  return times[5];
}

template <class Loop>
void compare(const char* name, const Device& device) {
  const Case& c = *find_case(name);
  Loop loop;
  const double native = median_cpu_ms([&] { loop.run(); });
  const double bytes = median_cpu_ms([&] { loop.multiply(); });
  const double here = run_case_graph(c.graph(), {}, device, 2).time.cpu_ms;
  const double here_bytes = baseline_cpu_ms(c.scaled.beside, c.scaled.usual, device, 2);
  std::println("{:15} {:10.2f} {:10.2f} {:8.1f} {:10.2f} {:10.2f} {:8.1f} {:14.2f}", name, native, bytes,
               native / bytes, here, here_bytes, here / here_bytes, here / native);
}

}  // namespace
}  // namespace rlx::measure

int main() {
  const rlx::Device device = rlx::Device::open();
  std::println(
      "CPU ms                 C++    a + b c    ratio     device    a + b c    ratio   device / C++");
  rlx::measure::compare<rlx::measure::Selective>("selective_scan", device);
  rlx::measure::compare<rlx::measure::GatedDelta>("gated_delta", device);
}
