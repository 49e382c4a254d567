#include "cli/demo_bert.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/fail.h"
#include "cli/arguments.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "ir/reference.h"
#include "ir/tolerance.h"
#include "measure/measure.h"
#include "measure/stopwatch.h"
#include "rlx/compile.h"
#include "rlx/models.h"

namespace rlx::cli {
namespace {

constexpr uint64_t kSeed = 20240607;

NamedTensors demo_inputs(int64_t tokens, int64_t vocab) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < tokens; ++i) ids.push_back(1000 + i * 7919 % (vocab - 1000));
  const std::vector<int64_t> dims = {1, tokens};
  return {{"input_ids", Tensor::of<int64_t>(dims, ids)},
          {"token_type_ids", Tensor::full(DType::i64, dims, 0)},
          {"attention_mask", Tensor::full(DType::i64, dims, 1)}};
}

void line(const char* title, const std::string& text) { print(formatted("  {:12} {}\n", title, text)); }

struct Difference {
  double largest = 0;  // |got - want|
  double largest_want = 0;
  double mean = 0;
};

Difference compare(const Tensor& got, const RefTensor& want) {
  Difference d;
  const std::vector<double> values = got.doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = difference(values[i], want.real[i]);
    d.largest = std::max(d.largest, error);
    d.largest_want = std::max(d.largest_want, std::fabs(want.real[i]));
    d.mean += error / static_cast<double>(values.size());
  }
  return d;
}

// Each layer ends in a LayerNorm over sums of up to 3072 products, each a few roundings of f32 next to values
// of a few units: eps * 4 * sqrt(3072) per layer, layers adding up like a random walk.
double allowed_error(const BertDemo& o, const Difference& d) {
  const double layer = epsilon(DType::f32) * 4 * std::sqrt(3072.0);
  return layer * std::sqrt(static_cast<double>(std::max<int64_t>(o.layers, 1))) *
         std::max(d.largest_want, 1.0);
}

struct Check {
  Difference difference;
  double allowed = 0;
  double reference_ms = 0;

  bool agrees() const { return difference.largest <= allowed; }
};

Check check_against_reference(const BertDemo& o, const Graph& graph, const NamedTensors& leaves,
                              const Tensor& got) {
  const measure::Stopwatch watch;
  std::map<std::string, RefTensor> want;
  {
    Progress progress("computing the same on the CPU in double precision");
    want = run_reference(graph, leaves, [&](int64_t done) { progress.update(done, graph.size(), "nodes"); });
  }
  Check out{.difference = compare(got, want.at("last_hidden_state"))};
  out.allowed = allowed_error(o, out.difference);
  out.reference_ms = watch.ms();
  return out;
}

void show(const Check& c) {
  const Difference& d = c.difference;
  line("reference", formatted("{} on the CPU, in double precision", ms_text(c.reference_ms)));
  line("max error", formatted("{:.3g} (mean {:.2g}) on values up to {:.3g}; {:.2g} would be allowed",
                              d.largest, d.mean, d.largest_want, c.allowed));
  if (c.agrees()) print("\nThe GPU and the reference agree.\n");
}

std::string dispatches_text(const PlanReport& plan, int64_t layers) {
  const auto in_layers = std::ranges::count_if(
      plan.run, [](const StepReport& s) { return s.node.starts_with("encoder.layer."); });
  std::string out = formatted("{} per run", plan.run.size());
  if (layers > 0) {
    out += formatted(" ({:.3g} per layer, {} around them)",
                     static_cast<double>(in_layers) / static_cast<double>(layers),
                     std::ssize(plan.run) - in_layers);
  }
  return out + formatted(", {} in the load phase", plan.load.size());
}

struct Result {
  std::string adapter;
  double compile_ms = 0, upload_ms = 0;
  measure::Measured time;
  MemoryReport memory;
  std::string dispatches;
  int64_t dispatch_count = 0;
  std::optional<Check> check;
};

