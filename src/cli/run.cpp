#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/fail.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/graph_file.h"
#include "cli/text.h"
#include "ir/op.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

struct Options {
  GraphFlags graph;
  DeviceFlags device;
  uint64_t seed = 1;
  std::string load;
  bool nan_trace = false;
  bool dump_nodes = false;
  bool profile = false;
  bool verify = false;
  std::string trace;
  int64_t repeat = 1;
};

void print_outputs(const NamedTensors& outputs) {
  std::vector<std::vector<std::string>> rows = {{"output", "type", "values"}};
  for (const auto& [name, value] : outputs)
    rows.push_back({name, value.type_text(), rlx::print(summarize(value))});
  print(table(rows));
}

void print_times(std::vector<double> runs_ms, double compile_ms) {
  print(formatted("\ncompile {}, first run {}", ms_text(compile_ms), ms_text(runs_ms[0])));
  if (runs_ms.size() > 1) {
    runs_ms.erase(runs_ms.begin());
    std::ranges::sort(runs_ms);
    print(formatted(", warm run {} (median of {}, best {})", ms_text(runs_ms[runs_ms.size() / 2]),
                    runs_ms.size(), ms_text(runs_ms[0])));
  }
  print("\n");
}

void trace_and_profile(Executable& exe, const NamedTensors& inputs, const Options& o,
                       const std::string& title) {
  const std::vector<DispatchReport> dispatches = exe.profile(inputs);
  if (o.profile) print("\n" + profile_table(dispatches));
  if (o.trace.empty()) return;
  std::ofstream file(o.trace, std::ios::binary);
  file << trace_json(dispatches, title);
  if (!file.flush()) fail(ErrorKind::invalid_file, "the trace '{}' cannot be written", o.trace);
  print(formatted("\ntrace of {} dispatches written to {}; open it in chrome://tracing or ui.perfetto.dev\n",
                  dispatches.size(), o.trace));
}

void print_check(const NodeCheck& c) {
  print(
      formatted("first node that differs from the reference: {} ({}) {}\n"
                "  {} elements are wrong; element {} is {:.9g} instead of {:.9g}, allowed error {:.3g}\n",
                c.node, c.op, c.type, c.wrong, c.index, c.got, c.want, c.allowed));
}

// The outputs of the whole graph, from the inputs on.
std::vector<OutputCheck> check_outputs(const Graph& graph, const LeafValues& leaves,
                                       const NamedTensors& outputs, int64_t repeat) {
  const auto is_state = [](const Node& n) { return n.op->is(LeafKind::state); };
  if (repeat > 1 && std::ranges::any_of(graph.nodes(), is_state)) {
    print("outputs not checked from the inputs on: the states have changed with each repeat\n");
    return {};
  }
  Progress progress("computing the graph on the CPU");
  std::vector<OutputCheck> checks = verify_outputs(
      graph, leaves.all(), outputs, [&](int64_t done, int64_t all) { progress.update(done, all); });
  for (const OutputCheck& c : checks) {
    print(formatted("output {}: largest error against the reference from the inputs on: {:.3g}", c.output,
                    c.max_error));
    if (c.unclear) print(formatted(" ({} elements depend on rounding and were not judged)", c.unclear));
    print("\n");
  }
  return checks;
}

