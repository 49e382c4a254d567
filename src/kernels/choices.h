// The kernels that were chosen, by problem, in a form that a file can keep.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace rlx {

class KernelChoices {
 public:
  // Replaces what was chosen for the same problems.
  void add(std::string_view family, std::string_view key, std::string_view candidate);
  // The candidate's name; "" if nothing was chosen for such problems.
  std::string_view find(std::string_view family, std::string_view key) const;
  size_t size() const { return chosen_.size(); }

  // A line for each: family, key and candidate, between tabs.
  std::string text() const;
  // ErrorKind::invalid_argument if the text is not what text() writes.
  static KernelChoices parse(std::string_view text);

 private:
  using Problem = std::pair<std::string, std::string>;
  struct Less {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const {
      const int families = std::string_view(a.first).compare(b.first);
      return families != 0 ? families < 0 : std::string_view(a.second) < std::string_view(b.second);
    }
  };
  std::map<Problem, std::string, Less> chosen_;
};

}  // namespace rlx
