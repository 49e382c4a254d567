// What ops with Trait::view share: they have no kernel, only a function that says where each element lies.
#pragma once

#include "ir/reference.h"
#include "ops/machinery/op_of.h"

namespace rlx {

// The reference of a view op: its view of the input in row-major order.
inline void reference_view(const Op& op, RefContext& r) {
  RefTensor& out = r.out();
  const std::optional<View> view = op.view(View::contiguous(r.in(0).dims), out.dims);
  check(view.has_value(), "a view of contiguous memory can be expressed");
  visit_both(r.in(0), out, [&](const auto& from, auto& to) { to = gather_view(from, *view); });
}

template <class Self>
struct ViewOf : OpOf<Self> {
  bool has(Trait t) const override { return t == Trait::view; }
  void reference(RefContext& r) const override { reference_view(*this, r); }
};

}  // namespace rlx
