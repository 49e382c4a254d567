#include "base/similar.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace rlx {
namespace {

// How many letters must be added, taken away or replaced to turn one word into the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_near(std::string_view wanted, std::string_view name) {
  constexpr size_t kLongest = 40;  // of any name
  if (wanted.size() > kLongest) return false;
  if (distance(wanted, name) <= (wanted.size() < 4 ? 1 : 2)) return true;
  return (wanted.size() >= 3 && name.contains(wanted)) || (name.size() >= 4 && wanted.contains(name));
}

}  // namespace rlx
