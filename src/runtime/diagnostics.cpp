#include "runtime/diagnostics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "base/border.h"
#include "base/flags.h"
#include "base/format.h"
#include "ir/op.h"

namespace rlx {

// --- Tensors and nodes ---

TensorSummary summarize(const Tensor& tensor) try {
  TensorSummary s{.elements = tensor.elements()};
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double sum = 0;
  const auto add = [&](double x) {
    s.non_zeros += x != 0;
    if (std::isnan(x)) {
      ++s.nans;
    } else if (std::isinf(x)) {
      ++s.infinities;
    } else {
      low = std::min(low, x);
      high = std::max(high, x);
      sum += x;
    }
  };
  if (tensor.dtype() == DType::c64) {
    for (int64_t i = 0; i < tensor.elements(); ++i) add(std::abs(tensor.complex(i)));
  } else {
    for (const double x : tensor.doubles()) add(x);
  }
  const int64_t finite = s.elements - s.nans - s.infinities;
  if (finite > 0) {
    s.min = low;
    s.max = high;
    s.mean = sum / static_cast<double>(finite);
    s.max_abs = std::max(std::fabs(low), std::fabs(high));
  }
  return s;
} catch (...) {
  throw_as_error("summarising a tensor");
}

std::string to_text(const TensorSummary& s) {
  if (s.elements == 0) return "empty";
  std::string out = s.nans + s.infinities == s.elements
                        ? "no finite element"
                        : formatted("min {:.6g}, max {:.6g}, mean {:.6g}", s.min, s.max, s.mean);
  if (s.nans) out += formatted(", {} NaN", s.nans);
  if (s.infinities) out += formatted(", {} infinite", s.infinities);
  return out;
}

namespace {

NodeSummary summarize_node(const Graph& graph, ValueId v, const ReadValue& read) {
  const Node& n = graph.producer(v);
  const Tensor value = read(n.name, v.output);
  const std::string name = v.output == 0 ? n.name : formatted("{}:{}", n.name, v.output);
  return {name, std::string(n.op->name()), value.type_text(), summarize(value)};
}

bool is_bad(const Node& n, const TensorSummary& s) {
  return s.nans > 0 || (s.infinities > 0 && !n.op->is_leaf());
}

std::string line(const NodeSummary& n) {
  return formatted("{} ({}) {}: {}\n", n.node, n.op, n.type, to_text(n.value));
}

}  // namespace

std::optional<BadNode> find_first_nan(const Graph& graph, const ReadValue& read) {
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) {
      const DType dtype = value_dtype(n.outputs[static_cast<size_t>(o)].dtype);
      if (!is_float(dtype) && dtype != DType::c64) continue;
      BadNode bad{.node = summarize_node(graph, {id, o}, read), .inputs = {}};
      if (!is_bad(n, bad.node.value)) continue;
      for (ValueId v : n.inputs) {
        if (!v.is_absent()) bad.inputs.push_back(summarize_node(graph, v, read));
      }
      return bad;
    }
  }
  return std::nullopt;
}

std::string to_text(const BadNode& bad) {
  std::string out = "first NaN or infinity: " + line(bad.node);
  for (const NodeSummary& in : bad.inputs) out += "  input " + line(in);
  return out;
}

std::vector<NodeSummary> summarize_nodes(const Graph& graph, const ReadValue& read, int64_t limit) {
  std::vector<NodeSummary> out;
  for (int32_t id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.op->is_leaf()) continue;
    for (int32_t o = 0; o < static_cast<int32_t>(n.outputs.size()); ++o) {
      if (limit >= 0 && static_cast<int64_t>(out.size()) == limit) return out;
      out.push_back(summarize_node(graph, {id, o}, read));
    }
  }
  return out;
}

