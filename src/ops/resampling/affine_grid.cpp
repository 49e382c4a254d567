#include "ir/reference.h"
#include "ops/machinery/op_of.h"
#include "ops/machinery/op_table.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/resampling.h"

namespace rlx {
namespace {

// grid[n, p] = theta[n] applied to the coordinates of p, which go from -1 to 1 along each axis.
struct AffineGrid final : OpOf<AffineGrid> {
  static constexpr auto kName = "affine_grid";
  Shape size;
  bool align_corners = false;

  void visit_attributes(AttributeVisitor& v) override {
    v("size", size);
    v("align_corners", align_corners, false);
  }
  std::vector<TensorType> infer(const InferArgs& in) const override;
  void reference(RefContext& r) const override;
  std::optional<std::vector<Value>> expand(const ExpandArgs& in) const override;
  // Sums of up to four products of numbers up to 2 and coordinates of three roundings.
  Tolerance tolerance(std::span<const TensorType>) const override {
    return {.ulps = 8, .terms = 4, .scale = 4};
  }
};

std::vector<TensorType> AffineGrid::infer(const InferArgs& in) const {
  in.expect_count(1);
  in.expect_float(0);
  const int64_t spatial = size.rank() - 2;
  if (spatial != 2 && spatial != 3)
    fail("affine_grid: the size {} must be [batch, channels] and two or three spatial sizes", size.text());
  const Shape wanted{size[0], spatial, spatial + 1};
  if (!(in.shape(0) == wanted))
    fail("affine_grid: theta {} must be {} for the size {}", in.shape(0).text(), wanted.text(), size.text());
  Shape out{size[0]};
  for (int64_t i = 0; i < spatial; ++i) out.push_back(size[i + 2]);
  out.push_back(spatial);
  return {TensorType{in.dtype(0), out}};
}

void AffineGrid::reference(RefContext& r) const {
  const std::vector<int64_t>& dims = r.out().dims;
  const size_t spatial = dims.size() - 2;
  const int64_t places = product({dims.begin() + 1, dims.end() - 1});
  for (int64_t i = 0; i < r.out().elements(); ++i) {
    const int64_t row = i % static_cast<int64_t>(spatial);
    int64_t place = i / static_cast<int64_t>(spatial);
    const double* theta = r.in(0).real.data() + (place / places * static_cast<int64_t>(spatial) + row) *
                                                    static_cast<int64_t>(spatial + 1);
    double sum = theta[spatial];
    for (size_t axis = 0; axis < spatial; ++axis) {  // from the last one
      const int64_t length = dims[spatial - axis];
      const auto at = static_cast<double>(place % length);
      const auto n = static_cast<double>(length);
      place /= length;
      const double corners = length > 1 ? 2 * at / (n - 1) - 1 : 0;
      sum += theta[axis] * (align_corners ? corners : (2 * at + 1) / n - 1);
    }
    r.out().real[static_cast<size_t>(i)] = sum;
  }
}

// The size may depend on symbols, so coordinates are computed, and a length is a tensor of one element.
std::optional<std::vector<Value>> AffineGrid::expand(const ExpandArgs& in) const {
  const int64_t spatial = size.rank() - 2;
  const auto column = [&](int64_t i) {
    Shape to(std::vector<int64_t>(static_cast<size_t>(spatial + 2), 1));
    to[0] = size[0];
    to[spatial + 1] = spatial;
    return reshape(slice(cast(in[0], DType::f32), 2, i, 1), to);
  };
  Value sum = column(spatial);
  for (int64_t axis = 0; axis < spatial; ++axis) {
    const Dim& length = size[spatial + 1 - axis];
    const auto reals = [&](Dim count, Dim start, int64_t step) {
      return cast(range(in.graph, std::move(count), std::move(start), step), DType::f32);
    };
    const Dim less = length - Dim(align_corners ? 1 : 0);
    Value at = reals(length, Dim(1) - length, 2) / maximum(reals(1, less, 1), 1);
    Shape to(std::vector<int64_t>(static_cast<size_t>(spatial + 2), 1));
    to[spatial - axis] = length;
    sum = sum + column(axis) * reshape(at, to);
  }
  return std::vector{cast(sum, in[0].dtype())};
}

}  // namespace

Value affine_grid(Value theta, Shape size, bool align_corners) {
  auto op = std::make_shared<AffineGrid>();
  op->size = std::move(size);
  op->align_corners = align_corners;
  return add_node(op, {theta});
}

namespace ops {
void register_affine_grid(OpTable& table) {
  table.add<AffineGrid>(
      {.formula = "grid[n, p] = theta[n] times (coordinates of p from -1 to 1, 1), for grid_sample",
       .operands = "theta: affine maps [batch, 2, 3] or [batch, 3, 4]",
       .attributes = "size: [batch, channels, spatial..] of the result that grid_sample is to make\n"
                     "align_corners: -1 and 1 are the centres of the first and last elements, "
                     "instead of their outer edges",
       .outputs = "grid: [batch, spatial.., 2 or 3], coordinates for grid_sample, that of the "
                  "last axis first",
       .types = "f32 f16 bf16",
       .variants = {"expanded"},
       .samples = {"affine_grid(T[2,2,3]) {size=[2,5,4,7]}",
                   "affine_grid(T[1,2,3]) {size=[1,1,3,1], align_corners=true}",
                   "affine_grid(T[2,3,4]) {size=[2,1,3,4,5], align_corners=true}",
                   "affine_grid(T[1,3,4]) {size=[1,1,2,1,3]}", "affine_grid(T[0,2,3]) {size=[0,5,4,7]}"}});
}
}  // namespace ops

}  // namespace rlx
