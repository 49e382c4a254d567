#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/fail.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/device_flags.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/standard_input.h"
#include "cli/text.h"
#include "measure/stopwatch.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/dtype.h"
#include "rlx/executable.h"
#include "rlx/graph.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/splatting.h"
#include "rlx/shape.h"
#include "rlx/tensor.h"
#include "rlx/value.h"
#include "vision/camera.h"
#include "vision/image.h"
#include "vision/splat_scene.h"

namespace rlx::cli {
namespace {

struct Options {
  DeviceFlags device;
  std::string scene;
  int64_t test_splats = 0;
  std::string ply, output, depth;
  ReportFlags report;
  std::string size = "512x512";
  std::string position, target, up = "0,-1,0", background = "0,0,0", fov = "50", path;
  int64_t frames = 1;
  bool sharp = false;
  bool antialiased = false;
};

double number_of(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw Misuse(formatted("{} needs a number, not \"{}\"", what, excerpt(text)));
  return value;
}

vision::Vector3 vector_of(const std::string& text, std::string_view what) {
  const std::vector<std::string> parts = split(text, ',');
  if (parts.size() != 3)
    throw Misuse(formatted("{} needs three numbers such as 0,1.5,-2, not \"{}\"", what, excerpt(text)));
  return {number_of(parts[0], what), number_of(parts[1], what), number_of(parts[2], what)};
}

struct Size {
  int64_t width, height;
};
Size size_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  const auto side = [&](size_t i) { return i < parts.size() ? number_of(parts[i], "--size") : 0; };
  const double width = side(0), height = side(1);
  if (parts.size() != 2 || width < 1 || height < 1 || width > 16384 || height > 16384 ||
      width != std::floor(width) || height != std::floor(height) ||
      width * height > static_cast<double>(vision::kMaxPixels))
    throw Misuse(formatted("--size needs width x height such as 800x600, not \"{}\"", excerpt(text)));
  return {static_cast<int64_t>(width), static_cast<int64_t>(height)};
}

// The name of a frame: the only %d, or %03d, becomes its number. Nothing if there is no such place.
std::optional<std::string> frame_name(const std::string& pattern, int64_t frame) {
  const size_t begin = pattern.find('%');
  if (begin == std::string::npos || pattern.find('%', begin + 1) != std::string::npos) return std::nullopt;
  const size_t end = pattern.find('d', begin);
  if (end == std::string::npos || end - begin > 3) return std::nullopt;
  const std::string_view digits = std::string_view(pattern).substr(begin + 1, end - begin - 1);
  size_t width = 0;
  if (!digits.empty()) {
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
    if (error != std::errc() || last != digits.data() + digits.size()) return std::nullopt;
  }
  std::string number = std::to_string(frame);
  number.insert(0, width > number.size() ? width - number.size() : 0, '0');
  return pattern.substr(0, begin) + number + pattern.substr(end + 1);
}

std::string name_for(const std::string& pattern, int64_t frame, int64_t frames) {
  return frames > 1 ? *frame_name(pattern, frame) : pattern;
}

vision::Camera first_camera(const Options& o, const vision::SplatBounds& bounds, const Size& size) {
  vision::Camera camera;
  camera.fov = number_of(o.fov, "--fov");
  if (camera.fov < 1 || camera.fov > 170)
    throw Misuse(formatted("--fov needs an angle from 1 to 170 degrees, not {}", o.fov));
  const auto up = vision::direction_of(vector_of(o.up, "--up"));
  if (!up) throw Misuse("--up has no direction");
  camera.up = *up;
  camera.background = vector_of(o.background, "--background");
  camera.target = o.target.empty() ? bounds.center : vector_of(o.target, "--target");
  camera.position = o.position.empty()
                        ? vision::overview(bounds, camera.target, camera.up, camera.fov,
                                           static_cast<double>(size.width) / static_cast<double>(size.height))
                        : vector_of(o.position, "--camera");
  if (!camera.sight()) throw Misuse("the way from --camera to --target has no direction");
  if (!camera.stands()) throw Misuse("--up points along the way from --camera to --target");
  camera.near = 0.001 * bounds.radius;
  camera.far = 1e6 * bounds.radius;
  return camera;
}

class Renderer {
 public:
  Renderer(const Device& device, const vision::SplatScene& scene, const Options& o, const Size& size) {
    SplatOptions options;
    options.width = size.width;
    options.height = size.height;
    options.radius_scale = 1;
    options.transmittance_threshold = 1e-4;
    options.opacity = SplatOpacity::logit;
    options.direction = SplatDirection::from_camera;
    options.clamp_colors = true;
    options.gamma = 1;
    options.blur = o.sharp ? 0 : 0.3;
    options.antialiased = o.antialiased;
    Graph graph;
    const int64_t n = scene.count;
    NamedTensors params;
    const auto param = [&](const std::string& name, const std::vector<float>& values,
                           std::vector<int64_t> dims) {
      params.emplace(name, Tensor::of(dims, values));
      return graph.param(name, DType::f32, Shape(dims));
    };
    const RenderedSplats out = gaussian_splat_render(
        param("positions", scene.positions, {n, 3}), param("log_scales", scene.log_scales, {n, 3}),
        param("rotations", scene.rotations, {n, 4}), param("opacities", scene.opacities, {n}),
        param("colors", scene.harmonics, {n, scene.coefficients, 3}), graph.input("camera", DType::f32, {15}),
        options);
    graph.output("image", out.picture);
    if (!o.depth.empty()) graph.output("depth", out.distance);
    exe_.emplace(compile(graph, device));
    exe_->set_params(params);
  }

