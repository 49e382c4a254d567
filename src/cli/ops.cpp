#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "ops/op_table.h"

namespace rlx::cli {
namespace {

struct Options {
  std::string name;
  bool json = false;
};

// Ops that are views, or that passes remove, run no kernel of their own.
bool has_kernel(const OpInfo& info) {
  return std::ranges::any_of(info.variants,
                             [](const std::string& v) { return v != "view" && v != "folded"; });
}

std::string where(const OpInfo& info) { return has_kernel(info) ? "GPU" : "view"; }

std::string listed_name(const OpInfo& info) { return info.name + (info.internal ? " (internal)" : ""); }

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

// Collects the attributes of an op with their defaults.
class AttributeLister : public AttributeVisitor {
 public:
  std::vector<std::vector<std::string>> rows;

 protected:
  void visit(std::string_view name, AttrValue&, const std::optional<AttrValue>& otherwise,
             AttrKind kind) override {
    const std::string fallback = otherwise ? attribute_text(*otherwise) : "must be given";
    rows.push_back({std::string(name), std::string(attr_kind_name(kind)), fallback});
  }
};

nlohmann::json to_json(const OpInfo& info) {
  return {{"name", info.name},         {"host", false},
          {"internal", info.internal}, {"types", split(info.types, ' ')},
          {"gradient", false},         {"kernels", info.variants}};
}

const OpInfo& find_op(const std::string& name) {
  try {
    return op_table().at(name);
  } catch (const Error& e) {
    throw Misuse(e.what());
  }
}

void show_op(const OpInfo& info) {
  print(formatted("{}: {}\n\n", info.name, info.formula));
  if (info.internal) print("internal: passes make it, and rlx/ops.h has no function for it\n\n");
  print(formatted("types    {}\nruns on  {}\nkernels  {}\n", info.types, where(info), listed(info.variants)));
  AttributeLister lister;
  info.make()->visit_attributes(lister);
  if (!lister.rows.empty()) {
    print("\nattributes\n");
    lister.rows.insert(lister.rows.begin(), {"  name", "kind", "default"});
    for (size_t i = 1; i < lister.rows.size(); ++i) lister.rows[i][0] = "  " + lister.rows[i][0];
    print(table(lister.rows));
  }
  if (!info.samples.empty()) print(formatted("\nsample (T is any of the types)\n  {}\n", info.samples[0]));
}

void list_ops(const Options& o) {
  if (!o.name.empty()) {
    const OpInfo& info = find_op(o.name);
    if (o.json) {
      print(nlohmann::json::array({to_json(info)}).dump(2) + "\n");
    } else {
      show_op(info);
    }
    return;
  }
  if (o.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [name, info] : op_table().all()) out.push_back(to_json(info));
    print(out.dump(2) + "\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"op", "runs on", "types", "kernels"}};
  for (const auto& [name, info] : op_table().all())
    rows.push_back({listed_name(info), where(info), info.types, listed(info.variants)});
  print(table(rows));
  print(
      formatted("\n{} ops, none of them on the host; `rlx ops NAME` tells what one computes; "
                "passes make the internal ones\n",
                rows.size() - 1));
}

}  // namespace

void add_ops(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("ops", "All ops, or one of them: formula, types, attributes, kernels");
  command->add_option("NAME", o->name, "The op to tell about");
  command->add_flag("--json", o->json,
                    "As JSON: an array of {name, host, internal, types, gradient, kernels}");
  command->footer("Examples:\n  rlx ops\n  rlx ops softmax\n  rlx ops --json");
  command->callback([o] { list_ops(*o); });
}

}  // namespace rlx::cli
