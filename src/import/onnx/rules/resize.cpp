// Resize, and Upsample, which it replaced in opset 10.
#include <algorithm>
#include <array>

#include "import/onnx/rules.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/resampling.h"

namespace rlx::onnx {
namespace {

// The enumerator whose word this is.
template <class Enum, size_t N>
Enum choice(std::string_view attribute, const std::string& word,
            const std::array<std::pair<std::string_view, Enum>, N>& words) {
  const auto it = std::ranges::find(words, word, &std::pair<std::string_view, Enum>::first);
  if (it == words.end()) fail("its {} is '{}'", attribute, excerpt(word));
  return it->second;
}

ResizeMode mode_of(Call& c) {
  constexpr std::array<std::pair<std::string_view, ResizeMode>, 4> kWords = {
      {{"nearest", ResizeMode::nearest},
       {"linear", ResizeMode::linear},
       {"bilinear", ResizeMode::linear},
       {"cubic", ResizeMode::cubic}}};
  return choice("mode", c.text("mode", "nearest"), kWords);
}

ResizeCoordinates coordinates_of(Call& c) {
  using enum ResizeCoordinates;
  constexpr std::array<std::pair<std::string_view, ResizeCoordinates>, 7> kWords = {
      {{"half_pixel", half_pixel},
       {"half_pixel_symmetric", half_pixel_symmetric},
       {"pytorch_half_pixel", pytorch_half_pixel},
       {"align_corners", align_corners},
       {"asymmetric", asymmetric},
       {"tf_half_pixel_for_nn", tf_half_pixel_for_nn},
       {"tf_crop_and_resize", tf_crop_and_resize}}};
  return choice("coordinate_transformation_mode", c.text("coordinate_transformation_mode", "half_pixel"),
                kWords);
}

ResizeRounding rounding_of(Call& c) {
  using enum ResizeRounding;
  constexpr std::array<std::pair<std::string_view, ResizeRounding>, 4> kWords = {
      {{"round_prefer_floor", round_prefer_floor},
       {"round_prefer_ceil", round_prefer_ceil},
       {"floor", ResizeRounding::floor},
       {"ceil", ResizeRounding::ceil}}};
  return choice("nearest_mode", c.text("nearest_mode", "round_prefer_floor"), kWords);
}

ResizeAspect aspect_of(Call& c) {
  using enum ResizeAspect;
  constexpr std::array<std::pair<std::string_view, ResizeAspect>, 3> kWords = {
      {{"stretch", stretch}, {"not_larger", not_larger}, {"not_smaller", not_smaller}}};
  return choice("keep_aspect_ratio_policy", c.text("keep_aspect_ratio_policy", "stretch"), kWords);
}

// Integers are interpolated as floats, and what is behind the point is dropped.
void finish(Call& c, const ResizeOptions& options) {
  const Value x = c.in(0);
  if (is_float(x.dtype()) || options.mode == ResizeMode::nearest) return c.out(resize(x, options));
  c.out(cast(resize(cast(x, DType::f32), options), x.dtype()));
}

// With an input that has no elements in place of one that is not given.
bool given(Call& c, int64_t i) { return c.has(i) && !c.shape(i).elements().is(0); }

// Before opset 11 there was one way to find places, and Upsample had its scales in an attribute at first.
void old_resize_rule(Call& c) {
  c.expect_inputs(1, 2);
  ResizeOptions options{
      .mode = mode_of(c), .coordinates = ResizeCoordinates::asymmetric, .rounding = ResizeRounding::floor};
  options.scales = c.has(1) ? c.require_constant(1, "the list of scales").doubles() : c.reals("scales");
  finish(c, options);
}

void resize_rule(Call& c) {
  if (c.opset() < 11) return old_resize_rule(c);
  c.expect_inputs(1, 4);
  ResizeOptions options{.axes = c.integers("axes"),
                        .mode = mode_of(c),
                        .coordinates = coordinates_of(c),
                        .rounding = rounding_of(c),
                        .aspect = aspect_of(c),
                        .antialias = c.flag("antialias", false),
                        .exclude_outside = c.flag("exclude_outside", false),
                        .cubic_coeff = c.real("cubic_coeff_a", -0.75),
                        .outside = c.real("extrapolation_value", 0)};
  if (given(c, 2)) {
    options.scales = c.require_constant(2, "the list of scales").doubles();
    options.aspect = ResizeAspect::stretch;
  } else if (given(c, 3)) {
    options.sizes = Shape(c.dims(3, "the list of sizes"));
  } else if (c.rank(0) > 0) {
    fail("it has neither scales nor sizes");
  }
  if (options.coordinates == ResizeCoordinates::tf_crop_and_resize)
    options.roi = c.require_constant(1, "the region").doubles();
  finish(c, options);
}

}  // namespace

namespace rules {
void register_resize(RuleTable& table) {
  table.add("Resize", resize_rule);
  table.add("Upsample", old_resize_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