  NamedTensors run(const vision::Camera& camera) { return exe_->run({{"camera", camera.tensor()}}); }

 private:
  std::optional<Executable> exe_;
};

uint8_t byte_of(double v) { return static_cast<uint8_t>(std::lround(255 * std::clamp(v, 0.0, 1.0))); }

vision::Image picture_of(const Tensor& rgba, const Size& size) {
  vision::Image image{.width = size.width, .height = size.height};
  const std::span<const float> from = rgba.span<float>();
  image.rgb.reserve(static_cast<size_t>(3 * size.width * size.height));
  for (size_t i = 0; i < from.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) image.rgb.push_back(byte_of(static_cast<double>(from[i + c])));
  }
  return image;
}

struct Range {
  double nearest = 0, farthest = 0;
};
Range range_of(const Tensor& depth) {
  Range range;
  for (const float d : depth.span<float>()) {
    if (d <= 0) continue;
    const auto far = static_cast<double>(d);
    range.nearest = range.nearest == 0 ? far : std::min(range.nearest, far);
    range.farthest = std::max(range.farthest, far);
  }
  return range;
}

// The nearest white, the farthest dark grey, and nothing black.
vision::Image picture_of_depth(const Tensor& depth, const Range& range, const Size& size) {
  vision::Image image{.width = size.width, .height = size.height};
  // Differences that are nothing but rounding do not show.
  const double length = std::max({range.farthest - range.nearest, 1e-3 * range.farthest, 1e-9});
  for (const float d : depth.span<float>()) {
    const double near = 1 - (static_cast<double>(d) - range.nearest) / length;
    image.rgb.insert(image.rgb.end(), 3, d > 0 ? byte_of(0.15 + 0.85 * near) : uint8_t{0});
  }
  return image;
}

