#include "cli/profile_page.h"

#include "base/checked.h"
#include "base/json.h"
#include "ir/op.h"
#include "ops/products/product_op.h"
#include "rlx/diagnostics.h"

namespace rlx::cli {
namespace {

// Where the page has its data.
constexpr std::string_view kPlaceholder = "\"THE PROFILE\"";

std::string value_name(const Graph& graph, ValueId v) {
  if (v.is_absent()) return "none";
  const std::string& name = graph.producer(v).name;
  return v.output == 0 ? name : name + ":" + std::to_string(v.output);
}

// An expression with what its inputs $0, $1... are.
Json expression(const Graph& graph, const Node& node, const ExprAttr& expr) {
  Json inputs = Json::array();
  size_t first = 0;
  if (const ProductOp* product = as_product(*node.op)) {
    inputs.add(std::string(node.op->name()));
    first = static_cast<size_t>(product->own_inputs());
  }
  for (size_t i = first; i < node.inputs.size(); ++i) inputs.add(value_name(graph, node.inputs[i]));
  return Json::object({{"text", expr.text()}, {"inputs", inputs}});
}

Json to_json(const Graph& graph, const Node& node) {
  Json inputs = Json::array();
  for (const ValueId v : node.inputs) {
    if (!v.is_absent()) inputs.add(v.node);
  }
  Json types = Json::array();
  for (const TensorType& type : node.outputs) types.add(type.text());
  Json out = Json::object({{"name", node.name},
                           {"op", std::string(node.op->name())},
                           {"inputs", inputs},
                           {"types", types},
                           {"leaf", node.op->is_leaf()},
                           {"weight", node.op->is(LeafKind::param) || node.op->is(LeafKind::constant)},
                           {"view", node.op->has(Trait::view)}});
  if (node.op->is_leaf()) return out;
  Json attrs = Json::array();
  Json expressions = Json::array();
  Json bodies = Json::array();
  for (const auto& [name, value] : attributes(*node.op)) {
    if (const auto* expr = std::get_if<ExprAttr>(&value)) {
      if (!expr->empty()) expressions.add(expression(graph, node, *expr));
    } else if (const auto* body = std::get_if<GraphPtr>(&value)) {
      if (*body) bodies.add(Json::object({{"name", name}, {"text", to_text(**body, 16)}}));
    } else {
      attrs.add(Json::array({name, attribute_text(value)}));
    }
  }
  out.set("attributes", attrs);
  out.set("expressions", expressions);
  out.set("bodies", bodies);
  return out;
}

Json to_json(const StepReport& s) {
  return Json::object({{"node", s.node},
                       {"op", s.op},
                       {"kernel", s.kernel},
                       {"variant", s.variant},
                       {"grid", Json::array({s.grid[0], s.grid[1], s.grid[2]})},
                       {"bytes", s.bytes}});
}

Json to_json(const StorageReport& s) {
  return Json::object({{"node", s.node},
                       {"kind", s.kind},
                       {"buffer", s.buffer},
                       {"offset", s.offset},
                       {"bytes", s.bytes},
                       {"first", s.first},
                       {"last", s.last}});
}

Json to_json(const MemoryReport& m) {
  return Json::object({{"weights", m.weight_bytes},
                       {"derived", m.derived_bytes},
                       {"states", m.state_bytes},
                       {"inputs", m.input_bytes},
                       {"intermediates", m.intermediate_bytes},
                       {"lower_bound", m.lower_bound_bytes}});
}

Json list(const auto& items, const auto& to_json) {
  Json out = Json::array();
  for (const auto& item : items) out.add(to_json(item));
  return out;
}

// Inside a script element: no text of a model can end it.
std::string in_script(const Json& data) {
  std::string out;
  for (const char c : data.text()) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string ProfilePage::html() const {
  const std::vector<double> flops = dispatch_flops(dispatches, plan);
  Json times = Json::array();
  for (size_t i = 0; i < dispatches.size(); ++i) {
    const DispatchReport& d = dispatches[i];
    times.add(
        Json::object({{"step", d.step}, {"begin", d.begin_ns}, {"end", d.end_ns}, {"flops", flops[i]}}));
  }
  const Json data =
      Json::object({{"graph", graph.name},
                    {"adapter", adapter},
                    {"runs", runs},
                    {"nodes", list(graph.nodes(), [&](const Node& n) { return to_json(graph, n); })},
                    {"steps", list(plan.run, [](const StepReport& s) { return to_json(s); })},
                    {"dispatches", times},
                    {"storages", list(plan.storages, [](const StorageReport& s) { return to_json(s); })},
                    {"memory", to_json(plan.memory)},
                    {"control", plan.control}});
  const std::span<const std::byte> bytes = profile_page_html();
  std::string page(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = page.find(kPlaceholder);
  check(at != std::string::npos, "the page has a place for the profile");
  return page.replace(at, kPlaceholder.size(), in_script(data));
}

}  // namespace rlx::cli
