#include "kernels/dispatch_cost.h"

#include <algorithm>
#include <map>

#include "kernels/binder.h"

namespace rlx {
namespace {

double elements_of(const Operand& o) { return static_cast<double>(std::max<int64_t>(o.view.elements(), 0)); }

// Of what the view touches: an operand that is broadcast has fewer bytes than elements.
double bytes_of(const Operand& o) {
  const auto reach = static_cast<double>(reach_bytes(o));
  const auto all = static_cast<double>(device_bytes_of(o.dtype, o.view.elements()));
  if (o.window.end <= o.window.begin) return std::min(all, reach);
  const View::Range range = o.view.range();
  const double share = static_cast<double>(o.window.end - o.window.begin) /
                       static_cast<double>(std::max<int64_t>(range.end - range.begin, 1));
  return std::min(all, reach) * std::min(share, 1.0);
}

template <class F>
double sum_of_outputs(const Dispatch& d, F&& amount) {
  double sum = 0;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    if (d.operands[i].present() && d.kernel->operands[i].out) sum += amount(d.operands[i]);
  }
  return sum;
}

// Of kernels without a table of candidates. Measured with lavapipe: those that make their results one by one
// find out for each of them, by divisions, what it is made of, which takes as long as several steps.
double by_amount_ns(const Rates& r, const Dispatch& d) {
  constexpr double kPlaces = 3;
  const double steps = sum_of_outputs(d, elements_of) / 4 * (r.cpu && d.kernel->flat ? kPlaces : 1);
  return r.launch_ns +
         std::max(stream_ns(r, bytes_moved(std::span(&d, 1))), steps * r.step_ns / std::max(r.lanes, 1.0));
}

bool same_choice(const Dispatch& a, const Dispatch& b) { return a.node == b.node && a.choice == b.choice; }

}  // namespace

double bytes_moved(std::span<const Dispatch> dispatches) {
  // The dispatches of a choice may each write a part of a storage that is bound whole, and what one writes
  // the next may read.
  struct Moved {
    double parts = 0, most = 0;
  };
  std::map<int32_t, Moved> storages;
  for (const Dispatch& d : dispatches) {
    const double written = sum_of_outputs(d, bytes_of);
    for (size_t i = 0; i < d.operands.size(); ++i) {
      const Operand& o = d.operands[i];
      const OperandDecl& decl = d.kernel->operands[i];
      if (!o.present()) continue;
      // Without a choice, what is much larger than the result is a table of which a few rows are read.
      const bool picked = !decl.out && d.choice < 0 && bytes_of(o) > 4 * written;
      const double bytes = picked ? written : bytes_of(o);
      Moved& moved = storages[o.storage];
      if (o.window.end > o.window.begin) {
        moved.parts += bytes;
      } else {
        moved.most = std::max(moved.most, bytes);
      }
    }
  }
  double sum = 0;
  for (const auto& [storage, moved] : storages) sum += std::max(moved.parts, moved.most);
  return sum;
}

std::vector<double> predicted_ns(const Rates& r, std::span<const Dispatch> dispatches) {
  std::vector<double> out(dispatches.size(), 0.0);
  for (size_t i = 0; i < dispatches.size();) {
    const Dispatch& first = dispatches[i];
    if (first.choice < 0) {
      out[i++] = by_amount_ns(r, first);
      continue;
    }
    // What candidates are compared by leaves out what is the same for all of them, or assumes that it is in
    // the caches.
    size_t end = i;
    while (end < dispatches.size() && same_choice(dispatches[end], first)) ++end;
    const auto count = static_cast<double>(end - i);
    const double least = count * r.dispatch_ns + stream_ns(r, bytes_moved(dispatches.subspan(i, end - i)));
    out[i] = std::max(first.choice_ns, least) + count * std::max(r.launch_ns - r.dispatch_ns, 0.0);
    i = end;
  }
  return out;
}

}  // namespace rlx
