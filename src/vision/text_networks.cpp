#include "vision/text_networks.h"

#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "ir/subgraphs.h"
#include "rlx/compile.h"
#include "rlx/onnx.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/ops/resampling.h"
#include "vision/strip.h"
#include "vision/tiles.h"

namespace rlx::vision {
namespace {

// What the networks were trained with.
constexpr int64_t kStripHeight = 48;
constexpr int64_t kLeastWidth = 320;  // narrower lines have nothing to their right
constexpr int64_t kMostWidth = 2400;  // longer lines are compressed
constexpr int64_t kWidthStep = 32;    // so that lines of about the same length share a plan
constexpr int64_t kClassifierWidth = 192;
constexpr int64_t kMostLines = 6;  // in a batch

// How sure the classifier must be of what it says. A line that it doubts is read both ways if it is short: of
// long ones every wrong way round is read with less than kClear (0.67 at most in 60 lines; the right way 0.97
// at least).
constexpr double kSure = 0.9;
constexpr double kClear = 0.9;
constexpr int64_t kShort = 8;  // characters

constexpr double kMostEnlarged = 2;
constexpr double kSmallPicture = 300'000;  // pixels
// Lines with higher letters are looked for in the whole picture instead of its tiles.
constexpr double kLargeLine = 160;  // pixels of the map

constexpr double kMeans[] = {0.485, 0.456, 0.406};
constexpr double kDeviations[] = {0.229, 0.224, 0.225};

// The names of sizes in the files: the batch, then the sizes that are open.
constexpr auto kBatch = "p2o_DynamicDimension_0";
constexpr auto kFirstSize = "p2o_DynamicDimension_1";
constexpr auto kSecondSize = "p2o_DynamicDimension_2";

using Sizes = std::map<std::string, Dim, std::less<>>;

// A network of one input and one output with these shapes, or an error that names the file.
onnx::Model load_network(const std::string& path, const char* what, const Sizes& sizes, const Shape& input,
                         int64_t output_rank) {
  onnx::Model model = onnx::load(path, {.symbols = sizes});
  const std::vector<int32_t> inputs = body_inputs(model.graph);
  const auto& outputs = model.graph.outputs();
  const bool fits = inputs.size() == 1 && outputs.size() == 1 &&
                    model.graph.node(inputs[0]).outputs[0] == TensorType{DType::f32, input} &&
                    model.graph.type(outputs[0].value).dtype == DType::f32 &&
                    model.graph.type(outputs[0].value).shape.rank() == output_rank;
  if (!fits) fail(ErrorKind::invalid_file, "{}: this is not PP-OCR's {}", path, what);
  return model;
}

Value apply_network(const onnx::Model& model, const Value& x) {
  const std::map<ValueId, ValueId> map = {{{body_inputs(model.graph)[0], 0}, x.id()}};
  return x.graph().value(inline_body(x.graph(), model.graph, map)[0]);
}

Executable compiled(const Graph& graph, const onnx::Model& model, const Device& device) {
  Executable out = compile(graph, device);
  out.set_params(model.weights);
  return out;
}

int64_t parameters_of(const onnx::Model& model) {
  int64_t out = 0;
  for (const auto& [name, weight] : model.weights) out += weight.elements();
  return out;
}

// From bytes of a picture of any size: resized, blue first, with the mean and deviation of each colour.
Graph detector_graph(const onnx::Model& model) {
  Graph g;
  g.name = "detector";
  const Value image = g.input("image", DType::u8, {"height", "width", 3});
  Value x = cast(transpose(flip(image, {2}), {2, 0, 1}), DType::f32);
  x = reshape(x, {1, 3, "height", "width"});
  x = resize(x, {.axes = {2, 3}, .sizes = {32 * "h"_dim, 32 * "w"_dim}, .antialias = true});
  std::vector<float> scales;
  std::vector<float> offsets;
  for (size_t c = 0; c < 3; ++c) {
    scales.push_back(static_cast<float>(1 / (255 * kDeviations[c])));
    offsets.push_back(static_cast<float>(-kMeans[c] / kDeviations[c]));
  }
  x = x * g.constant(Tensor::of({1, 3, 1, 1}, scales)) + g.constant(Tensor::of({1, 3, 1, 1}, offsets));
  g.output("map", apply_network(model, x));
  return g;
}

Graph classifier_graph(const onnx::Model& model) {
  Graph g;
  g.name = "classifier";
  const Value strips = g.input("strips", DType::f32, {"lines", 3, kStripHeight, kClassifierWidth});
  g.set_capacity("lines", kMostLines);
  g.output("probabilities", apply_network(model, strips));
  return g;
}

// Of thousands of classes only the likeliest comes back from the device.
Graph recogniser_graph(const onnx::Model& model) {
  Graph g;
  g.name = "recogniser";
  const Value strips = g.input("strips", DType::f32, {"lines", 3, kStripHeight, "length"});
  const Value probabilities = apply_network(model, strips);
  g.set_capacity("lines", kMostLines);
  g.set_capacity("length", kMostWidth);
  g.output("classes", argmax(probabilities, -1));
  g.output("probabilities", max(probabilities, {-1}));
  return g;
}

Tensor as_tensor(const Image& image) {
  return Tensor(DType::u8, {image.height, image.width, 3}, std::as_bytes(std::span(image.rgb)), nullptr);
}

// What the classifier was trained with: whole letters, as many as fit. A long line that is pressed into its
// strip is often turned wrongly.
TextBox to_classify(const TextBox& box) {
  return beginning(box, static_cast<double>(kClassifierWidth) / kStripHeight);
}

// Strips of one size, each filled to the right with the middle between black and white.
Tensor strips_of(const Image& image, std::span<const TextBox> boxes, int64_t width) {
  const auto each = static_cast<size_t>(3 * kStripHeight * width);
  std::vector<float> values(each * boxes.size(), 0.0F);
  for (size_t i = 0; i < boxes.size(); ++i) {
    const auto wanted = static_cast<int64_t>(std::ceil(strip_width(boxes[i], kStripHeight)));
    cut_strip(image, boxes[i], std::clamp<int64_t>(wanted, 1, width), kStripHeight, width,
              std::span(values).subspan(i * each, each));
  }
  return Tensor::of({std::ssize(boxes), 3, kStripHeight, width}, values);
}

int64_t recogniser_width(const TextBox& box) {
  const double width = std::clamp(strip_width(box, kStripHeight), static_cast<double>(kLeastWidth),
                                  static_cast<double>(kMostWidth));
  return static_cast<int64_t>(std::ceil(width / kWidthStep)) * kWidthStep;
}

// Few characters that are sure are no better than many that are less so.
bool reads_better(const Reading& a, const Reading& b) {
  const auto enough = [](const Reading& r, const Reading& other) {
    return std::min(1.0, 2 * static_cast<double>(r.characters) /
                             static_cast<double>(std::max<int64_t>(1, other.characters)));
  };
  return a.confidence * enough(a, b) > b.confidence * enough(b, a);
}

}  // namespace

double detector_scale(int64_t width, int64_t height, int64_t longest) {
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  const double enlarged = std::clamp(std::sqrt(kSmallPicture / pixels), 1.0, kMostEnlarged);
  return std::min(enlarged, static_cast<double>(longest) / static_cast<double>(std::max(width, height)));
}

TextNetworks::TextNetworks(const Device& device, const TextModels& models)
    : alphabet_(Alphabet::read(models.alphabet)),
      detector_([&] {
        const Sizes sizes = {{kBatch, 1}, {kFirstSize, 32 * "h"_dim}, {kSecondSize, 32 * "w"_dim}};
        const onnx::Model model =
            load_network(models.detector, "text detector", sizes, {1, 3, 32 * "h"_dim, 32 * "w"_dim}, 4);
        parameters_ += parameters_of(model);
        return compiled(detector_graph(model), model, device);
      }()),
      classifier_([&] {
        const Sizes sizes = {{kBatch, "lines"}, {kFirstSize, kStripHeight}, {kSecondSize, kClassifierWidth}};
        const onnx::Model model = load_network(models.classifier, "classifier of text directions", sizes,
                                               {"lines", 3, kStripHeight, kClassifierWidth}, 2);
        parameters_ += parameters_of(model);
        return compiled(classifier_graph(model), model, device);
      }()),
      recogniser_([&] {
        const Sizes sizes = {{kBatch, "lines"}, {kFirstSize, "length"}};
        const onnx::Model model = load_network(models.recogniser, "text recogniser", sizes,
                                               {"lines", 3, kStripHeight, "length"}, 3);
        const Dim classes = model.graph.type(model.graph.outputs()[0].value).shape[2];
        if (!classes.is(alphabet_.classes()))
          fail(ErrorKind::invalid_file, "{}: the recogniser knows {} classes, but {} has {}",
               models.recogniser, classes.text(), models.alphabet, alphabet_.classes());
        parameters_ += parameters_of(model);
        return compiled(recogniser_graph(model), model, device);
      }()) {}

std::vector<TextBox> TextNetworks::find_at(const Image& image, double scale, const BoxOptions& options) {
  const TileAxis x = tile_axis(image.width, scale);
  const TileAxis y = tile_axis(image.height, scale);
  std::vector<float> whole(static_cast<size_t>(x.whole * y.whole), 0.0F);
  for (size_t row = 0; row < y.starts.size(); ++row) {
    for (size_t column = 0; column < x.starts.size(); ++column) {
      const Image tile = part_of(image, x.starts[column], y.starts[row], x.tile, y.tile);
      if (is_blank(tile)) continue;
      const Tensor map =
          detector_.run({{"image", as_tensor(tile)}}, {{"h", y.map / 32}, {"w", x.map / 32}}).at("map");
      place_tile(map.span<float>(), x, column, y, row, whole);
    }
  }
  std::vector<TextBox> boxes = text_boxes(whole, x.whole, y.whole, options);
  for (TextBox& b : boxes) {
    for (Point* p : {&b.origin, &b.along, &b.down}) *p = {p->x * x.scale(), p->y * y.scale()};
  }
  return boxes;
}

std::vector<TextBox> TextNetworks::find(const Image& image, int64_t longest_side, const BoxOptions& options) {
  const double scale = detector_scale(image.width, image.height, longest_side);
  std::vector<TextBox> boxes = find_at(image, scale, options);
  const int64_t longest = std::max(image.width, image.height);
  if (tile_axis(longest, scale).starts.size() > 1) {
    const double small = static_cast<double>(kLongestTile) / static_cast<double>(longest);
    std::vector<TextBox> large = find_at(image, small, options);
    std::erase_if(large, [&](const TextBox& b) { return length(b.down) * scale < kLargeLine; });
    boxes = with_large_lines(std::move(boxes), large);
  }
  sort_for_reading(boxes);
  return boxes;
}

std::vector<FacingBox> TextNetworks::upright(const Image& image, const std::vector<TextBox>& boxes,
                                             const LinesDone& done) {
  std::vector<FacingBox> out;
  for (size_t first = 0; first < boxes.size(); first += kMostLines) {
    if (done) done(static_cast<int64_t>(first), std::ssize(boxes));
    const auto batch = std::span(boxes).subspan(first, std::min<size_t>(kMostLines, boxes.size() - first));
    std::vector<TextBox> parts;
    for (const TextBox& b : batch) parts.push_back(to_classify(b));
    const Tensor probabilities =
        classifier_.run({{"strips", strips_of(image, parts, kClassifierWidth)}}).at("probabilities");
    for (size_t i = 0; i < batch.size(); ++i) {
      const double turned = probabilities.real(static_cast<int64_t>(2 * i + 1));
      out.push_back(
          {turned > kSure ? batch[i].upside_down() : batch[i], turned > kSure || turned < 1 - kSure});
    }
  }
  if (done) done(std::ssize(boxes), std::ssize(boxes));
  return out;
}

std::vector<ReadLine> TextNetworks::read(const Image& image, const std::vector<FacingBox>& boxes,
                                         const LinesDone& done) {
  std::vector<TextBox> lines;
  for (const FacingBox& b : boxes) lines.push_back(b.box);
  const auto read_with_margins = [&](std::vector<TextBox> those, const LinesDone& told) {
    for (TextBox& b : those) b = with_margins(b);
    return recognise(image, those, told);
  };
  std::vector<Reading> readings = read_with_margins(lines, done);
  std::vector<size_t> doubtful;
  std::vector<TextBox> tight;
  std::vector<TextBox> turned;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Reading& r = readings[i];
    if (r.confidence >= kClear && (boxes[i].sure || r.characters > kShort)) continue;
    doubtful.push_back(i);
    tight.push_back(lines[i]);
    turned.push_back(lines[i].upside_down());
  }
  const std::vector<Reading> without = recognise(image, tight, {});
  const std::vector<Reading> others = read_with_margins(turned, {});
  for (size_t k = 0; k < doubtful.size(); ++k) {
    const size_t i = doubtful[k];
    if (reads_better(without[k], readings[i])) readings[i] = without[k];
    if (!reads_better(others[k], readings[i])) continue;
    readings[i] = others[k];
    lines[i] = turned[k];
  }
  std::vector<ReadLine> out;
  for (const size_t i : reading_order(lines)) out.push_back({lines[i], readings[i]});
  if (done) done(std::ssize(boxes), std::ssize(boxes));
  return out;
}

std::vector<Reading> TextNetworks::recognise(const Image& image, const std::vector<TextBox>& lines,
                                             const LinesDone& done) {
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return recogniser_width(lines[i]); });
  std::vector<Reading> out(lines.size());
  for (size_t first = 0; first < order.size();) {
    if (done) done(static_cast<int64_t>(first), std::ssize(order));
    const int64_t width = recogniser_width(lines[order[first]]);
    std::vector<TextBox> batch;
    size_t end = first;
    for (; end < order.size() && end - first < kMostLines && recogniser_width(lines[order[end]]) == width;
         ++end)
      batch.push_back(lines[order[end]]);
    const NamedTensors result = recogniser_.run({{"strips", strips_of(image, batch, width)}});
    const std::vector<int64_t> classes = result.at("classes").integers();
    const std::span<const float> sure = result.at("probabilities").span<float>();
    const size_t steps = classes.size() / batch.size();
    for (size_t i = 0; i < batch.size(); ++i) {
      out[order[first + i]] = decode_steps(std::span(classes).subspan(i * steps, steps),
                                           sure.subspan(i * steps, steps), alphabet_);
    }
    first = end;
  }
  return out;
}

}  // namespace rlx::vision
