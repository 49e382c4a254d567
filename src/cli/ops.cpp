#include <algorithm>
#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "ops/op_table.h"

namespace rlx::cli {
namespace {

struct Options {
  std::string name;
  bool json = false;
  bool markdown = false;
};

// Ops that are views, or that passes remove, run no kernel.
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

constexpr const char* kNoDefault = "must be given";

// Collects the attributes of an op with their defaults.
class AttributeLister : public AttributeVisitor {
 public:
  std::vector<std::vector<std::string>> rows;

 protected:
  void visit(std::string_view name, AttrValue&, const std::optional<AttrValue>& otherwise,
             AttrKind kind) override {
    const std::string fallback = otherwise ? attribute_text(*otherwise) : kNoDefault;
    rows.push_back({std::string(name), std::string(attr_kind_name(kind)), fallback});
  }
};

std::vector<std::vector<std::string>> attribute_rows(const OpInfo& info) {
  AttributeLister lister;
  info.make()->visit_attributes(lister);
  return lister.rows;
}

Json to_json(const OpInfo& info) {
  Json attributes = Json::array();
  for (const auto& row : attribute_rows(info)) {
    Json attribute = Json::object({{"name", row[0]}, {"kind", row[1]}});
    if (row[2] != kNoDefault) attribute.set("default", row[2]);
    attributes.add(attribute);
  }
  return Json::object({{"name", info.name},
                       {"formula", info.formula},
                       {"internal", info.internal},
                       {"types", split(info.types, ' ')},
                       {"kernels", info.variants},
                       {"attributes", attributes}});
}

// A cell of a Markdown table, where a bar would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string markdown_row(const OpInfo& info) {
  std::string attributes;
  for (const auto& row : attribute_rows(info)) {
    attributes += formatted("{}`{}` ({}, {}{})", attributes.empty() ? "" : ", ", row[0], row[1],
                            row[2] == kNoDefault ? "" : "default ", row[2]);
  }
  return formatted("| `{}`{} | {} | {} | {} | {} |\n", info.name, info.internal ? " (internal)" : "",
                   cell(info.formula), info.types, listed(info.variants), cell(attributes));
}

std::string markdown() {
  std::string out = formatted(
      "# Ops\n\n"
      "All {} ops, as `rlx ops --markdown` prints them; `rlx ops NAME` shows one with a sample. Internal "
      "ones are\n"
      "made by passes and have no function in rlx/ops.h.\n\n"
      "| op | computes | types | kernels | attributes |\n|---|---|---|---|---|\n",
      op_table().all().size());
  for (const auto& [name, info] : op_table().all()) out += markdown_row(info);
  return out;
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
  std::vector<std::vector<std::string>> rows = attribute_rows(info);
  if (!rows.empty()) {
    print("\nattributes\n");
    rows.insert(rows.begin(), {"name", "kind", "default"});
    for (auto& row : rows) row[0].insert(0, "  ");
    print(table(rows));
  }
  if (!info.samples.empty()) print(formatted("\nsample (T is any of the types)\n  {}\n", info.samples[0]));
}

void tell_one(const OpInfo& info, bool json) {
  if (json) {
    print(Json::array({to_json(info)}).text(2) + "\n");
  } else {
    show_op(info);
  }
}

void list_ops(const Options& o) {
  if (o.markdown) return print(markdown());
  if (!o.name.empty()) return tell_one(find_op(o.name), o.json);
  if (o.json) {
    Json out = Json::array();
    for (const auto& [name, info] : op_table().all()) out.add(to_json(info));
    return print(out.text(2) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {{"op", "runs on", "types", "kernels"}};
  for (const auto& [name, info] : op_table().all())
    rows.push_back({listed_name(info), where(info), info.types, listed(info.variants)});
  print(table(rows));
  print(formatted("\n{} ops; `rlx ops NAME` shows what one computes; passes make the internal ones\n",
                  rows.size() - 1));
}

}  // namespace

void add_ops(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("ops", "All ops, or one of them: formula, types, attributes, kernels");
  command.text("NAME", o->name, "The op to describe");
  command.flag("--json", o->json,
               "As JSON: an array of {name, formula, internal, types, kernels, attributes}");
  command.flag("--markdown", o->markdown, "The page of all ops, docs/ops.md");
  command.exclude("--json", "--markdown");
  command.footer(
      "Examples:\n  rlx ops\n  rlx ops softmax\n  rlx ops --json\n  rlx ops --markdown > docs/ops.md");
  command.action([o] { list_ops(*o); });
}

}  // namespace rlx::cli
