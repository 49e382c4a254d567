// Writes what the fuzzer begins with: run it in the source folder after a change of
// tests/support/onnx_seeds.cpp, or when the importer knows more ops.
#include <cstdio>
#include <fstream>

#include "import/onnx/one_to_one.h"
#include "import/onnx/rules.h"
#include "tests/support/onnx_seeds.h"

namespace {

void write(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) {
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::exit(1);
  }
}

// The names of ops and of what they take, which no mutation would find.
std::string dictionary() {
  std::set<std::string> words = {"body",   "then_branch", "else_branch", "axis",   "axes",
                                 "to",     "value",       "keepdims",    "perm",   "pads",
                                 "starts", "ends",        "location",    "offset", "length"};
  for (const auto& [id, rule] : rlx::onnx::rule_table().all()) {
    words.emplace(id.first);
    words.emplace(id.second);
  }
  for (const std::string& name : rlx::onnx::one_to_one_names()) words.insert(name);
  words.erase("");
  std::string out = "# Written by tests/fuzz/make_onnx_corpus.cpp.\n";
  for (const std::string& word : words) out += "\"" + word + "\"\n";
  return out;
}

}  // namespace

int main() {
  for (const auto& [name, bytes] : rlx::testing::onnx_seeds()) {
    write("tests/fuzz/corpus/onnx/" + name + ".onnx",
          {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  write("tests/fuzz/onnx.dict", dictionary());
}
