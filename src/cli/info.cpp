#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/graph_flags.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "ir/op.h"
#include "ir/subgraphs.h"
#include "runtime/check_plan.h"

namespace rlx::cli {
namespace {

struct Options {
  ModelFlags model;
  std::vector<std::string> dims;
  ReportFlags report;
};

// The same of a graph text; an op of ours runs.
onnx::Info info_of(const Graph& graph) {
  onnx::Info info;
  const auto line = [](const std::string& name, const TensorType& type) {
    return formatted("{}: {}", name, type.text());
  };
  for (const Graph::Output& o : graph.outputs()) info.outputs.push_back(line(o.name, graph.type(o.value)));
  std::set<std::string> params;  // one name is one tensor, in whatever body it is
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node& n : g.nodes()) {
      if (!n.op->is_leaf()) ++info.ops[std::string(n.op->name())];
      if (n.op->is(LeafKind::input) && &g == &graph) info.inputs.push_back(line(n.name, n.outputs[0]));
      const Shape& shape = n.outputs[0].shape;
      if (!n.op->is(LeafKind::param) || !shape.is_static() || !params.insert(n.name).second) continue;
      info.parameters += shape.elements().value();
      info.bytes += static_cast<int64_t>(host_bytes_of(n.outputs[0].dtype, shape.elements().value()));
    }
  });
  return info;
}

// What only shows when all nodes are together.
void add_obstacles(const Model& model, const SymbolValues& dims, onnx::Info& info) {
  SymbolValues symbols;
  for (const auto& [name, value] : dims) {
    if (!model.fixed_symbols.contains(name)) symbols.emplace(name, value);
  }
  try {
    check_plan(model.graph, symbols);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::internal) throw;
    info.problems.push_back({"", "", e.what()});
  }
}

Json to_json(const onnx::Info& info, const std::string& file, bool is_onnx) {
  const auto counts = [](const std::map<std::string, int64_t>& of) {
    Json out = Json::object();
    for (const auto& [name, count] : of) out.set(name, count);
    return out;
  };
  Json problems = Json::array();
  for (const onnx::Problem& p : info.problems)
    problems.add(Json::object({{"node", p.node}, {"op", p.op}, {"reason", p.reason}}));
  Json out = Json::object({{"file", file}, {"format", is_onnx ? "onnx" : "text"}});
  if (is_onnx) {
    out.set("producer", info.producer);
    out.set("opsets", counts(info.opsets));
  }
  out.set("inputs", info.inputs);
  out.set("outputs", info.outputs);
  out.set("ops", counts(info.ops));
  out.set("parameters", info.parameters);
  out.set("bytes", info.bytes);
  out.set("problems", problems);
  return out;
}

void line(std::string_view title, std::string_view text) { print(formatted("{:12} {}\n", title, text)); }

void list(std::string_view title, const std::vector<std::string>& items) {
  for (size_t i = 0; i < items.size(); ++i) line(i == 0 ? title : "", items[i]);
}

// Whether an input has a size that is not a number.
bool has_symbols(const onnx::Info& info) {
  return std::ranges::any_of(info.inputs, [](const std::string& input) {
    const size_t shape = input.rfind('[');
    return shape != std::string::npos && std::ranges::any_of(input.substr(shape), [](unsigned char c) {
             return std::isalpha(c) || c == '_';
           });
  });
}

// Nodes that cannot run for the same reason together.
void print_problems(const std::vector<onnx::Problem>& problems) {
  if (problems.empty()) {
    print("\neverything in it can run\n");
    return;
  }
  print("\nwhat cannot run, and why\n");
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> nodes;
  for (const onnx::Problem& p : problems) nodes[{p.op, p.reason}].push_back(p.node);
  for (const auto& [what, of] : nodes) {
    const auto& [op, reason] = what;
    print(op.empty() ? formatted("  {}\n", reason) : formatted("  {}: {}\n", op, reason));
    if (of.size() > 1 || !of[0].empty())
      print(formatted("    {} node{}: {}\n", of.size(), of.size() == 1 ? "" : "s", excerpt(joined(of), 100)));
  }
}

void show(const onnx::Info& info, const std::string& file, bool is_onnx) {
  line("file", file);
  if (is_onnx) {
    line("producer", info.producer);
    std::vector<std::string> opsets;
    for (const auto& [domain, version] : info.opsets)
      opsets.push_back(formatted("{} {}", domain.empty() ? "ai.onnx" : domain, version));
    line("opsets", joined(opsets));
  }
  list("inputs", info.inputs);
  list("outputs", info.outputs);
  line("parameters", formatted("{}, {}", info.parameters, bytes_text(info.bytes)));
  std::vector<std::vector<std::string>> rows = {{"op", "count"}};
  for (const auto& [op, count] : info.ops) rows.push_back({op, std::to_string(count)});
  print("\n" + table(rows, {1}));
  print_problems(info.problems);
}

void show_info(const Options& o) {
  check_outputs(o.report.outputs(), o.model.files());
  const bool is_onnx = o.model.is_onnx();
  const SymbolValues dims = parse_dims(o.dims);
  onnx::Info info = is_onnx ? o.model.inspect(dims) : info_of(o.model.load().graph);
  if (info.problems.empty()) {
    const Model model = o.model.load(dims);
    expect_symbols(model, dims);
    add_obstacles(model, dims, info);
  }
  const std::string file = with_shown_names(o.model.file);
  o.report.write(to_json(info, file, is_onnx));
  if (!o.report.only_json()) show(info, file, is_onnx);
  if (info.problems.empty()) return;
  fail(ErrorKind::unsupported, "not everything in {} can run{}", file,
       dims.empty() && has_symbols(info) ? "; with known sizes it may: --dim NAME=N" : "");
}

}  // namespace

void add_info(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("info", "What a model has, and what in it cannot run");
  o->model.add_to(command);
  command.list("--dim", o->dims, "The size that a symbol of the inputs has, for models that fit only some",
               {.value = "NAME=N"});
  o->report.add_to(command, "the same");
  command.footer(
      "Needs no device. A shape that depends on the value of an input needs that value: --input. Networks "
      "that\n"
      "halve and double a picture can often run with some sizes only: --dim says which.\n"
      "\n"
      "Examples:\n"
      "  rlx info model.onnx\n"
      "  rlx info model.onnx --json | jq .problems\n"
      "  gunzip < model.onnx.gz | rlx info -");
  command.action([o] {
    o->model.take_standard_input();
    show_info(*o);
  });
}

}  // namespace rlx::cli