void check_options(const Options& o) {
  if (o.scene.empty() == (o.test_splats == 0)) {
    throw Misuse(o.scene.empty() ? "splat needs either a PLY file or --test-scene"
                                 : "splat takes a PLY file or --test-scene, not both");
  }
  if (o.output.empty() && o.ply.empty())
    throw Misuse("splat needs -o FILE.png for the picture, or --ply FILE for the test scene");
  if (!o.ply.empty() && o.test_splats == 0)
    throw Misuse("--ply writes the test scene; it needs --test-scene");
  if (!o.path.empty() && o.path != "orbit")
    throw Misuse(formatted("--path can be orbit, not \"{}\"", excerpt(o.path)));
  if (o.frames > 1 && o.path.empty()) throw Misuse("--frames needs --path orbit");
  for (const std::string* name : {&o.output, &o.depth}) {
    if (o.frames > 1 && !name->empty() && !frame_name(*name, 0))
      throw Misuse(formatted(
          "with --frames, a file's name needs one place for the number, such as frame-%03d.png, not \"{}\"",
          excerpt(*name)));
  }
  if (o.ply == "-")
    throw Misuse("--ply needs the name of a file; the scene is not written to standard output");
  if (!o.depth.empty() && o.output.empty()) throw Misuse("--depth is written beside a picture; it needs -o");
}

Json json_of(const vision::Vector3& v) { return Json::array({v[0], v[1], v[2]}); }

struct Frame {
  std::string file;
  vision::Camera camera;
  double ms;
  std::optional<Range> range;
};

Json to_json(const Options& o, const vision::SplatScene& scene, const Size& size, const std::string& adapter,
             const std::vector<Frame>& frames) {
  Json list = Json::array();
  for (const Frame& f : frames) {
    Json item = Json::object({{"file", f.file},
                              {"camera", json_of(f.camera.position)},
                              {"target", json_of(f.camera.target)},
                              {"up", json_of(f.camera.up)},
                              {"fov", f.camera.fov},
                              {"ms", f.ms}});
    if (f.range)
      item.set("depth", Json::object({{"nearest", f.range->nearest}, {"farthest", f.range->farthest}}));
    list.add(item);
  }
  return Json::object({{"scene", o.scene.empty() ? std::string("test scene") : with_shown_names(o.scene)},
                       {"splats", scene.count},
                       {"left_out", scene.left_out},
                       {"coefficients", scene.coefficients},
                       {"width", size.width},
                       {"height", size.height},
                       {"adapter", adapter},
                       {"frames", list}});
}

