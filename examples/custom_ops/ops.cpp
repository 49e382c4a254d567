#include "ops.h"

#include <algorithm>
#include <cmath>

#include "rlx/custom_op.h"

namespace {

// One element of the output per invocation: lib/flat calls element(i), and cuts the work into as many
// dispatches as the device's limits require. The parameter `levels` has the name of an attribute, and
// therefore its value.
void register_posterize() {
  rlx::register_op({
      .name = "posterize",
      .formula = "y = the nearest to x of `levels` levels between 0 and 1",
      .attributes = {{"levels", 4}},
      .wgsl = R"(
        //@ in x float
        //@ out y float
        //@ use flat
        struct Params { first: u32, end: u32, levels: u32, }

        fn element(i: u32) -> y_t {
          let steps = f32(params.levels) - 1.0;
          return floor(clamp(x_at(i), 0.0, 1.0) * steps + 0.5) / steps;
        }
      )",
      .reference =
          [](rlx::CustomReference& r) {
            const double steps = static_cast<double>(r.integer("levels")) - 1;
            for (size_t i = 0; i < r.out().size(); ++i)
              r.out()[i] = std::floor(std::clamp(r.in(0)[i], 0.0, 1.0) * steps + 0.5) / steps;
          },
  });
}

// One row per team of invocations, whichever team the library finds fastest for the shape: lanes walk the
// row in steps of TEAM, and team_all joins their results with `merge`. The library sets `length`.
void register_l1_share() {
  rlx::register_op({
      .name = "l1_share",
      .formula = "y = x / sum(|x|) along axis",
      .attributes = {{"axis", -1}},
      .wgsl = R"(
        //@ in x float
        //@ out y float
        //@ use team_serial
        const TEAM: u32 = 1u;  //@ spec
        struct Params { first: u32, end: u32, length: u32, }

        alias team_t = f32;
        fn merge(a: f32, b: f32) -> f32 { return a + b; }

        fn row_task(row: u32, lane: u32, width: u32) {
          let start = x_base(row);
          var sum = 0.0;
          for (var j = lane; j < params.length; j += TEAM) { sum += abs(x_get(start + x_step(j))); }
          sum = team_all(sum, lane, width);
          let to = y_base(row);
          for (var j = lane; j < params.length; j += TEAM) {
            y_put(to + y_step(j), x_get(start + x_step(j)) / sum);
          }
        }
      )",
      .reference =
          [](rlx::CustomReference& r) {
            const std::vector<int64_t> dims = r.input(0).shape.values();
            const auto axis = static_cast<size_t>(r.axis("axis"));
            size_t stride = 1;  // between neighbours along the axis
            for (size_t a = axis + 1; a < dims.size(); ++a) stride *= static_cast<size_t>(dims[a]);
            const auto length = static_cast<size_t>(dims[axis]);
            const std::span<const double> x = r.in(0);
            for (size_t row = 0; length > 0 && row < x.size() / length; ++row) {
              const size_t first = row / stride * stride * length + row % stride;
              double sum = 0;
              for (size_t j = 0; j < length; ++j) sum += std::abs(x[first + j * stride]);
              for (size_t j = 0; j < length; ++j) r.out()[first + j * stride] = x[first + j * stride] / sum;
            }
          },
      .terms =
          [](const rlx::CustomCall& c) {
            return static_cast<double>(c.input(0).shape[c.axis("axis")].value());
          },
      .row_axis = [](const rlx::CustomCall& c) { return c.axis("axis"); },
  });
}

}  // namespace

void register_ops() {
  register_posterize();
  register_l1_share();
}
