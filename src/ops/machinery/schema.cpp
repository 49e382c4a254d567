#include "rlx/schema.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <ranges>
#include <utility>

#include "base/border.h"
#include "base/fail.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/operand_name.h"

namespace rlx {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::vector<std::string_view> parts(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (const auto part : std::views::split(text, at)) {
    if (const std::string_view word = trimmed(std::string_view(part)); !word.empty()) out.push_back(word);
  }
  return out;
}

bool cut_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  text = trimmed(text);
  return true;
}

std::vector<std::string> strings(const std::vector<std::string_view>& words) {
  return {words.begin(), words.end()};
}

// "f32 bool T"; "float", "integer" and "any" stand for several types.
std::vector<std::string> types_in(std::string_view text, const auto& wrong) {
  std::vector<std::string> types;
  for (const std::string_view word : parts(text, ' ')) {
    const bool floats = word == "float" || word == "any";
    const bool integers = word == "integer" || word == "any";
    for (const DType t : kAllDTypes) {
      if ((floats && is_float(t)) || (integers && is_integer(t)) || word == "any" || word == to_string(t))
        types.emplace_back(to_string(t));
    }
    if (word == "T") types.emplace_back(word);
    if (types.empty()) wrong(formatted("'{}' is not a type", word));
  }
  return types;
}

// A line of OpInfo::operands, attributes or outputs: "extra?... (types): documentation".
OpSchema::Tensor parse_line(std::string_view op, std::string_view line) {
  const auto wrong = [&](const std::string& what) {
    fail(ErrorKind::internal, "the op '{}' is described by the line '{}': {}", op, line, what);
  };
  const size_t colon = line.find(':');
  if (colon == line.npos) wrong("it has no colon");
  std::string_view name = trimmed(line.substr(0, colon));
  OpSchema::Tensor out{.name = "", .doc = std::string(trimmed(line.substr(colon + 1))), .types = {"T"}};
  if (const size_t open = name.find('('); open != name.npos) {
    if (!name.ends_with(')')) wrong("its types are not in parentheses");
    out.types = types_in(name.substr(open + 1, name.size() - open - 2), wrong);
    name = trimmed(name.substr(0, open));
  }
  out.variadic = cut_end(name, "...");
  out.optional = cut_end(name, "?");
  if (out.variadic && out.optional) wrong("any number of them may be none: `...` needs no `?`");
  const auto in_names = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, in_names))
    wrong(formatted("'{}' is not a name of letters, digits and _", name));
  out.name = name;
  return out;
}

std::vector<OpSchema::Tensor> parse_lines(std::string_view op, std::string_view text) {
  std::vector<OpSchema::Tensor> out;
  for (const std::string_view line : parts(text, '\n')) out.push_back(parse_line(op, line));
  return out;
}

class AttributeLister final : public AttributeVisitor {
 public:
  std::vector<OpSchema::Attribute> all;

 private:
  void visit(std::string_view name, AttrValue&, const std::optional<AttrValue>& otherwise,
             AttrKind kind) override {
    all.push_back({.name = std::string(name),
                   .doc = "",
                   .kind = std::string(attr_kind_name(kind)),
                   .default_value = otherwise.transform(attribute_text),
                   .words = std::exchange(words_, {})});
  }
  void visit_words(std::initializer_list<std::string_view> names) override {
    words_.assign(names.begin(), names.end());
  }

  std::vector<std::string> words_;
};

std::vector<OpSchema::Attribute> attributes_of(const OpInfo& info, Op& op) {
  AttributeLister lister;
  op.visit_attributes(lister);
  for (OpSchema::Tensor& line : parse_lines(info.name, info.attributes)) {
    const auto found = std::ranges::find(lister.all, line.name, &OpSchema::Attribute::name);
    if (found == lister.all.end()) {
      fail(ErrorKind::internal,
           "the op '{}' documents the attribute '{}', which it does not have (it has: {})", info.name,
           line.name, joined(lister.all, &OpSchema::Attribute::name));
    }
    found->doc = std::move(line.doc);
  }
  return std::move(lister.all);
}

OpSchema make_schema(const OpInfo& info) {
  const std::shared_ptr<Op> op = info.make();
  return {.name = info.name,
          .doc = info.formula,
          .types = strings(parts(info.types, ' ')),
          .operands = parse_lines(info.name, info.operands),
          .attributes = attributes_of(info, *op),
          .outputs = parse_lines(info.name, info.outputs),
          .internal = info.internal,
          .custom = info.custom};
}

// Null if it has no name: there is no such op, or it has fewer operands.
const OpSchema::Tensor* operand_at(std::string_view op, int64_t input) {
  if (!op_table().find(op)) return nullptr;
  const std::vector<OpSchema::Tensor>& operands = op_schema(op).operands;
  if (input < std::ssize(operands)) return &operands[static_cast<size_t>(input)];
  return !operands.empty() && operands.back().variadic ? &operands.back() : nullptr;
}

}  // namespace

const OpSchema& op_schema(std::string_view name) try {
  // Made when they are asked for: most programs need few of them.
  static std::mutex mutex;
  static std::map<std::string, OpSchema, std::less<>> schemas;
  const OpInfo& info = op_table().at(name);
  const std::scoped_lock lock(mutex);
  auto found = schemas.find(name);
  if (found == schemas.end()) found = schemas.emplace(info.name, make_schema(info)).first;
  return found->second;
} catch (...) {
  throw_as_error("looking up an op");
}

std::vector<std::string> op_names() try {
  std::vector<std::string> names;
  for (const auto& [name, info] : op_table().all()) names.emplace_back(name);
  return names;
} catch (...) {
  throw_as_error("listing the ops");
}

std::string operand_name(std::string_view op, int64_t input) {
  const OpSchema::Tensor* operand = operand_at(op, input);
  return operand && !operand->variadic ? operand->name : formatted("input {}", input);
}

std::optional<int64_t> find_operand(std::string_view op, std::string_view name) {
  if (!op_table().find(op)) return std::nullopt;
  const std::vector<OpSchema::Tensor>& operands = op_schema(op).operands;
  const auto found = std::ranges::find(operands, name, &OpSchema::Tensor::name);
  if (found == operands.end() || found->variadic) return std::nullopt;
  return found - operands.begin();
}

std::string named_operands(std::string_view op) {
  std::vector<std::string> names;
  for (const OpSchema::Tensor& operand : op_schema(op).operands) {
    if (!operand.variadic) names.push_back(operand.name);
  }
  return names.empty() ? "none" : joined(names);
}

bool is_optional_operand(std::string_view op, int64_t input) {
  const OpSchema::Tensor* operand = operand_at(op, input);
  return operand && operand->optional;
}

}  // namespace rlx
