#include "kernels/fragment.h"

#include <cctype>
#include <unordered_map>

namespace rlx {

std::vector<std::string_view> identifiers(std::string_view wgsl) {
  const auto part_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::vector<std::string_view> names;
  for (size_t at = 0; at < wgsl.size();) {
    if (wgsl.substr(at, 2) == "//") {
      at = std::min(wgsl.find('\n', at), wgsl.size());
    } else if (part_of_name(wgsl[at])) {
      size_t end = at;
      while (end < wgsl.size() && part_of_name(wgsl[end])) ++end;
      if (!std::isdigit(static_cast<unsigned char>(wgsl[at]))) names.push_back(wgsl.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
  return names;
}

std::string needed_declarations(const Kernel& kernel, std::string_view text) {
  std::vector<const Fragment*> fragments = {&common_fragment()};
  for (const std::string& lib : kernel.libs) fragments.push_back(&fragment(lib));
  std::unordered_map<std::string_view, const Declaration*> missing;  // what is known and not yet needed
  std::vector<std::string_view> asked = identifiers(text);
  for (const Fragment* f : fragments) {
    for (const Declaration& d : *f) {
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
