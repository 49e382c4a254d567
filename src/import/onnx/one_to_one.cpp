#include "import/onnx/one_to_one.h"

#include <map>
#include <sstream>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/scalar.h"
#include "rlx/ops/elementwise.h"

namespace rlx::onnx {
namespace {

using Table = std::map<std::string, OneToOne, std::less<>>;

// "LeakyRelu alpha=0.01"
void add(Table& table, std::string_view text, OneToOne entry) {
  std::istringstream words{std::string(text)};
  std::string name;
  words >> name;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    entry.numbers.emplace_back(word.substr(0, equals), std::stod(word.substr(equals + 1)));
  }
  const bool added = table.emplace(name, std::move(entry)).second;
  check(added, "an ONNX op is one op of ours");
}

const Table& table() {
  static const Table all = [] {
    Table out;
    for (const ScalarFn& fn : scalar_functions()) {
      if (fn.onnx.empty()) continue;
      add(out, fn.onnx, {.op = std::string(fn.name), .to_bool = fn.result == ScalarFn::Result::boolean});
    }
    return out;
  }();
  return all;
}

}  // namespace

const OneToOne* find_one_to_one(std::string_view onnx_op) {
  const auto it = table().find(onnx_op);
  return it == table().end() ? nullptr : &it->second;
}

void import_one_to_one(const OneToOne& same, Call& c) {
  std::vector<Value> inputs = c.all();
  if (inputs.empty()) fail("it has no inputs");
  if (inputs.size() == 2) inputs[1] = c.second();
  const ElementType type = c.type(c.input_count() - 1);
  for (const auto& [name, otherwise] : same.numbers)
    inputs.push_back(c.like(inputs[0], c.real(name, otherwise)));
  const Value made = apply_function(same.op, inputs);
  if (same.to_bool) return c.out(0, made, ElementType::boolean);
  c.out(0, c.wrapped(made, type), type);
}

std::vector<std::string> one_to_one_names() {
  std::vector<std::string> out;
  for (const auto& [name, entry] : table()) out.push_back(name);
  return out;
}

}  // namespace rlx::onnx
