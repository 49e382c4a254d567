#include "kernels/fragment.h"

#include <map>
#include <unordered_map>

#include "base/fail.h"
#include "kernels/registry.h"

namespace rlx {
namespace {

bool is_common(std::string_view file) { return file == "lib/prelude.wgsl" || file.starts_with("lib/math/"); }

const std::map<std::string, Fragment, std::less<>>& named_fragments() {
  static const std::map<std::string, Fragment, std::less<>> fragments = [] {
    std::map<std::string, Fragment, std::less<>> all;
    for (const auto& [file, text] : kernels::fragment_texts()) {
      if (is_common(file)) continue;
      const std::string_view stem = file.substr(4, file.size() - 4 - 5);  // lib/STEM.wgsl
      all.emplace(stem, parse_fragment(std::string(file), text));
    }
    return all;
  }();
  return fragments;
}

}  // namespace

const Fragment& common_fragment() {
  static const Fragment common = [] {
    Fragment all;
    for (const auto& [file, text] : kernels::fragment_texts()) {
      if (!is_common(file)) continue;
      Fragment one = parse_fragment(std::string(file), text);
      std::ranges::move(one.declarations, std::back_inserter(all.declarations));
    }
    return all;
  }();
  return common;
}

const Fragment* find_fragment(std::string_view name) {
  const auto found = named_fragments().find(name);
  return found == named_fragments().end() ? nullptr : &found->second;
}

std::vector<std::string> fragment_names() {
  std::vector<std::string> names;
  for (const auto& [name, fragment] : named_fragments()) names.push_back(name);
  return names;
}

std::string needed_declarations(const Kernel& kernel, std::string_view text, const Fragment* instead) {
  std::vector<const Fragment*> fragments;
  if (instead) fragments.push_back(instead);  // the first declaration of a name is the one that is taken
  fragments.push_back(&common_fragment());
  for (const std::string& lib : kernel.libs) fragments.push_back(find_fragment(lib));
  std::unordered_map<std::string_view, const Declaration*> missing;  // those not needed so far
  std::vector<std::string_view> asked = identifiers(text);
  for (const Fragment* f : fragments) {
    for (const Declaration& d : f->declarations) {
      missing.emplace(d.name, &d);
      if (d.entry_point) asked.push_back(d.name);
    }
  }
  std::string out;
  while (!asked.empty()) {
    const auto found = missing.find(asked.back());
    asked.pop_back();
    if (found == missing.end()) continue;
    const Declaration& d = *found->second;
    missing.erase(found);
    out += d.text;
    asked.insert(asked.end(), d.uses.begin(), d.uses.end());
  }
  return out;
}

}  // namespace rlx
