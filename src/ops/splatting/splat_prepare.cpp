// Splats as a camera sees them, ordered by distance and listed by the parts of the picture that may show
// them.
#include "kernels/gather.wgsl.h"
#include "kernels/lib.wgsl.h"
#include "kernels/lowering.h"
#include "kernels/splat_bounds.wgsl.h"
#include "kernels/splat_count.wgsl.h"
#include "kernels/splat_place.wgsl.h"
#include "kernels/splat_project.wgsl.h"
#include "ops/machinery/fill.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/order/row_order.h"
#include "ops/reductions/cumulative.h"
#include "ops/splatting/splat.h"

namespace rlx {

void check_splat_picture(const InferArgs& in, const SplatOptions& o, int64_t camera) {
  if (o.width < 1 || o.height < 1 || o.width > 65536 || o.height > 65536)
    fail("{}: a picture of {} x {} pixels; both must be from 1 to 65536", in.op(), o.width, o.height);
  if (o.tile_size != 4 && o.tile_size != 8 && o.tile_size != 16)
    fail("{}: tile_size is {}; it can be 4, 8 or 16", in.op(), o.tile_size);
  if (o.bins < 1 || o.bins > 64) fail("{}: bins is {}; it can be from 1 to 64", in.op(), o.bins);
  in.expect_float(camera);
  const Shape& shape = in.shape(camera);
  if (shape.rank() != 1 || (!shape[0].is(kCameraLength) && !shape[0].is(kLensCameraLength))) {
    fail(
        "{}: the camera is {}; it has {} numbers (position, target, up, field of view, near, far, "
        "background), and 8 more "
        "for a lens",
        in.op(), shape.text(), kCameraLength);
  }
}

namespace {

struct SplatPrepare final : OpOf<SplatPrepare> {
  static constexpr auto kName = "gaussian_splat_prepare";
  SplatOptions o;

