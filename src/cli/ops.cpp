#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/text.h"
#include "encodings/encoding.h"
#include "ir/op.h"
#include "ops/machinery/op_table.h"
#include "rlx/schema.h"

namespace rlx::cli {
namespace {

struct Options {
  std::string name;
  ReportFlags report;
  bool markdown = false;
};

// Views run no kernel.
bool has_kernel(const OpInfo& info) {
  return std::ranges::any_of(info.variants, [](const std::string& v) { return v != "view"; });
}

std::string where(const OpInfo& info) { return has_kernel(info) ? "GPU" : "view"; }

std::string listed(const std::vector<std::string>& words) { return joined(words, std::identity(), " "); }

// Whether the kernels read input i of some encoding as it is.
bool decodes(const Op& op, int64_t i) {
  return std::ranges::any_of(encoding_table().all(), [&](const Encoding& e) {
    const View blocks = View::contiguous({2, 2, e.block_elements});
    return op.reads_encoded(i, e.dtype, blocks) || op.reads_encoded(i, e.dtype, blocks.permute({0, 2, 1}));
  });
}

Json to_json(const OpSchema::Tensor& t) {
  return Json::object({{"name", t.name},
                       {"doc", t.doc},
                       {"types", t.types},
                       {"optional", t.optional},
                       {"variadic", t.variadic}});
}

Json to_json(const OpSchema::Attribute& a) {
  Json out = Json::object({{"name", a.name}, {"doc", a.doc}, {"kind", a.kind}});
  if (a.default_value) out.set("default_value", *a.default_value);
  if (!a.words.empty()) out.set("words", a.words);
  return out;
}

Json to_json(const OpInfo& info) {
  const OpSchema& schema = op_schema(info.name);
  const std::shared_ptr<Op> op = info.make();
  const View transposed = View::contiguous({2, 3}).permute({1, 0});
  Json operands = Json::array();
  for (size_t i = 0; i < schema.operands.size(); ++i) {
    Json operand = to_json(schema.operands[i]);
    operand.set("reads_views", op->reads_view(static_cast<int64_t>(i), transposed));
    operand.set("reads_encoded", decodes(*op, static_cast<int64_t>(i)));
    operands.add(operand);
  }
  Json attributes = Json::array();
  for (const OpSchema::Attribute& a : schema.attributes) attributes.add(to_json(a));
  Json outputs = Json::array();
  for (const OpSchema::Tensor& t : schema.outputs) outputs.add(to_json(t));
  return Json::object({{"name", info.name},
                       {"doc", info.formula},
                       {"internal", info.internal},
                       {"custom", info.custom},
                       {"types", schema.types},
                       {"kernels", info.variants.list()},
                       {"expands", op->expands()},
                       {"gradient", op->has_gradient()},
                       {"host", info.variants.empty()},
                       {"operands", operands},
                       {"attributes", attributes},
                       {"outputs", outputs}});
}

// "gamma?", "inputs..."
std::string marked_name(const OpSchema::Tensor& t) {
  return t.name + (t.optional ? "?" : "") + (t.variadic ? "..." : "");
}

std::string encodings_text() { return joined(encoding_table().all(), &Encoding::name); }

std::string kind_text(const OpSchema::Attribute& a) {
  return a.words.empty() ? a.kind : "one of " + joined(a.words, attribute_text);
}

std::string default_text(const OpSchema::Attribute& a) { return a.default_value.value_or("must be given"); }

// Text in a Markdown list, where a star would begin emphasis and a bracket a link.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += std::string_view("*_[]<").contains(c) ? std::string{'\\', c} : std::string(1, c);
  return out;
}

std::string markdown_list(std::string_view title, const std::vector<OpSchema::Tensor>& all) {
  std::string out = all.empty() ? "" : formatted("\n{}:\n", title);
  for (const OpSchema::Tensor& t : all)
    out += formatted("- `{}` ({}): {}\n", marked_name(t), listed(t.types), escaped(t.doc));
  return out;
}

std::string markdown_section(const OpInfo& info) {
  const OpSchema& op = op_schema(info.name);
  std::string out =
      formatted("\n## {}{}\n\n{}. T: {}. Kernels: {}.\n", op.name, op.internal ? " (internal)" : "",
                escaped(op.doc), info.types, escaped(listed(info.variants.list())));
  out += markdown_list("Operands", op.operands);
  if (!op.attributes.empty()) out += "\nAttributes:\n";
  for (const OpSchema::Attribute& a : op.attributes) {
    const std::string otherwise =
        a.default_value ? formatted("default `{}`", *a.default_value) : default_text(a);
    out += formatted("- `{}` ({}, {}): {}\n", a.name, kind_text(a), otherwise, escaped(a.doc));
  }
  return out + markdown_list("Outputs", op.outputs);
}

std::string markdown() {
  std::string out = formatted(
      "# Ops\n\n"
      "All {} ops, as `rlx ops --markdown` prints them; `rlx ops NAME` shows one with a sample. `?` marks "
      "what "
      "may be left\n"
      "out, or is only there with some attributes, `...` any number. `T` is one of the op's types, the same "
      "wherever it is\n"
      "written. Internal ops are made by passes and have no function in rlx/ops.h. Inputs, params and "
      "constants "
      "may also be\n"
      "encoded; every op sees them as f32: [encodings.md](encodings.md).\n",
      op_names().size());
  for (const auto& [name, info] : op_table().all()) out += markdown_section(info);
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
  const OpSchema& op = op_schema(info.name);
  print(formatted("{}: {}\n\n", op.name, op.doc));
  if (op.internal) print("internal: passes make it, and rlx/ops.h has no function for it\n\n");
  print(formatted("T         {}\nruns on   {}\nkernels   {}\n", info.types, where(info),
                  listed(info.variants.list())));
  const std::shared_ptr<Op> node = info.make();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (decodes(*node, static_cast<int64_t>(i)))
      print(formatted("decodes   {} itself, if it is encoded\n", op.operands[i].name));
  }
  const auto show = [](std::string_view title, const std::vector<OpSchema::Tensor>& all) {
    std::vector<std::vector<std::string>> rows = {{"  name", "types", ""}};
    for (const OpSchema::Tensor& t : all) rows.push_back({"  " + marked_name(t), listed(t.types), t.doc});
    if (rows.size() > 1) print(formatted("\n{}\n{}", title, table(rows)));
  };
  show("operands (?: may be left out)", op.operands);
  std::vector<std::vector<std::string>> rows = {{"  name", "kind", "default", ""}};
  for (const OpSchema::Attribute& a : op.attributes)
    rows.push_back({"  " + a.name, kind_text(a), default_text(a), a.doc});
  if (rows.size() > 1) print("\nattributes\n" + table(rows));
  show("outputs (?: only with some attributes)", op.outputs);
  if (!info.samples.empty()) print(formatted("\nsample (T is any of the types)\n  {}\n", info.samples[0]));
}