std::string to_text(std::span<const NodeSummary> nodes) {
  size_t name_width = 4;
  size_t type_width = 4;
  for (const NodeSummary& n : nodes) {
    name_width = std::max(name_width, n.node.size());
    type_width = std::max(type_width, n.type.size());
  }
  std::string out = formatted("{:{}}  {:20}  {:{}}  {:>12}  {:>24}\n", "node", name_width, "op", "type",
                              type_width, "max |x|", "non-zero");
  for (const NodeSummary& n : nodes) {
    out += formatted("{:{}}  {:20}  {:{}}  {:>12.6g}  {:>24}", n.node, name_width, n.op, n.type, type_width,
                     n.value.max_abs, formatted("{} of {}", n.value.non_zeros, n.value.elements));
    if (n.value.nans) out += formatted("  {} NaN", n.value.nans);
    if (n.value.infinities) out += formatted("  {} infinite", n.value.infinities);
    out += "\n";
  }
  return out;
}

std::optional<BadNode> find_first_nan(Executable& exe) try {
  return find_first_nan(*exe.graph(),
                        [&](std::string_view node, int32_t output) { return exe.value(node, output); });
} catch (...) {
  throw_as_error("looking for the first NaN");
}

std::vector<NodeSummary> summarize_nodes(Executable& exe, int64_t limit) try {
  return summarize_nodes(
      *exe.graph(), [&](std::string_view node, int32_t output) { return exe.value(node, output); }, limit);
} catch (...) {
  throw_as_error("summarising nodes");
}

// --- Schedule and time ---

