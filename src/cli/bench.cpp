#include <algorithm>
#include <fstream>
#include <memory>

#include "base/fail.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/graph_file.h"
#include "cli/measure.h"
#include "cli/text.h"
#include "rlx/models.h"
#include "rlx/ops.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::vector<std::string> cases;
  std::string json;
  double seconds = 2;
};

// --- The cases ---

Graph add16() {
  Graph g;
  const Value a = g.input("a", DType::f32, {16});
  g.output("y", a + g.input("b", DType::f32, {16}));
  return g;
}

Graph matmul_of(int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {n, n}), g.input("b", DType::f32, {n, n})));
  return g;
}

Graph softmax_rows() {
  Graph g;
  g.output("y", softmax(g.input("x", DType::f32, {4096, 768})));
  return g;
}

// Eight ops on 4 Mi floats: one dispatch when they are fused.
Graph elementwise_chain() {
  Graph g;
  const Value x = g.input("x", DType::f32, {4 << 20});
  const Value a = tanh(x * 1.5 + 0.25);
  const Value b = sigmoid(a) * a - x;
  g.output("y", sqrt(abs(b)));
  return g;
}

Graph bert_base() { return models::bert_encoder({}, 1, 128); }

struct Case {
  const char* name;
  const char* what;
  Graph (*make)();
  double flops;  // of one run; 0 where they mean little
};

constexpr double kCube512 = 2.0 * 512 * 512 * 512;
constexpr double kCube1024 = 2.0 * 1024 * 1024 * 1024;
// 12 layers of 128 tokens: four projections and two wide ones, and the two products of attention.
constexpr double kBertBase =
    12.0 * 2 * (128.0 * 768 * 768 * 4 + 128.0 * 768 * 3072 * 2 + 2.0 * 128 * 128 * 768);

constexpr Case kCases[] = {
    {"add16", "add of 16 floats", add16, 0},
    {"matmul512", "matmul 512 x 512 x 512", [] { return matmul_of(512); }, kCube512},
    {"matmul1024", "matmul 1024 x 1024 x 1024", [] { return matmul_of(1024); }, kCube1024},
    {"softmax", "softmax of [4096, 768]", softmax_rows, 0},
    {"elementwise", "8 element-wise ops on 4 Mi floats", elementwise_chain, 0},
    {"bert-base", "BERT-base, 12 layers, 128 tokens", bert_base, kBertBase},
};

const Case& find_case(const std::string& name) {
  const auto it = std::ranges::find(kCases, name, &Case::name);
  if (it != std::end(kCases)) return *it;
  throw Misuse(formatted("there is no case '{}'; the cases are: {}", name, joined(kCases, &Case::name)));
}

// --- Measuring ---

struct Result {
  const Case* of = nullptr;
  double compile_ms = 0;
  Measured time;
  int64_t dispatches = 0;
  int64_t bytes = 0;  // bound by the dispatches of one run
  MemoryReport memory;
};

Result run_case(const Case& c, const Device& device, const Options& o) {
  const Graph graph = c.make();
  const LeafValues leaves{.inputs = make_leaf_values(graph, 1, "").inputs,
                          .params = models::random_weights(graph, 1)};
  Result r{.of = &c};
  const Stopwatch watch;
  Executable exe = compile(graph, device);
  r.compile_ms = watch.ms();
  for (const auto& [name, value] : leaves.params) exe.set_param(name, value);
  r.time = measure(exe, leaves.inputs, o.seconds, 2000);
  const PlanReport plan = exe.plan_report();
  r.dispatches = std::ssize(plan.run);
  for (const StepReport& s : plan.run) r.bytes += s.bytes;
  r.memory = plan.memory;
  return r;
}

Json to_json(const Result& r) {
  return Json::object({{"name", r.of->name},
                       {"wall_ms", r.time.wall_ms},
                       {"cpu_ms", r.time.cpu_ms},
                       {"runs", r.time.runs},
                       {"first_run_ms", r.time.first_ms},
                       {"compile_ms", r.compile_ms},
                       {"dispatches", r.dispatches},
                       {"bytes", r.bytes},
                       {"flops", r.of->flops},
                       {"weight_bytes", r.memory.weight_bytes},
                       {"intermediate_bytes", r.memory.intermediate_bytes}});
}

std::vector<std::string> to_row(const Result& r) {
  const double gflops = r.of->flops / r.time.wall_ms / 1e6;
  return {r.of->name,
          ms_text(r.time.wall_ms),
          ms_text(r.time.cpu_ms),
          r.of->flops > 0 ? formatted("{:.1f}", gflops) : "",
          std::to_string(r.dispatches),
          bytes_text(r.bytes),
          ms_text(r.compile_ms),
          ms_text(r.time.first_ms),
          std::to_string(r.time.runs)};
}

void run_bench(const Options& o) {
  std::vector<const Case*> cases;
  for (const std::string& name : o.cases) cases.push_back(&find_case(name));
  if (cases.empty()) {
    for (const Case& c : kCases) cases.push_back(&c);
  }
  const Device device = o.device.open();
  std::vector<Result> results;
  for (const Case* c : cases) {
    const Progress progress(c->what);
    results.push_back(run_case(*c, device, o));
  }
  Json measured = Json::array();
  for (const Result& r : results) measured.add(to_json(r));
  const Json json = Json::object({{"adapter", device.info().name}, {"cases", measured}});
  if (o.json == "-") {
    print(json.text(2) + "\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall", "cpu", "GFLOP/s", "dispatches", "bytes", "compile", "first run", "runs"}};
  for (const Result& r : results) rows.push_back(to_row(r));
  print(formatted("{}\nmedians of warm runs, inputs uploaded and outputs read back in each\n\n",
                  device.info().name));
  print(table(rows, {1, 2, 3, 4, 5, 6, 7, 8}));
  if (o.json.empty()) return;
  std::ofstream file(o.json);
  file << json.text(2) << "\n";
  if (!file.flush()) fail(ErrorKind::invalid_file, "the file '{}' cannot be written", o.json);
}

}  // namespace

void add_bench(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("bench", "Wall and CPU time of known cases");
  std::string cases = "Which cases; all if none are given:";
  for (const Case& c : kCases) cases += formatted("\n{}: {}", c.name, c.what);
  command.list("CASE", o->cases, cases);
  command.text("--json", o->json, "Also write the results as JSON; - prints nothing else", {.value = "FILE"});
  command.seconds("--seconds", o->seconds, "How long to measure each case (default 2)");
  o->device.add_to(command);
  command.footer("Examples:\n  rlx bench\n  rlx bench matmul512 softmax --json out.json");
  command.action([o] { run_bench(*o); });
}

}  // namespace rlx::cli
