#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/measure.h"
#include "cli/ready_model.h"
#include "cli/text.h"
#include "rlx/models.h"
#include "rlx/ops.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  ValueFlags values;
  DeviceFlags device;
  std::vector<std::string> cases;
  std::string json;
  double seconds = 1;
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

// a [m, k] from the host, times a weight that lies as [k, n].
Graph linear(int64_t m, int64_t k, int64_t n) {
  Graph g;
  g.output("y", matmul(g.input("a", DType::f32, {m, k}), g.param("w", DType::f32, {k, n})));
  return g;
}

// The weight lies as [n, k] and is read like that.
Graph matvec_nk() {
  Graph g;
  const Value w = g.param("w", DType::f32, {4096, 4096});
  g.output("y", matmul(g.input("a", DType::f32, {1, 4096}), transpose(w)));
  return g;
}

// Blocks lie along k, as in GGUF files.
Graph matvec_encoded(DType encoding) {
  Graph g;
  const Value w = g.param("w", encoding, {4096, 4096});
  g.output("y", matmul(g.input("a", DType::f32, {1, 4096}), transpose(w)));
  return g;
}

// 64 rows in turns over 8 experts. Constant, because random integers would also name experts that do not
// exist.
Graph grouped() {
  Graph g;
  std::vector<int64_t> experts(64);
  for (size_t i = 0; i < experts.size(); ++i) experts[i] = static_cast<int64_t>(i % 8);
  const Value expert = g.constant(Tensor::from_ints(DType::i64, {64}, experts));
  const Value w = g.param("w", DType::f32, {8, 512, 512});
  g.output("y", grouped_matmul(g.input("x", DType::f32, {64, 512}), w, expert));
  return g;
}

// `size` x `size` taps on an image of 56 x 56, which keeps its size.
Graph conv_of(int64_t channels, int64_t filters, int64_t size) {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, channels, 56, 56});
  const Value w = g.param("w", DType::f32, {filters, channels, size, size});
  g.output("y", conv(x, w, {}, {.pads = std::vector<int64_t>(4, size / 2)}));
  return g;
}

Graph depthwise() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 256, 56, 56});
  const Value w = g.param("w", DType::f32, {256, 1, 3, 3});
  g.output("y", conv(x, w, {}, {.pads = {1, 1, 1, 1}, .groups = 256}));
  return g;
}

Graph upsample() {
  Graph g;
  g.output("y", resize(g.input("x", DType::f32, {1, 64, 56, 56}), {.axes = {2, 3}, .scales = {2, 2}}));
  return g;
}

// As many bytes as `resize` writes, read and written once.
Graph stream() {
  Graph g;
  g.output("y", -g.input("x", DType::f32, {1, 64, 112, 112}));
  return g;
}

Graph pool_3x3() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 64, 112, 112});
  g.output("y", max_pool(x, {3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}));
  return g;
}

