// Pictures of prepared splats.
#include "kernels/lowering.h"
#include "kernels/splat_rasterize.wgsl.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "ops/machinery/outputs.h"
#include "ops/splatting/splat.h"

namespace rlx {
namespace {

struct SplatRasterize final : OpOf<SplatRasterize> {
  static constexpr auto kName = "gaussian_splat_rasterize";
  SplatOptions o;

  void visit_attributes(AttributeVisitor& v) override {
    v("width", o.width, 64);
    v("height", o.height, 64);
    v("tile_size", o.tile_size, 16);
    v("bins", o.bins, 4);
    v("transmittance_threshold", o.transmittance_threshold, 0.01);
    v("gamma", o.gamma, 2.2);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override { reference_splat_rasterize(r, o); }
  // Rows of numbers are read four at a time.
  bool reads_view(int64_t input, const View& view) const override {
    return input != 0 || (view.is_contiguous() && view.offset % 4 == 0);
  }
  void lower(Lowering& l) const override;
  // The exponential of WGSL, for a few dozen splats of a pixel.
  Tolerance tolerance(std::span<const TensorType>) const override { return {.ulps = 200, .scale = 1}; }
};

std::vector<TensorType> SplatRasterize::infer(const InferArgs& in) const {
  in.expect_count(4);
  check_splat_picture(in, o, 3);
  if (!(o.transmittance_threshold >= 0) || !(o.gamma > 0)) {
    fail("{}: transmittance_threshold {} must be at least 0, and gamma {} more than 0", kName,
         o.transmittance_threshold, o.gamma);
  }
  in.expect_dtype(0, in.dtype(0) == DType::f32, "f32");
  for (const int64_t i : {1, 2}) in.expect_dtype(i, in.dtype(i) == DType::i32, "i32");
  const Shape& splats = in.shape(0);
  const int64_t bins = splat_grid(o).count();
  if (splats.rank() != 2 || in.shape(1) != Shape{bins, splats[0]} || in.shape(2) != Shape{bins} ||
      !splats[1].is(splat_record::kLength)) {
    fail(
        "{}: splats {}, lists {} and counts {}; a picture of {} x {} with {} bins needs [n, {}], [{}, n] and "
        "[{}]",
        kName, splats.text(), in.shape(1).text(), in.shape(2).text(), o.width, o.height, bins,
        splat_record::kLength, bins, bins);
  }
  return {TensorType{DType::f32, {o.height, o.width, 4}}, TensorType{DType::f32, {o.height, o.width}}};
}

void SplatRasterize::lower(Lowering& l) const {
  const SplatGrid grid = splat_grid(o);
  const int64_t n = l.in(0).view.dims[0];
  const int64_t tiles = ceil_div(o.width, o.tile_size);
  // By rows of tiles: their pixels lie one after the other, and so do the lists of their bins.
  l.split(ceil_div(o.height, o.tile_size), 1, [&](int64_t begin, int64_t length) {
    const int64_t first_bins = begin / grid.edge;
    const int64_t bin_rows = (begin + length - 1) / grid.edge + 1 - first_bins;
    const auto bins = [&](const Operand& x) {
      return x.with_view(x.view.slice(0, first_bins * grid.across, bin_rows * grid.across));
    };
    const int64_t row = begin * o.tile_size;
    const auto rows = [&](const Operand& y) {
      return y.with_view(y.view.slice(0, row, std::min(length * o.tile_size, o.height - row)));
    };
    return l.make<kernels::splat_rasterize>({.splats = n > 0 ? l.in(0) : Operand{},
                                             .lists = n > 0 ? bins(l.in(1)) : Operand{},
                                             .counts = bins(l.in(2)),
                                             .camera = l.in(3),
                                             .image = rows(l.out(0)),
                                             .depth = rows(l.out(1))},
                                            {.width = to_u32(o.width),
                                             .height = to_u32(o.height),
                                             .splats = to_u32(n),
                                             .tiles = to_u32(tiles),
                                             .across = to_u32(grid.across),
                                             .edge = to_u32(grid.edge),
                                             .tile_row = to_u32(begin),
                                             .threshold = static_cast<float>(o.transmittance_threshold),
                                             .gamma = static_cast<float>(o.gamma)},
                                            length * tiles,
                                            {.DISTORTED = l.in(3).view.dims[0] > kCameraLength,
                                             .TILE = to_u32(o.tile_size),
                                             .PLAIN = o.gamma == 1});
  });
}

}  // namespace

DrawnSplats gaussian_splat_rasterize(Value splats, Value lists, Value counts, Value camera,
                                     const SplatOptions& options) {
  auto op = std::make_shared<SplatRasterize>();
  op->o = options;
  return named_outputs<DrawnSplats>(add_node(op, {splats, lists, counts, camera}));
}

namespace ops {
void register_splat_rasterize(OpTable& table) {
  table.add<SplatRasterize>(
      {.formula = "the picture of prepared splats, blended from front to back: RGB to the power gamma and "
                  "alpha; and their "
                  "mean distance",
       .operands = "splats: [n, 20], as gaussian_splat_prepare made them\n"
                   "lists (i32): [bins of the picture, n], the splats that each bin may show\n"
                   "counts (i32): [bins of the picture], how many splats each list has\n"
                   "camera (float): [15], position, target, up, field of view in degrees, near, far, "
                   "background; [23] with a lens",
       .attributes = "width: of the picture, in pixels\n"
                     "height: of the picture, in pixels\n"
                     "tile_size: pixels along the side of the square that a workgroup draws: 4, 8 or 16\n"
                     "bins: how many lists of splats there are along the longer side of the picture\n"
                     "transmittance_threshold: a pixel is finished when less than this part of the light "
                     "comes through\n"
                     "gamma: the power to which colours are raised in the picture",
       .outputs = "picture (f32): [height, width, 4], RGB and alpha\n"
                  "distance (f32): [height, width], the mean distance of what is seen; 0 where nothing is",
       .types = "f32",
       .variants = {"gaussian_splat_rasterize"},
       .samples = {
           "gaussian_splat_rasterize(T[65,20] in -0.9..0.9, i32[12,65] in 0..64, i32[12] in 9..65, "
           "f32[15] in 20..60) {width=100, height=70}",
           "gaussian_splat_rasterize(T[100,20] in -0.4..0.4, i32[16,100] in 0..99, i32[16] in 0..100, "
           "f32[15] in "
           "20..60) {width=61, height=64, gamma=1, tile_size=8, transmittance_threshold=0.000001}",
           "gaussian_splat_rasterize(T[33,20] in -0.4..0.4, i32[1,33] in 0..32, i32[1] in 30..33, "
           "f32[23] in 1..3) {width=9, height=7, bins=1}",
           "gaussian_splat_rasterize(T[0,20], i32[1,0], i32[1] in 0..9, f32[15] in 1..2) {width=3, height=1}",
           "gaussian_splat_rasterize(T[257,20] in -0.4..0.4, i32[12,257] in 0..256, i32[12] in 0..257, "
           "f32[15] in "
           "20..60) {width=210, height=150, tile_size=16}"}});
}
}  // namespace ops

}  // namespace rlx