namespace {

std::string kernel_text(const std::string& kernel, const std::string& variant) {
  return variant.empty() || variant == kernel ? kernel : kernel + " [" + variant + "]";
}

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string schedule_summary(const PlanReport& plan) {
  std::map<std::string, int64_t> histogram;
  for (const StepReport& s : plan.run) ++histogram[kernel_text(s.kernel, s.variant)];
  std::vector<std::pair<std::string, int64_t>> rows(histogram.begin(), histogram.end());
  std::ranges::stable_sort(rows, std::greater<>(), &std::pair<std::string, int64_t>::second);
  const MemoryReport& m = plan.memory;
  std::string out = formatted(
      "{} dispatches per run, {} in the load phase\n"
      "memory: weights {:.2f} MiB, derived weights {:.2f}, states {:.2f}, inputs {:.2f}, intermediates "
      "{:.2f} (lower bound "
      "{:.2f})\n",
      plan.run.size(), plan.load.size(), mebibytes(m.weight_bytes), mebibytes(m.derived_bytes),
      mebibytes(m.state_bytes), mebibytes(m.input_bytes), mebibytes(m.intermediate_bytes),
      mebibytes(m.lower_bound_bytes));
  for (const auto& [kernel, count] : rows) out += formatted("  {:5} x {}\n", count, kernel);
  return out;
}

std::vector<double> dispatch_flops(std::span<const DispatchReport> dispatches, const PlanReport& plan) {
  std::map<std::string_view, double> node_ns;
  for (const DispatchReport& d : dispatches) node_ns[d.node] += static_cast<double>(d.end_ns - d.begin_ns);
  std::vector<double> out;
  for (const DispatchReport& d : dispatches) {
    const double ns = node_ns[d.node];
    const double flops = plan.run[static_cast<size_t>(d.step)].node_flops;
    out.push_back(ns > 0 ? flops * static_cast<double>(d.end_ns - d.begin_ns) / ns : 0);
  }
  return out;
}

std::string profile_table(std::span<const DispatchReport> dispatches, const PlanReport* plan) {
  struct Row {
    int64_t count = 0;
    uint64_t total_ns = 0;
    uint64_t longest_ns = 0;
    std::string longest_node;
    double flops = 0;
    double bytes = 0;

    // Operations per ns are billions per second.
    std::string rate(double amount) const {
      if (amount <= 0 || total_ns == 0) return "";
      const double x = amount / static_cast<double>(total_ns);
      return formatted("{:.{}f}", x, x >= 100 ? 0 : x >= 10 ? 1 : 2);
    }
  };
  const std::vector<double> flops = plan ? dispatch_flops(dispatches, *plan) : std::vector<double>();
  std::map<std::string, Row> by_kernel;
  Row all;
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const DispatchReport& d = dispatches[i];
    Row& row = by_kernel[kernel_text(d.kernel, d.variant)];
    const uint64_t ns = d.end_ns - d.begin_ns;
    for (Row* sum : {&row, &all}) {
      ++sum->count;
      sum->total_ns += ns;
      if (!plan) continue;
      sum->flops += flops[i];
      sum->bytes += static_cast<double>(plan->run[static_cast<size_t>(d.step)].bytes);
    }
    if (row.longest_node.empty() || ns > row.longest_ns) {
      row.longest_ns = ns;
      row.longest_node = d.node;
    }
  }
  std::vector<std::pair<std::string, Row>> rows(by_kernel.begin(), by_kernel.end());
  std::ranges::stable_sort(rows, std::greater<>(), [](const auto& row) { return row.second.total_ns; });
  size_t width = 6;
  for (const auto& [kernel, row] : rows) width = std::max(width, kernel.size());
  const auto rates = [&](const std::string& arithmetic, const std::string& memory) {
    return plan ? formatted("  {:>8}  {:>6}", arithmetic, memory) : std::string();
  };
  const auto ms = [](uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  std::string out = formatted("{:{}}  {:>5}  {:>10}  {:>6}{}  {:>10}  {}\n", "kernel", width, "count", "ms",
                              "share", rates("GFLOP/s", "GB/s"), "longest ms", "node");
  for (const auto& [kernel, row] : rows) {
    out += formatted("{:{}}  {:>5}  {:>10.3f}  {:>5.1f}%{}  {:>10.3f}  {}\n", kernel, width, row.count,
                     ms(row.total_ns), all.total_ns ? 100.0 * ms(row.total_ns) / ms(all.total_ns) : 0.0,
                     rates(row.rate(row.flops), row.rate(row.bytes)), ms(row.longest_ns), row.longest_node);
  }
  out += formatted("{:{}}  {:>5}  {:>10.3f}", "all", width, all.count, ms(all.total_ns));
  if (plan) out += "        " + rates(all.rate(all.flops), all.rate(all.bytes));
  return out + "\n";
}

// --- Reports of an executable on itself ---

DebugOptions with_environment(DebugOptions options) {
  options.dispatch_report |= env_flag("RLX_DISPATCH_REPORT");
  options.schedule |= env_flag("RLX_WGPU_SCHEDULE");
  options.nan_trace |= env_flag("RLX_WGPU_NAN_TRACE");
  options.dispatch_only |= env_flag("RLX_BENCH_DISPATCH_ONLY");
  if (options.dump_nodes == 0 && env_flag("RLX_WGPU_DUMP_NODES")) {
    options.dump_nodes = env_number("RLX_WGPU_DUMP_NODES_LIMIT", 40);
  }
  if (options.trace_path.empty()) options.trace_path = env_text("RLX_TRACE_PERFETTO");
  return options;
}

bool Diagnostics::wanted(const DebugOptions& o) {
  return o.dispatch_report || o.schedule || o.nan_trace || o.dump_nodes != 0 || !o.trace_path.empty();
}

Diagnostics::Diagnostics(const DebugOptions& options, const std::string& graph_name)
    : options_(options), graph_name_(graph_name) {
  if (options_.trace_path.empty()) return;
  trace_ = TraceFile::open(options_.trace_path);
  track_ = trace_->add_track(graph_name_);
}

void Diagnostics::log(const std::string& text) const {
  if (options_.log) {
    options_.log(text);
  } else {
    std::fputs(text.c_str(), stderr);
  }
}

void Diagnostics::planned(const PlanReport& plan, const std::string& text) const {
  if (options_.dispatch_report || options_.schedule)
    log(formatted("graph '{}': {}", graph_name_, schedule_summary(plan)));
  if (options_.schedule) log(text);
}

void Diagnostics::ran(const Graph& graph, const ReadValue& read) const {
  if (options_.dump_nodes != 0) {
    log(formatted("graph '{}': values after this run\n{}", graph_name_,
                  to_text(summarize_nodes(graph, read, options_.dump_nodes))));
  }
  if (!options_.nan_trace) return;
  const std::optional<BadNode> bad = find_first_nan(graph, read);
  log(formatted("graph '{}': {}", graph_name_,
                bad ? to_text(*bad) : "no NaN and no infinity in any node (those in bodies are not kept)\n"));
}

void Diagnostics::timed(double start_us, std::span<const DispatchReport> dispatches) const {
  trace_->add_run(track_, start_us, dispatches);
}

}  // namespace rlx