std::vector<Frame> draw(const Options& o, const Device& device, const vision::SplatScene& scene,
                        const Size& size) {
  const vision::Camera first = first_camera(o, vision::bounds_of(scene), size);
  Progress progress(formatted("drawing {} splats", scene.count));
  Renderer renderer(device, scene, o, size);
  std::vector<Frame> frames;
  for (int64_t i = 0; i < o.frames; ++i) {
    if (o.frames > 1) progress.update(i, o.frames, "pictures");
    Frame frame{
        .file = name_for(o.output, i, o.frames),
        .camera = first.turned(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(o.frames)),
        .ms = 0,
        .range = {}};
    const measure::Stopwatch watch;
    const NamedTensors out = renderer.run(frame.camera);
    frame.ms = watch.ms();
    write_report(frame.file, vision::encode_png(picture_of(out.at("image"), size)));
    if (!o.depth.empty()) {
      frame.range = range_of(out.at("depth"));
      write_report(name_for(o.depth, i, o.frames),
                   vision::encode_png(picture_of_depth(out.at("depth"), *frame.range, size)));
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

// All that is written, each picture of a path by its own name.
std::vector<OutputFile> outputs_of(const Options& o) {
  std::vector<OutputFile> out = {{"--ply", o.ply, FileKind::ply}};
  for (int64_t i = 0; i < o.frames; ++i) {
    if (!o.output.empty()) out.push_back({"--output", name_for(o.output, i, o.frames), FileKind::png});
    if (!o.depth.empty()) out.push_back({"--depth", name_for(o.depth, i, o.frames), FileKind::png});
  }
  return o.report.outputs(std::move(out));
}

void show(const vision::SplatScene& scene, const Size& size, const std::vector<Frame>& frames) {
  std::string text = formatted("{} splats with {} coefficients per colour", scene.count, scene.coefficients);
  if (scene.left_out > 0)
    text += formatted("; {} with values that are not numbers are left out", scene.left_out);
  print(text + "\n");
  const auto best = std::ranges::min_element(frames, {}, &Frame::ms);
  print(formatted("{}{}: {} x {}, {} for the first, {} for the fastest\n", frames.front().file,
                  frames.size() > 1 ? formatted(" to {}", frames.back().file) : "", size.width, size.height,
                  ms_text(frames.front().ms), ms_text(best->ms)));
}

vision::SplatScene scene_of(const Options& o) {
  const Progress progress("reading the scene");
  return o.scene.empty() ? vision::test_scene(o.test_splats) : vision::read_splats(o.scene);
}

void run_splat(const Options& o) {
  check_options(o);
  check_outputs(outputs_of(o), {o.scene});
  const Size size = size_of(o.size);
  const vision::SplatScene scene = scene_of(o);
  if (!o.ply.empty()) vision::write_splats(o.ply, scene);
  std::vector<Frame> frames;
  std::string adapter;
  if (!o.output.empty()) {
    first_camera(o, vision::bounds_of(scene), size);  // a wrong flag is found before the device is opened
    const Device device = o.device.open();
    adapter = device.info().name;
    frames = draw(o, device, scene, size);
  }
  o.report.write(to_json(o, scene, size, adapter, frames));
  const bool picture_on_stdout = o.output == "-" || o.depth == "-";
  if (!o.report.only_json() && !picture_on_stdout && !frames.empty()) show(scene, size, frames);
}

}  // namespace

void add_splat(Arguments& arguments) {
  const auto o = std::make_shared<Options>();
  Command command = arguments.command("splat", "Pictures of a scene of 3D Gaussians");
  command.text("SCENE", o->scene,
               "A PLY file of 3D Gaussian splatting, or a compressed one of SuperSplat; - is standard input");
  command.text("-o,--output", o->output,
               "The picture; with --frames a name such as frame-%03d.png; - is standard output",
               {.value = "FILE.png"});
  command.text("--depth", o->depth,
               "Also write distances: the nearest white, the farthest dark grey, nothing black",
               {.value = "FILE.png"});
  o->report.add_to(command, "cameras and times");
  command.text("--size", o->size, "Width and height in pixels (default 512x512)", {.value = "WxH"});
  command.text("--camera", o->position, "Where the camera is (default: so that it sees the whole scene)",
               {.value = "X,Y,Z"});
  command.text("--target", o->target, "What it looks at (default: the middle of the scene)",
               {.value = "X,Y,Z"});
  command.text("--up", o->up, "Which way is up (default 0,-1,0, as in most files)", {.value = "X,Y,Z"});
  command.text("--fov", o->fov, "The vertical field of view in degrees (default 50)", {.value = "DEGREES"});
  command.text("--background", o->background, "Its colour, from 0 to 1 (default 0,0,0)", {.value = "R,G,B"});
  command.text("--path", o->path, "orbit: a turn around the target, in --frames pictures", {.value = "PATH"});
  command.number("--frames", o->frames, 1, 100000, "How many pictures along the path (default 1)");
  command.flag("--sharp", o->sharp, "Without the filter that makes splats at least about a pixel wide");
  command.flag("--antialiased", o->antialiased,
               "What the filter widens becomes more transparent, for scenes trained so");
  command.number("--test-scene", o->test_splats, 1, 10000000,
                 "Instead of a file: about that many splats, a knot over a chequered floor with three balls");
  command.text("--ply", o->ply, "Write the test scene as a PLY file", {.value = "FILE.ply"});
  o->device.add_to(command);
  command.exclude("--sharp", "--antialiased");
  command.footer(
      "Examples:\n"
      "  rlx splat scene.ply -o picture.png\n"
      "  rlx splat scene.ply --camera 0,-1,-4 --target 0,0,0 --size 1280x720 -o picture.png --depth "
      "depth.png\n"
      "  rlx splat scene.ply --path orbit --frames 60 -o frame-%03d.png\n"
      "  rlx splat --test-scene 100000 -o picture.png --ply scene.ply");
  command.action([o] {
    take_standard_input(o->scene);
    run_splat(*o);
  });
}

}  // namespace rlx::cli