void show(const Result& r) {
  const MemoryReport& m = r.memory;
  line("dispatches", r.dispatches);
  line("memory", formatted("weights {}, derived {}, intermediates {} (lower bound {})",
                           bytes_text(m.weight_bytes), bytes_text(m.derived_bytes),
                           bytes_text(m.intermediate_bytes), bytes_text(m.lower_bound_bytes)));
  line("compile", formatted("{}, upload of the weights {}", ms_text(r.compile_ms), ms_text(r.upload_ms)));
  line("first run", ms_text(r.time.first_ms));
  line("warm run", formatted("{} wall, {} CPU (median of {})", ms_text(r.time.wall_ms),
                             ms_text(r.time.cpu_ms), r.time.runs));
  if (r.check) show(*r.check);
}

Json to_json(const BertDemo& o, const Result& r) {
  Json out = Json::object({{"demo", "bert"},
                           {"layers", o.layers},
                           {"tokens", o.tokens},
                           {"adapter", r.adapter},
                           {"dispatches", r.dispatch_count},
                           {"weight_bytes", r.memory.weight_bytes},
                           {"intermediate_bytes", r.memory.intermediate_bytes},
                           {"compile_ms", r.compile_ms},
                           {"upload_ms", r.upload_ms},
                           {"first_run_ms", r.time.first_ms},
                           {"wall_ms", r.time.wall_ms},
                           {"cpu_ms", r.time.cpu_ms}});
  if (!r.check) return out;
  out.set("max_error", r.check->difference.largest);
  out.set("allowed_error", r.check->allowed);
  out.set("agrees", r.check->agrees());
  return out;
}

Result measured(const BertDemo& o, const Device& device, const models::BertConfig& config) {
  Result r{.adapter = device.info().name};
  const Graph graph = models::bert_encoder(config, 1, o.tokens);
  NamedTensors leaves = models::random_weights(graph, kSeed);
  const measure::Stopwatch watch;
  Executable exe = [&] {
    const Progress progress("compiling");
    return compile(graph, device);
  }();
  r.compile_ms = watch.ms();
  const measure::Stopwatch upload_watch;
  {
    Progress progress("uploading weights");
    int64_t done = 0;
    for (const auto& [name, value] : leaves) {
      progress.update(done++, std::ssize(leaves));
      exe.set_param(name, value);
    }
  }
  r.upload_ms = upload_watch.ms();
  const NamedTensors inputs = demo_inputs(o.tokens, config.vocab);
  {
    const Progress progress("running");
    r.time = measure::measure_runs(exe, inputs, 3, 50);
  }
  const Tensor got = exe.run(inputs).at("last_hidden_state");
  const PlanReport plan = exe.plan_report();
  r.memory = exe.memory();
  r.dispatches = dispatches_text(plan, o.layers);
  r.dispatch_count = std::ssize(plan.run);
  if (o.no_check) return r;
  leaves.insert(inputs.begin(), inputs.end());
  r.check = check_against_reference(o, graph, leaves, got);
  return r;
}

}  // namespace

void run_bert_demo(const BertDemo& o) {
  const models::BertConfig config{.layers = o.layers};
  if (o.tokens > config.max_positions) {
    throw Misuse(formatted("--tokens is {}, but BERT has {} positions", o.tokens, config.max_positions));
  }
  check_outputs(o.report.outputs(), {});
  const bool text = !o.report.only_json();
  if (text)
    print(formatted("BERT-base encoder: {} layers, {} hidden, {} heads, {} tokens, seeded random weights\n\n",
                    o.layers, config.hidden, config.heads, o.tokens));
  const Device device = o.device.open();
  const AdapterInfo& adapter = device.info();
  if (text)
    line("adapter", formatted("{} ({}, {})", adapter.name, adapter.backend, to_string(adapter.caps.kind)));
  const Result r = measured(o, device, config);
  o.report.write(to_json(o, r));
  if (text) show(r);
  if (r.check && !r.check->agrees()) {
    fail(ErrorKind::internal, "the GPU is wrong: its largest error is {:.3g}, more than {:.3g}",
         r.check->difference.largest, r.check->allowed);
  }
}

}  // namespace rlx::cli
