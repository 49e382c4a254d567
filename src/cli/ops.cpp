#include <algorithm>
#include <memory>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/text.h"
#include "encodings/encoding.h"
#include "ops/op_table.h"

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

std::string listed_name(const OpInfo& info) { return info.name + (info.internal ? " (internal)" : ""); }

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

struct Operand {
  std::string name;
  bool optional = false;
  bool repeated = false;       // stands for any number of operands
  bool reads_views = false;    // if not, a transposed one is copied first
  bool reads_encoded = false;  // if not, an encoded one is decoded first
};

std::vector<Operand> operands_of(const OpInfo& info) {
  const std::shared_ptr<Op> op = info.make();
  const View transposed = View::contiguous({2, 3}).permute({1, 0});
  std::vector<Operand> out;
  for (std::string name : split(info.operands, ' ')) {
    const auto i = static_cast<int64_t>(out.size());
    const bool repeated = name.ends_with("...");
    if (repeated) name.resize(name.size() - 3);
    const auto reads = [&](const Encoding& e) {
      const View blocks = View::contiguous({2, 2, e.block_elements});
      return op->reads_encoded(i, e.dtype, blocks) ||
             op->reads_encoded(i, e.dtype, blocks.permute({0, 2, 1}));
    };
    out.push_back({name, op->optional_input(i), repeated, op->reads_view(i, transposed),
                   std::ranges::any_of(encoding_table().all(), reads)});
  }
  return out;
}

struct Attribute {
  std::string name;
  std::string_view kind;
  std::optional<std::string> otherwise;  // the default; none: it must be given
  std::vector<std::string> words;        // if not empty, the only values that it accepts
};

class AttributeLister : public AttributeVisitor {
 public:
  std::vector<Attribute> all;

 protected:
  void visit(std::string_view name, AttrValue&, const std::optional<AttrValue>& otherwise,
             AttrKind kind) override {
    all.push_back({std::string(name), attr_kind_name(kind), otherwise.transform(attribute_text),
                   std::exchange(words_, {})});
  }
  void visit_words(std::initializer_list<std::string_view> names) override {
    words_.assign(names.begin(), names.end());
  }

 private:
  std::vector<std::string> words_;
};

std::vector<Attribute> attributes_of(const OpInfo& info) {
  AttributeLister lister;
  info.make()->visit_attributes(lister);
  return lister.all;
}

Json to_json(const Operand& o) {
  return Json::object({{"name", o.name},
                       {"optional", o.optional},
                       {"repeated", o.repeated},
                       {"reads_views", o.reads_views},
                       {"reads_encoded", o.reads_encoded}});
}

Json to_json(const Attribute& a) {
  Json out = Json::object({{"name", a.name}, {"kind", a.kind}});
  if (a.otherwise) out.set("default", *a.otherwise);
  if (!a.words.empty()) out.set("words", a.words);
  return out;
}

Json to_json(const OpInfo& info) {
  Json operands = Json::array();
  for (const Operand& o : operands_of(info)) operands.add(to_json(o));
  Json attributes = Json::array();
  for (const Attribute& a : attributes_of(info)) attributes.add(to_json(a));
  const std::shared_ptr<Op> op = info.make();
  return Json::object({{"name", info.name},
                       {"formula", info.formula},
                       {"internal", info.internal},
                       {"types", split(info.types, ' ')},
                       {"kernels", info.variants},
                       {"expands", op->expands()},
                       {"gradient", op->has_gradient()},
                       {"host", info.variants.empty()},
                       {"operands", operands},
                       {"attributes", attributes}});
}

// For people: "x, gamma (optional), beta (optional)".
std::string operands_text(const OpInfo& info) {
  return joined(operands_of(info), [](const Operand& o) {
    return o.name + (o.repeated ? "..." : "") + (o.optional ? " (optional)" : "");
  });
}

std::string encodings_text() { return joined(encoding_table().all(), &Encoding::name); }

std::string kind_text(const Attribute& a) {
  return a.words.empty() ? std::string(a.kind) : "one of " + joined(a.words, attribute_text);
}

std::string default_text(const Attribute& a) { return a.otherwise.value_or("must be given"); }

// A cell of a Markdown table, where a bar would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string markdown_row(const OpInfo& info) {
  std::string attributes;
  for (const Attribute& a : attributes_of(info)) {
    attributes += formatted("{}`{}` ({}, {}{})", attributes.empty() ? "" : ", ", a.name, kind_text(a),
                            a.otherwise ? "default " : "", default_text(a));
  }
  return formatted("| `{}`{} | {} | {} | {} | {} | {} |\n", info.name, info.internal ? " (internal)" : "",
                   operands_text(info), cell(info.formula), info.types, listed(info.variants),
                   cell(attributes));
}

std::string markdown() {
  std::string out = formatted(
      "# Ops\n\n"
      "All {} ops, as `rlx ops --markdown` prints them; `rlx ops NAME` shows one with a sample. Internal "
      "ones are\n"
      "made by passes and have no function in rlx/ops.h. Inputs, params and constants may also be encoded; "
      "every op\n"
      "sees them as f32: [encodings.md](encodings.md).\n\n"
      "| op | operands | computes | types | kernels | attributes |\n|---|---|---|---|---|---|\n",
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
  print(formatted("operands  {}\ntypes     {}\nruns on   {}\nkernels   {}\n", operands_text(info), info.types,
                  where(info), listed(info.variants)));
  for (const Operand& o : operands_of(info)) {
    if (o.reads_encoded) print(formatted("decodes   {} itself, if it is encoded\n", o.name));
  }
  std::vector<std::vector<std::string>> rows = {{"  name", "kind", "default"}};
  for (const Attribute& a : attributes_of(info))
    rows.push_back({"  " + a.name, kind_text(a), default_text(a)});
  if (rows.size() > 1) print("\nattributes\n" + table(rows));
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
    rows.push_back({listed_name(info), where(info), info.types, listed(info.variants)});
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
                   "an array of {name, formula, internal, types, kernels, expands, gradient, host, operands, "
                   "attributes}");
  command.flag("--markdown", o->markdown, "The page of all ops, docs/ops.md");
  command.exclude("--json", "--markdown");
  command.footer(
      "Examples:\n  rlx ops\n  rlx ops softmax\n  rlx ops --json\n  rlx ops --markdown > docs/ops.md");
  command.action([o] { list_ops(*o); });
}

}  // namespace rlx::cli