Graph group_norm_32() {
  Graph g;
  const Value x = g.input("x", DType::f32, {1, 320, 64, 64});
  const Value gamma = g.param("gamma", DType::f32, {320});
  g.output("y", group_norm(x, 32, gamma, g.param("beta", DType::f32, {320})));
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

// What is made of a state of these many floats; only a little of it is read back.
Graph of_state(int64_t size, Value (*make)(Value)) {
  Graph g;
  g.output("y", slice(make(g.state("x", DType::f32, {size})), 0, 0, 16));
  return g;
}

Value running_sum(Value x) { return cumsum(x); }
Value sorted(Value x) { return sort(x)[0]; }
Value top_50(Value x) { return topk(x, 50)[0]; }

// A token of 150,000, as a decoder draws it.
Graph token(const SampleOptions& options) {
  Graph g;
  const Value seed = g.input("seed", DType::u32, {2});
  g.output("y", sample(g.state("logits", DType::f32, {1, 150'000}), seed, options));
  return g;
}

// 64 steps of 256 units from 256 inputs.
constexpr int64_t kSteps = 64, kUnits = 256;
Graph lstm_of(int64_t batch) {
  Graph g;
  const Value x = g.input("x", DType::f32, {kSteps, batch, kUnits});
  const Value w = g.param("w", DType::f32, {1, 4 * kUnits, kUnits});
  const Value r = g.param("r", DType::f32, {1, 4 * kUnits, kUnits});
  const std::vector<Value> made = lstm(x, w, r, {.bias = g.param("bias", DType::f32, {1, 8 * kUnits})});
  g.output("y", made[0]);
  g.output("h", made[1]);
  g.output("c", made[2]);
  return g;
}

// Only the products of the same: that of all inputs, and one for each step, of what the one before it made.
Graph lstm_products(int64_t batch) {
  Graph g;
  const Value x = g.input("x", DType::f32, {kSteps * batch, kUnits});
  const Value r = g.param("r", DType::f32, {kUnits, 4 * kUnits});
  g.output("gates", matmul(x, g.param("w", DType::f32, {kUnits, 4 * kUnits})));
  Value h = slice(x, 0, 0, batch);
  for (int64_t step = 0; step < kSteps; ++step) h = slice(matmul(h, r), 1, 0, kUnits);
  g.output("h", h);
  return g;
}

Graph bert_base() { return models::bert_encoder({}, 1, 128); }

constexpr int64_t kDecoded = 256;
Graph decoder() { return models::decoder_step({.capacity = kDecoded}); }
// The same for one length.
Graph decoder_at_128() { return bind_symbols(decoder(), {{"length", 128}}); }

struct Case {
  const char* name;
  const char* what;
  Graph (*make)();
  double flops;  // of one run; 0 where they mean little
  Growing growing = {};
};

constexpr double kMatvec = 2.0 * 4096 * 4096;
constexpr double kSmallM = 2.0 * 7 * 768 * 3072;
constexpr double kGrouped = 2.0 * 64 * 512 * 512;
constexpr double kConv3x3 = 2.0 * 56 * 56 * 64 * 64 * 9;
constexpr double kConv1x1 = 2.0 * 56 * 56 * 256 * 64;
constexpr double kDepthwise = 2.0 * 56 * 56 * 256 * 9;
constexpr double kLstm = 2.0 * kSteps * (kUnits + kUnits) * 4 * kUnits;
constexpr double kCube512 = 2.0 * 512 * 512 * 512;
constexpr double kCube1024 = 2.0 * 1024 * 1024 * 1024;
// 12 layers of 128 tokens: four projections and two wide ones, and the two products of attention.
constexpr double kBertBase =
    12.0 * 2 * (128.0 * 768 * 768 * 4 + 128.0 * 768 * 3072 * 2 + 2.0 * 128 * 128 * 768);

constexpr Case kCases[] = {
    {"add16", "add of 16 floats", add16, 0},
    {"matmul512", "matmul 512 x 512 x 512", [] { return matmul_of(512); }, kCube512},
    {"matmul1024", "matmul 1024 x 1024 x 1024", [] { return matmul_of(1024); }, kCube1024},
    {"matvec", "matmul 1 x 4096 x 4096", [] { return linear(1, 4096, 4096); }, kMatvec},
    {"matvec_nk", "the same, weight read as [n, k]", matvec_nk, kMatvec},
    {"matvec_q8_0", "the same, weight in q8_0", [] { return matvec_encoded(DType::q8_0); }, kMatvec},
    {"matvec_q4_0", "the same, weight in q4_0", [] { return matvec_encoded(DType::q4_0); }, kMatvec},
    {"matvec_q4_k", "the same, weight in q4_k", [] { return matvec_encoded(DType::q4_k); }, kMatvec},
    {"small_m", "matmul 7 x 768 x 3072", [] { return linear(7, 768, 3072); }, kSmallM},
    {"grouped", "64 rows x 512 x 512, 8 experts", grouped, kGrouped},
    {"conv3x3", "conv 3x3, 64 to 64 channels, 56 x 56", [] { return conv_of(64, 64, 3); }, kConv3x3},
    {"conv1x1", "conv 1x1, 256 to 64 channels, 56 x 56", [] { return conv_of(256, 64, 1); }, kConv1x1},
    {"depthwise3x3", "conv 3x3 of each of 256 channels, 56 x 56", depthwise, kDepthwise},
    {"resize", "linear x2 of 64 channels, 56 x 56", upsample, 0},
    {"stream", "neg of 64 channels, 112 x 112", stream, 0},
    {"max_pool", "max pool 3x3, stride 2, 64 channels, 112 x 112", pool_3x3, 0},
    {"group_norm", "group norm of [1, 320, 64, 64], 32 groups", group_norm_32, 0},
    {"softmax", "softmax of [4096, 768]", softmax_rows, 0},
    {"elementwise", "8 element-wise ops on 4 Mi floats", elementwise_chain, 0},
    {"negate", "negation of 10 M floats", [] { return of_state(10'000'000, neg); }, 0},
    {"cumsum", "running sum of 10 M floats", [] { return of_state(10'000'000, running_sum); }, 0},
    {"sort", "sort of 1 M floats", [] { return of_state(1'000'000, sorted); }, 0},
    {"topk", "top 50 of 150,000 floats", [] { return of_state(150'000, top_50); }, 0},
    {"sample", "token of 150,000, top_k 50, top_p 0.9", [] { return token({.top_k = 50, .top_p = 0.9}); }, 0},
    {"sample_top_p", "the same without top_k", [] { return token({.top_p = 0.9}); }, 0},
    {"sample_all", "the same without filters", [] { return token({}); }, 0},
    {"lstm", "lstm, 64 steps, batch 8, 256 to 256", [] { return lstm_of(8); }, 8 * kLstm},
    {"lstm_products", "only the products of it", [] { return lstm_products(8); }, 8 * kLstm},
    {"lstm1", "lstm, 64 steps, batch 1, 256 to 256", [] { return lstm_of(1); }, kLstm},
    {"lstm1_products", "only the products of it", [] { return lstm_products(1); }, kLstm},
    {"decode", "12 small layers, cache longer in each run", decoder, 0, {"length", kDecoded}},
    {"decode_again", "the same at one length", decoder_at_128, 0},
    {"bert-base", "BERT-base, 12 layers, 128 tokens", bert_base, kBertBase},
};

const Case* find_case(const std::string& name) {
  const auto it = std::ranges::find(kCases, name, &Case::name);
  return it == std::end(kCases) ? nullptr : it;
}

// --- Measuring ---

struct Result {
  std::string name;
  double flops = 0;
  std::optional<double> load_ms = {};  // of a model's file
  double compile_ms = 0;
  double upload_ms = 0;
  Measured time = {};
  int64_t dispatches = 0;
  int64_t bytes = 0;  // bound by the dispatches of one run
  int64_t load_dispatches = 0;
  MemoryReport memory = {};

  void add_plan(const PlanReport& plan) {
    dispatches = std::ssize(plan.run);
    load_dispatches = std::ssize(plan.load);
    for (const StepReport& s : plan.run) bytes += s.bytes;
    memory = plan.memory;
  }
};

// With the values that params of the same names would have.
void fill_states(Executable& exe) {
  Graph like;
  for (const TensorInfo& s : exe.states()) like.param(s.name, s.type.dtype, s.type.shape);
  for (const auto& [name, value] : models::random_weights(like, 1)) exe.write_state(name, value);
}

Result run_case(const Case& c, const Device& device, const Options& o) {
  const Progress progress(c.what);
  const Graph graph = c.make();
  const LeafValues leaves{.inputs = make_leaf_values(graph, 1).inputs,
                          .params = models::random_weights(graph, 1)};
  Result r{.name = c.name, .flops = c.flops};
  const Stopwatch watch;
  Executable exe = compile(graph, device);
  r.compile_ms = watch.ms();
  const Stopwatch upload_watch;
  for (const auto& [name, value] : leaves.params) exe.set_param(name, value);
  r.upload_ms = upload_watch.ms();
  fill_states(exe);
  SymbolValues symbols;
  if (c.growing.end > 1) symbols[std::string(c.growing.symbol)] = 1;
  r.time = measure(exe, leaves.inputs, o.seconds, 2000, {&c.growing, symbols.size()});
  r.add_plan(exe.plan_report(symbols));
  return r;
}

Result run_model(const std::string& file, const ReadyModel& model, const Device& device, const Options& o) {
  CompiledModel compiled = compile_model(model, device);
  const Progress progress(formatted("running {}", file));
  Result r{.name = file,
           .load_ms = model.load_ms,
           .compile_ms = compiled.compile_ms,
           .upload_ms = compiled.upload_ms};
  r.time = measure(compiled.exe, model.leaves.inputs, o.seconds, 2000);
  const PlanReport plan = compiled.exe.plan_report();
  o.graph.note_unused_kernels(plan);
  r.add_plan(plan);
  return r;
}

// --- Reporting ---

Json to_json(const Result& r) {
  Json out = Json::object({{"name", r.name},
                           {"wall_ms", r.time.wall_ms},
                           {"p90_ms", r.time.p90_ms},
                           {"cpu_ms", r.time.cpu_ms},
                           {"runs", r.time.runs},
                           {"first_run_ms", r.time.first_ms},
                           {"compile_ms", r.compile_ms},
                           {"upload_ms", r.upload_ms},
                           {"dispatches", r.dispatches},
                           {"load_dispatches", r.load_dispatches},
                           {"bytes", r.bytes},
                           {"flops", r.flops},
                           {"weight_bytes", r.memory.weight_bytes},
                           {"derived_bytes", r.memory.derived_bytes},
                           {"state_bytes", r.memory.state_bytes},
                           {"input_bytes", r.memory.input_bytes},
                           {"intermediate_bytes", r.memory.intermediate_bytes}});
  if (r.load_ms) out.set("load_ms", *r.load_ms);
  return out;
}

std::vector<std::string> to_row(const Result& r) {
  const double gflops = r.flops / r.time.wall_ms / 1e6;
  return {r.name,
          ms_text(r.time.wall_ms),
          ms_text(r.time.cpu_ms),
          r.flops > 0 ? formatted("{:.1f}", gflops) : "",
          std::to_string(r.dispatches),
          bytes_text(r.bytes),
          ms_text(r.compile_ms),
          ms_text(r.time.first_ms),
          std::to_string(r.time.runs)};
}

void print_cases(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {
      {"case", "wall", "cpu", "GFLOP/s", "dispatches", "bytes", "compile", "first run", "runs"}};
  for (const Result& r : results) {
    if (!r.load_ms) rows.push_back(to_row(r));
  }
  if (rows.size() > 1) print("\n" + table(rows, {1, 2, 3, 4, 5, 6, 7, 8}));
}

void print_model(const Result& r) {
  const auto line = [](std::string_view title, const std::string& text) {
    print(formatted("  {:12} {}\n", title, text));
  };
  const MemoryReport& m = r.memory;
  print(formatted("\n{}\n", r.name));
  line("load", ms_text(*r.load_ms));
  line("compile", formatted("{}, upload of the weights {}", ms_text(r.compile_ms), ms_text(r.upload_ms)));
  line("first run", ms_text(r.time.first_ms));
  line("warm runs", formatted("{} wall (nine of ten within {}), {} CPU, {} runs", ms_text(r.time.wall_ms),
                              ms_text(r.time.p90_ms), ms_text(r.time.cpu_ms), r.time.runs));
  line("memory", formatted("weights {}, derived {}, states {}, inputs {}, intermediates {}",
                           bytes_text(m.weight_bytes), bytes_text(m.derived_bytes), bytes_text(m.state_bytes),
                           bytes_text(m.input_bytes), bytes_text(m.intermediate_bytes)));
  line("dispatches", formatted("{} per run, {} in the load phase", r.dispatches, r.load_dispatches));
}

// What an argument names.
struct Subject {
  const Case* known = nullptr;
  std::string file = {};
  std::optional<ReadyModel> model = {};
};

std::vector<Subject> subjects(const Options& o) {
  std::vector<Subject> out;
  bool any_model = false;
  for (const std::string& name : o.cases) {
    if (const Case* known = find_case(name)) {
      out.push_back({.known = known});
      continue;
    }
    // Something that looks like a path is one, so that a wrong one is a file that is missing.
    if (!std::filesystem::exists(name) && name.find_first_of("./") == std::string::npos) {
      throw Misuse(formatted("there is no case and no file '{}'; the cases are: {}", name,
                             joined(kCases, &Case::name)));
    }
    GraphFlags graph = o.graph;
    graph.model.file = name;
    out.push_back({.file = name, .model = ready_model(graph, o.values)});
    any_model = true;
  }
  const GraphFlags& g = o.graph;
  const bool for_models = !g.model.inputs.empty() || !g.dims.empty() || !g.kernels.empty() || g.no_optimize ||
                          g.precision != "exact" || !o.values.load.empty();
  if (for_models && !any_model)
    throw Misuse(
        "--input, --dim, --kernel, --precision, --no-optimize and --load are for models, and none is given");
  if (o.cases.empty()) {
    for (const Case& c : kCases) out.push_back({.known = &c});
  }
  return out;
}

void run_bench(const Options& o) {
  const std::vector<Subject> all = subjects(o);
  const Device device = o.device.open();
  std::vector<Result> results;
  for (const Subject& s : all)
    results.push_back(s.known ? run_case(*s.known, device, o) : run_model(s.file, *s.model, device, o));
  Json measured = Json::array();
  for (const Result& r : results) measured.add(to_json(r));
  const Json json = Json::object({{"adapter", device.info().name}, {"cases", measured}});
  if (o.json == "-") {
    print(json.text(2) + "\n");
    return;
  }
  print(formatted("{}\nmedians of warm runs, inputs uploaded and outputs read back in each\n",
                  device.info().name));
  print_cases(results);
  for (const Result& r : results) {
    if (r.load_ms) print_model(r);
  }
  if (!o.json.empty()) write_report(o.json, json.text(2) + "\n");
}

}  // namespace

void add_bench(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("bench", "Wall and CPU time of models and of known cases");
  std::string cases = "A model's file, or which cases; all cases if nothing is given:";
  for (const Case& c : kCases) cases += formatted("\n{}: {}", c.name, c.what);
  command.list("CASE", o->cases, cases);
  command.text("--json", o->json, "Also write the results as JSON; - prints nothing else", {.value = "FILE"});
  command.seconds("--seconds", o->seconds, "How long to measure each case (default 1)");
  o->graph.model.add_inputs_to(command);
  o->graph.add_flags_to(command);
  o->values.add_to(command);
  o->device.add_to(command);
  command.footer(
      "Examples:\n"
      "  rlx bench model.onnx --dim batch=1 --seconds 5\n"
      "  rlx bench matmul512 softmax --json out.json");
  command.action([o] { run_bench(*o); });
}

}  // namespace rlx::cli