  void visit_attributes(AttributeVisitor& v) override {
    v("width", o.width, 64);
    v("height", o.height, 64);
    v("tile_size", o.tile_size, 16);
    v("bins", o.bins, 4);
    v("radius_scale", o.radius_scale, 1.6);
    v("alpha_cutoff", o.alpha_cutoff, 1.0 / 255);
    v.choice("opacity", o.opacity, {"linear", "logit"}, {SplatOpacity::linear});
    v.choice("quaternion", o.quaternion, {"wxyz", "xyzw"}, {SplatQuaternion::wxyz});
    v.choice("direction", o.direction, {"to_camera", "from_camera"}, {SplatDirection::to_camera});
    v("clamp_colors", o.clamp_colors, false);
    v("blur", o.blur, 0.0);
    v("antialiased", o.antialiased, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override { reference_splat_prepare(r, o); }
  void lower(Lowering& l) const override;
  // Products of lengths, directions and their reciprocals; the shape of a splat seen along its edge is the
  // difference of larger numbers.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 4000, .scale = 0.01}; }
};

std::vector<TensorType> SplatPrepare::infer(const InferArgs& in) const {
  in.expect_count(6);
  check_splat_picture(in, o, 5);
  if (!(o.alpha_cutoff > 0) || !(o.radius_scale > 0) || !(o.blur >= 0)) {
    fail("{}: alpha_cutoff {} and radius_scale {} must be more than 0, and blur {} at least 0", kName,
         o.alpha_cutoff, o.radius_scale, o.blur);
  }
  for (int64_t i = 0; i < 5; ++i) in.expect_float(i);
  const Dim n = in.shape(0).rank() > 0 ? in.shape(0)[0] : Dim(1);
  const auto expect = [&](int64_t input, std::string_view what, const Shape& shape) {
    if (in.shape(input) != shape)
      fail("{}: {} are {}, not {}", kName, what, in.shape(input).text(), shape.text());
  };
  expect(0, "positions", {n, 3});
  expect(1, "log scales", {n, 3});
  expect(2, "rotations", {n, 4});
  expect(3, "opacities", {n});
  const Shape& colors = in.shape(4);
  const bool harmonic =
      colors.rank() == 3 && (colors[1].is(1) || colors[1].is(4) || colors[1].is(9) || colors[1].is(16));
  if (colors != (harmonic ? Shape{n, colors[1], 3} : Shape{n, 3}))
    fail("{}: colors are {}; they must be [{}, 3], or [{}, c, 3] with c = 1, 4, 9 or 16", kName,
         colors.text(), n.text(), n.text());
  const int64_t bins = splat_grid(o).count();
  return {TensorType{DType::f32, {n, splat_record::kLength}}, TensorType{DType::i32, {bins, n}},
          TensorType{DType::i32, {bins}}};
}

Operand part_of(const Operand& x, int64_t begin, int64_t length) {
  return x.with_view(x.view.slice(0, begin, length));
}

class Preparation {
 public:
  Preparation(Lowering& l, const SplatOptions& o)
      : l_(l),
        o_(o),
        grid_(splat_grid(o)),
        n_(l.in(0).view.dims[0]),
        distorted_(l.in(5).view.dims[0] > kCameraLength) {}

  void run() {
    const Operand records = l_.scratch(DType::f32, {n_, splat_record::kLength});
    const Operand ranks = l_.scratch(DType::u32, {1, n_});
    project(records, ranks.with_view(View::contiguous({n_})));
    const Operand order = l_.scratch(DType::i32, {1, n_});
    lower_order(l_, {.op = "sort",
                     .ranks = ranks.with_view(ranks.view, 1),
                     .rows = 1,
                     .length = n_,
                     .count = n_,
                     .y = order.with_view(order.view, 1)});
    take_rows(records, order, l_.out(0));
    const Operand boxes = l_.scratch(DType::f32, {n_, 4});
    take_rows(records.with_view(records.view.slice(1, splat_record::kBox, 4)), order, boxes);
    list(boxes, bounds());
  }

 private:
  void project(const Operand& records, const Operand& ranks) {
    const View& colors = l_.in(4).view;
    l_.split(n_, kernels::splat_project::GROUP, [&](int64_t begin, int64_t length) {
      const auto part = [&](const Operand& x) { return part_of(x, begin, length); };
      return l_.make<kernels::splat_project>(
          {.positions = part(l_.in(0)),
           .scales = part(l_.in(1)),
           .rotations = part(l_.in(2)),
           .opacities = part(l_.in(3)),
           .colors = part(l_.in(4)),
           .camera = l_.in(5),
           .records = part(records),
           .ranks = part(ranks)},
          {.splats = to_u32(length),
           .height = static_cast<float>(o_.height),
           .radius_scale = static_cast<float>(o_.radius_scale),
           .cutoff = static_cast<float>(o_.alpha_cutoff),
           .blur = static_cast<float>(o_.blur)},
          ceil_div(length, int64_t{kernels::splat_project::GROUP}),
          {.DISTORTED = distorted_,
           .COEFFICIENTS = colors.rank() == 3 ? to_u32(colors.dims[1]) : 0U,
           .LOGIT = o_.opacity == SplatOpacity::logit,
           .XYZW = o_.quaternion == SplatQuaternion::xyzw,
           .FROM_CAMERA = o_.direction == SplatDirection::from_camera,
           .CLAMP = o_.clamp_colors,
           .BLUR = o_.blur > 0,
           .ANTIALIASED = o_.antialiased});
    });
  }

  void take_rows(const Operand& table, const Operand& order, const Operand& y) {
    l_.flat<kernels::gather>(
        {.table = table.with_view(table.view, 1), .indices = order.with_view(View::contiguous({n_})), .y = y},
        {.count = to_u32(n_), .length = to_u32(n_), .inner = to_u32(table.view.dims[1])});
  }

  Operand bounds() {
    const Operand y = l_.scratch(DType::f32, {grid_.count(), 4});
    l_.emit(l_.make<kernels::splat_bounds>({.camera = l_.in(5), .y = y},
                                           {.width = to_u32(o_.width),
                                            .height = to_u32(o_.height),
                                            .across = to_u32(grid_.across),
                                            .edge = to_u32(grid_.edge * o_.tile_size)},
                                           grid_.count(), {.DISTORTED = distorted_}));
    return y;
  }

  void list(const Operand& boxes, const Operand& bounds) {
    const int64_t blocks = ceil_div(n_, int64_t{kernels::lib::blocks::BLOCK});
    const Operand counts = l_.scratch(DType::u32, {grid_.count(), blocks});
    l_.split(grid_.count(), 1, [&](int64_t begin, int64_t length) {
      return l_.make<kernels::splat_count>(
          {.boxes = boxes, .bounds = part_of(bounds, begin, length), .y = part_of(counts, begin, length)},
          {.splats = to_u32(n_), .blocks = to_u32(blocks)}, length * blocks);
    });
    const Operand before = l_.scratch(DType::u32, counts.view.dims);
    lower_scan(
        l_,
        {.x = counts.with_view(counts.view, 1), .y = before.with_view(before.view, 1), .exclusive = true});
    lower_fill(l_, l_.out(1), 0);
    l_.split(grid_.count(), 1, [&](int64_t begin, int64_t length) {
      const auto part = [&](const Operand& x) { return part_of(x, begin, length); };
      return l_.make<kernels::splat_place>({.boxes = boxes,
                                            .bounds = part(bounds),
                                            .before = part(before),
                                            .lists = part(l_.out(1)),
                                            .counts = part(l_.out(2))},
                                           {.splats = to_u32(n_), .blocks = to_u32(blocks)}, length * blocks);
    });
  }

  Lowering& l_;
  const SplatOptions& o_;
  SplatGrid grid_;
  int64_t n_;
  bool distorted_;
};

void SplatPrepare::lower(Lowering& l) const {
  if (l.in(0).view.dims[0] == 0) {
    lower_fill(l, l.out(2), 0);
    return;
  }
  Preparation(l, o).run();
}

}  // namespace

PreparedSplats gaussian_splat_prepare(Value positions, Value log_scales, Value rotations, Value opacities,
                                      Value colors, Value camera, const SplatOptions& options) {
  auto op = std::make_shared<SplatPrepare>();
  op->o = options;
  return named_outputs<PreparedSplats>(
      add_node(op, {positions, log_scales, rotations, opacities, colors, camera}));
}

namespace ops {
void register_splat_prepare(OpTable& table) {
  table.add<SplatPrepare>(
      {.formula = "Gaussian splats as the camera sees them, by distance (docs/splatting.md); for each bin of "
                  "the picture a list of those that it may show, and their number",
       .operands = kSplatOperands,
       .attributes =
           "width: of the picture, in pixels\n"
           "height: of the picture, in pixels\n"
           "tile_size: pixels along the side of the square that a workgroup draws: 4, 8 or 16\n"
           "bins: how many lists of splats there are along the longer side of the picture\n"
           "radius_scale: how many times larger splats are than their scales say\n"
           "alpha_cutoff: a splat is not seen where its alpha is less\n"
           "opacity: how opacities are given\n"
           "quaternion: the order of the numbers of a rotation\n"
           "direction: which way spherical harmonics look, between splat and camera\n"
           "clamp_colors: colours from spherical harmonics are at least 0\n"
           "blur: the variance, in square pixels, of a filter that widens splats; 0: no filter\n"
           "antialiased: what the filter widens becomes more transparent, so that it keeps its weight",
       .outputs = "splats (f32): [n, 20], by distance, each as the camera sees it\n"
                  "lists (i32): [bins of the picture, n], the splats that each bin may show\n"
                  "counts (i32): [bins of the picture], how many splats each list has",
       .types = "f32 f16 bf16",
       .variants = {"gaussian_splat_prepare"},
       .samples = {
           "gaussian_splat_prepare(T[40,3] in -90..90, T[40,3] in 1..2.5, T[40,4], T[40] in 0..1, "
           "T[40,16,3] in -1..1, f32[15] in 5..60) {width=100, height=70}",
           "gaussian_splat_prepare(T[33,3] in -20..20, T[33,3] in 0..1, T[33,4], T[33] in -3..3, "
           "T[33,3] in 0..1, f32[23] in 2..6) {width=33, height=40, tile_size=8, opacity=\"logit\", "
           "quaternion=\"xyzw\", blur=0.3, antialiased=true}",
           "gaussian_splat_prepare(T[1,3] in -90..90, T[1,3] in 3..4, T[1,4], T[1] in 0..1, T[1,4,3], "
           "f32[15] in 5..60) {direction=\"from_camera\", clamp_colors=true, bins=1}",
           "gaussian_splat_prepare(T[0,3], T[0,3], T[0,4], T[0], T[0,9,3], f32[15] in 5..60)",
           // All at one place: ordered by their numbers, however distances are rounded. The camera looks
           // along z.
           "gaussian_splat_prepare(T[3001,3] in 190..190, T[3001,3] in 2.1..3, T[3001,4], T[3001] in 0..1, "
           "T[3001,9,3], f32[15] in 90..90) {width=64, height=64, tile_size=4, radius_scale=1}"}});
}
}  // namespace ops

}  // namespace rlx