void list_ops(const Options& o) {
  check_outputs(o.report.outputs(), {});
  if (!o.name.empty()) find_op(o.name);  // an error if there is none
  if (o.report.wanted()) {
    Json out = Json::array();
    for (const auto& [name, info] : op_table().all()) {
      if (o.name.empty() || name == o.name) out.add(to_json(info));
    }
    o.report.write(out);
  }
  if (o.report.only_json()) return;
  if (o.markdown) return print(markdown());
  if (!o.name.empty()) return show_op(find_op(o.name));
  std::vector<std::vector<std::string>> rows = {{"op", "runs on", "types", "kernels"}};
  for (const auto& [name, info] : op_table().all())
    rows.push_back({info.name + (info.internal ? " (internal)" : ""), where(info), info.types,
                    listed(info.variants.list())});
  print(table(rows));
  print(
      formatted("\n{} ops; `rlx ops NAME` shows what one computes; passes make the internal ones\n"
                "encoded inputs, params and constants are read as f32: {}\n",
                rows.size() - 1, encodings_text()));
}

}  // namespace

void add_ops(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command =
      arguments.command("ops", "All ops, or one of them: formula, operands, types, attributes, kernels");
  command.text("NAME", o->name, "The op to describe");
  o->report.add_to(command,
                   "an array of {name, formula, internal, custom, types, kernels, expands, gradient, host, "
                   "operands, attributes, outputs}");
  command.flag("--markdown", o->markdown, "The page of all ops, docs/ops.md");
  command.exclude("--json", "--markdown");
  command.footer(
      "Examples:\n  rlx ops\n  rlx ops softmax\n  rlx ops --json\n  rlx ops --markdown > docs/ops.md");
  command.action([o] { list_ops(*o); });
}

}  // namespace rlx::cli