// Node by node from the device's own inputs, then the outputs.
void verify_run(Executable& exe, const Graph& graph, const LeafValues& leaves, const NamedTensors& outputs,
                int64_t repeat) {
  std::vector<NodeCheck> checks;
  {
    Progress progress("comparing nodes with the reference");
    const int64_t nodes = exe.graph()->size();
    checks = verify_nodes(exe, [&](int64_t done) { progress.update(done, nodes); });
  }
  print("\n");
  const auto bad = std::ranges::find_if(checks, [](const NodeCheck& c) { return c.wrong > 0; });
  const auto skipped = std::ranges::count_if(checks, &NodeCheck::skipped);
  if (bad != checks.end()) {
    print_check(*bad);
  } else {
    const auto agree = std::ssize(checks) - skipped;
    print(formatted("{} node{} with the reference", agree, agree == 1 ? " agrees" : "s agree"));
    if (skipped)
      print(formatted(" ({} not checked: they read a state that has been overwritten since)", skipped));
    print("\n");
  }
  const std::vector<OutputCheck> outputs_checked = check_outputs(graph, leaves, outputs, repeat);
  if (bad != checks.end()) fail(ErrorKind::internal, "the node '{}' is wrong on this device", bad->node);
  for (const OutputCheck& c : outputs_checked) {
    if (c.wrong > 0) fail(ErrorKind::internal, "{}", rlx::print(c));
  }
}

void run_graph(const Options& o) {
  const Graph file_graph = o.graph.read();
  CompileOptions options = o.graph.options(file_graph);
  const Graph graph = options.symbols.empty() ? file_graph : bind_symbols(file_graph, options.symbols);
  options.keep_intermediates = o.verify;
  options.debug.nan_trace = o.nan_trace;
  if (o.dump_nodes) options.debug.dump_nodes = -1;
  options.debug.log = [](const std::string& text) { print(text); };
  const LeafValues leaves = make_leaf_values(graph, o.seed, o.load);
  if (!o.load.empty()) {
    const size_t all = leaves.inputs.size() + leaves.params.size();
    print(formatted("{} of {} inputs and params are in {}", all - leaves.random.size(), all, o.load));
    print(leaves.random.empty() ? "\n" : formatted("; random: {}\n", excerpt(joined(leaves.random), 200)));
  }

  const Device device = o.device.open();
  const Stopwatch compile_watch;
  Executable exe = compile(file_graph, device, options);
  const double compile_ms = compile_watch.ms();
  for (const auto& [name, value] : leaves.params) exe.set_param(name, value);

  NamedTensors outputs;
  std::vector<double> runs_ms;
  for (int64_t i = 0; i < o.repeat; ++i) {
    const Stopwatch watch;
    outputs = exe.run(leaves.inputs);
    runs_ms.push_back(watch.ms());
  }
  o.graph.note_unused_kernels(exe.plan_report());
  print_outputs(outputs);
  print_times(runs_ms, compile_ms);
  if (o.verify)
    verify_run(exe, graph, leaves, outputs, o.repeat);  // first: a profile runs again and changes states
  if (o.profile || !o.trace.empty()) trace_and_profile(exe, leaves.inputs, o, graph.name);
}

}  // namespace

void add_run(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command =
      arguments.command("run", "Runs a graph on random or stored values and shows what comes out");
  o->graph.add_to(command);
  command.seed("--random", o->seed, "The seed of the random inputs and params (default 1)");
  command.text("--load", o->load, "Inputs and params by name from a safetensors file; others are random",
               {.value = "FILE"});
  command.number("--repeat", o->repeat, 1, INT64_MAX, "How many times to run");
  command.flag("--verify", o->verify,
               "Compare every node, and the outputs from the inputs on, with the CPU reference");
  command.flag("--nan-trace", o->nan_trace, "The first node with a NaN or an infinity, and its inputs");
  command.flag("--dump-nodes", o->dump_nodes, "Max |x| and non-zeros of every node");
  command.flag("--profile", o->profile, "Time on the device by kernel");
  command.text("--trace", o->trace, "Write the times as a Chrome/Perfetto trace", {.value = "FILE"});
  o->device.add_to(command);
  command.footer(
      "Examples:\n"
      "  rlx run model.rlx --random 7 --dim batch=2 --verify\n"
      "  rlx run model.rlx --load weights.safetensors --repeat 20 --profile\n"
      "  rlx run model.rlx --nan-trace --trace out.json");
  command.action([o] { run_graph(*o); });
}

}  // namespace rlx::cli
