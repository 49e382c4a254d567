#include "vision/splat_scene.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <string_view>

#include "base/fail.h"
#include "import/new_file.h"
#include "import/ply.h"

namespace rlx::vision {
namespace {

constexpr double kBandZero = 0.28209479177387814;  // the harmonic of band 0
constexpr int64_t kMostSplats = 1 << 27;
constexpr int64_t kChunk = 256;

// Columns by name; an error that names the one that is missing.
std::vector<size_t> columns_of(const PlyFile& file, const PlyElement& e,
                               std::span<const std::string_view> names) {
  std::vector<size_t> out;
  for (const std::string_view name : names) {
    const std::optional<size_t> column = e.find(name);
    if (!column)
      fail(ErrorKind::invalid_file, "{}: element \"{}\" has no property \"{}\", which splats need",
           file.name(), e.name, name);
    out.push_back(*column);
  }
  return out;
}

// f_rest_0, f_rest_1 and so on: all harmonics beyond band 0, those of red first.
std::vector<size_t> rest_columns(const PlyFile& file, const PlyElement& e) {
  std::vector<size_t> out;
  while (const std::optional<size_t> column = e.find(formatted("f_rest_{}", out.size())))
    out.push_back(*column);
  if (!out.empty() && out.size() != 9 && out.size() != 24 && out.size() != 45)
    fail(ErrorKind::invalid_file, "{}: it has {} properties f_rest; there can be 0, 9, 24 or 45", file.name(),
         out.size());
  return out;
}

struct Splat {
  float position[3], log_scale[3], rotation[4], opacity;
  float harmonics[16][3];
};

class Builder {
 public:
  Builder(const PlyFile& file, int64_t rows, size_t rest) {
    if (rows > kMostSplats)
      fail(ErrorKind::unsupported, "{}: {} splats; there can be {}", file.name(), rows, kMostSplats);
    scene_.coefficients = static_cast<int64_t>(rest) / 3 + 1;
    const auto n = static_cast<size_t>(rows);
    scene_.positions.reserve(3 * n);
    scene_.log_scales.reserve(3 * n);
    scene_.rotations.reserve(4 * n);
    scene_.opacities.reserve(n);
    scene_.harmonics.reserve(3 * n * static_cast<size_t>(scene_.coefficients));
  }

  void add(const Splat& s) {
    if (!is_numbers(s)) {
      ++scene_.left_out;
      return;
    }
    ++scene_.count;
    scene_.positions.insert(scene_.positions.end(), s.position, s.position + 3);
    scene_.log_scales.insert(scene_.log_scales.end(), s.log_scale, s.log_scale + 3);
    scene_.rotations.insert(scene_.rotations.end(), s.rotation, s.rotation + 4);
    scene_.opacities.push_back(s.opacity);
    for (int64_t k = 0; k < scene_.coefficients; ++k)
      scene_.harmonics.insert(scene_.harmonics.end(), s.harmonics[k], s.harmonics[k] + 3);
  }

  SplatScene take(const PlyFile& file) {
    if (scene_.count == 0 && scene_.left_out > 0)
      fail(ErrorKind::invalid_file, "{}: each of its {} splats has values that are not numbers", file.name(),
           scene_.left_out);
    return std::move(scene_);
  }

 private:
  bool is_numbers(const Splat& s) const {
    float sum = std::isnan(s.opacity) ? s.opacity : 0.0F;  // infinite logits have a meaning
    for (size_t i = 0; i < 3; ++i) sum += std::abs(s.position[i]) + std::abs(s.log_scale[i]);
    for (const float r : s.rotation) sum += std::abs(r);
    for (int64_t k = 0; k < scene_.coefficients; ++k) {
      for (const float h : s.harmonics[k]) sum += std::abs(h);
    }
    return std::isfinite(sum);
  }

  SplatScene scene_;
};

SplatScene read_plain(const PlyFile& file, const PlyElement& vertices) {
  static constexpr std::string_view kNames[] = {"x",       "y",      "z",      "scale_0", "scale_1",
                                                "scale_2", "rot_0",  "rot_1",  "rot_2",   "rot_3",
                                                "opacity", "f_dc_0", "f_dc_1", "f_dc_2"};
  const std::vector<size_t> columns = columns_of(file, vertices, kNames);
  const std::vector<size_t> rest = rest_columns(file, vertices);
  Builder builder(file, vertices.rows, rest.size());
  for (int64_t row = 0; row < vertices.rows; ++row) {
    const auto number = [&](size_t column) { return static_cast<float>(vertices.number(row, column)); };
    Splat s;
    for (size_t i = 0; i < 3; ++i) {
      s.position[i] = number(columns[i]);
      s.log_scale[i] = number(columns[3 + i]);
      s.harmonics[0][i] = number(columns[11 + i]);
    }
    for (size_t i = 0; i < 4; ++i) s.rotation[i] = number(columns[6 + i]);
    s.opacity = number(columns[10]);
    for (size_t i = 0; i < rest.size(); ++i)
      s.harmonics[1 + i % (rest.size() / 3)][i / (rest.size() / 3)] = number(rest[i]);
    builder.add(s);
  }
  return builder.take(file);
}

// --- Packed splats: 16 bytes each, in chunks of 256 that know their least and largest values ---

// `bits` bits of a word from bit `low` on, as a part of the largest value.
double part(uint32_t word, unsigned low, unsigned bits) {
  const uint32_t most = (1U << bits) - 1;
  return static_cast<double>((word >> low) & most) / most;
}
std::array<double, 3> three_parts(uint32_t word) {
  return {part(word, 21, 11), part(word, 11, 10), part(word, 0, 11)};
}

// All components but the largest, which the first two bits name.
void unpack_rotation(uint32_t word, float (&rotation)[4]) {
  const size_t largest = word >> 30;
  unsigned low = 20;
  double squares = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (i == largest) continue;
    const double v = (part(word, low, 10) - 0.5) * std::numbers::sqrt2;
    rotation[i] = static_cast<float>(v);
    squares += v * v;
    low -= 10;
  }
  rotation[largest] = static_cast<float>(std::sqrt(std::max(0.0, 1 - squares)));
}

class Packed {
 public:
  Packed(const PlyFile& file, const PlyElement& vertices)
      : file_(file), vertices_(vertices), chunks_(chunks()) {
    static constexpr std::string_view kWords[] = {"packed_position", "packed_rotation", "packed_scale",
                                                  "packed_color"};
    words_ = columns_of(file, vertices, kWords);
    static constexpr std::string_view kRanges[] = {
        "min_x",       "min_y",       "min_z",       "max_x",       "max_y",       "max_z",
        "min_scale_x", "min_scale_y", "min_scale_z", "max_scale_x", "max_scale_y", "max_scale_z"};
    ranges_ = columns_of(file, chunks_, kRanges);
    static constexpr std::string_view kColors[] = {"min_r", "min_g", "min_b", "max_r", "max_g", "max_b"};
    if (chunks_.find(kColors[0])) colors_ = columns_of(file, chunks_, kColors);
    harmonics_ = file.find("sh");
    if (harmonics_) {
      rest_ = rest_columns(file, *harmonics_);
      if (harmonics_->rows != vertices.rows)
        fail(ErrorKind::invalid_file, "{}: {} splats, but harmonics of {}", file.name(), vertices.rows,
             harmonics_->rows);
    }
  }

  SplatScene read() {
    Builder builder(file_, vertices_.rows, rest_.size());
    for (int64_t row = 0; row < vertices_.rows; ++row) builder.add(splat(row));
    return builder.take(file_);
  }

 private:
  const PlyElement& chunks() const {
    const PlyElement* e = file_.find("chunk");
    if (!e || e->rows < (vertices_.rows + kChunk - 1) / kChunk) {
      fail(ErrorKind::invalid_file, "{}: {} packed splats need {} chunks, but there are {}", file_.name(),
           vertices_.rows, (vertices_.rows + kChunk - 1) / kChunk, e ? e->rows : 0);
    }
    return *e;
  }

  Splat splat(int64_t row) const {
    const auto word = [&](size_t i) {
      return static_cast<uint32_t>(std::clamp(vertices_.number(row, words_[i]), 0.0, 4294967295.0));
    };
    const auto within = [&](const std::vector<size_t>& columns, size_t first, size_t axis, double t) {
      const double low = chunks_.number(row / kChunk, columns[first + axis]);
      return low + (chunks_.number(row / kChunk, columns[first + 3 + axis]) - low) * t;
    };
    const std::array<double, 3> position = three_parts(word(0)), scale = three_parts(word(2));
    const uint32_t color = word(3);
    Splat s;
    for (size_t i = 0; i < 3; ++i) {
      s.position[i] = static_cast<float>(within(ranges_, 0, i, position[i]));
      s.log_scale[i] = static_cast<float>(within(ranges_, 6, i, scale[i]));
      const double part_of_color = part(color, static_cast<unsigned>(24 - 8 * i), 8);
      const double rgb = colors_.empty() ? part_of_color : within(colors_, 0, i, part_of_color);
      s.harmonics[0][i] = static_cast<float>((rgb - 0.5) / kBandZero);
    }
    unpack_rotation(word(1), s.rotation);
    const double alpha = part(color, 0, 8);
    s.opacity = static_cast<float>(std::log(alpha / (1 - alpha)));
    for (size_t i = 0; i < rest_.size(); ++i) {
      const double byte = harmonics_->number(row, rest_[i]);
      const double t = byte <= 0 ? 0 : byte >= 255 ? 1 : (byte + 0.5) / 256;
      s.harmonics[1 + i % (rest_.size() / 3)][i / (rest_.size() / 3)] = static_cast<float>((t - 0.5) * 8);
    }
    return s;
  }

  const PlyFile& file_;
  const PlyElement& vertices_;
  const PlyElement& chunks_;
  const PlyElement* harmonics_ = nullptr;
  std::vector<size_t> words_, ranges_, colors_, rest_;
};

SplatScene scene_of(const PlyFile& file) {
  const PlyElement* vertices = file.find("vertex");
  if (!vertices) fail(ErrorKind::invalid_file, "{}: it has no element \"vertex\" of numbers", file.name());
  if (vertices->find("packed_position")) return Packed(file, *vertices).read();
  return read_plain(file, *vertices);
}

}  // namespace

SplatScene read_splats(const std::string& path) { return scene_of(PlyFile(path)); }

SplatScene decode_splats(std::span<const std::byte> bytes, const std::string& name) {
  return scene_of(
      PlyFile(std::make_shared<FileBytes>(std::vector<std::byte>(bytes.begin(), bytes.end())), name));
}

void write_splats(const std::string& path, const SplatScene& scene) {
  std::string header = formatted("ply\nformat binary_little_endian 1.0\nelement vertex {}\n", scene.count);
  const auto property = [&](std::string_view name) { header += formatted("property float {}\n", name); };
  for (const char* name : {"x", "y", "z", "nx", "ny", "nz", "f_dc_0", "f_dc_1", "f_dc_2"}) property(name);
  const auto rest = static_cast<size_t>(scene.coefficients) - 1;
  for (size_t i = 0; i < 3 * rest; ++i) property(formatted("f_rest_{}", i));
  for (const char* name : {"opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3"})
    property(name);
  NewFile file(path);
  file.write(header + "end_header\n");
  std::vector<float> row;
  for (size_t i = 0; i < static_cast<size_t>(scene.count); ++i) {
    const float* harmonics = scene.harmonics.data() + 3 * (rest + 1) * i;
    row.assign(scene.positions.begin() + static_cast<std::ptrdiff_t>(3 * i),
               scene.positions.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
    row.insert(row.end(), 3, 0.0F);
    row.insert(row.end(), harmonics, harmonics + 3);
    for (size_t k = 0; k < 3 * rest; ++k) row.push_back(harmonics[3 * (1 + k % rest) + k / rest]);
    row.push_back(scene.opacities[i]);
    row.insert(row.end(), scene.log_scales.data() + 3 * i, scene.log_scales.data() + 3 * i + 3);
    row.insert(row.end(), scene.rotations.data() + 4 * i, scene.rotations.data() + 4 * i + 4);
    file.write(std::as_bytes(std::span(row)));
  }
  file.commit();
}

// Without the hundredth on either side of each axis, and then without the farthest hundredth: a few stray
// splats, which most scans have, would otherwise make all else small.
SplatBounds bounds_of(const SplatScene& scene) {
  SplatBounds out = {{0, 0, 0}, 1};
  const auto n = static_cast<size_t>(scene.count);
  if (n == 0) return out;
  const auto value_at = [](std::vector<double>& values, double part_of_all) {
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(part_of_all * static_cast<double>(values.size() - 1));
    std::ranges::nth_element(values, at);
    return *at;
  };
  std::vector<double> values(n);
  for (size_t axis = 0; axis < 3; ++axis) {
    for (size_t i = 0; i < n; ++i) values[i] = scene.positions[3 * i + axis];
    const double low = value_at(values, 0.01);
    out.center[axis] = (low + value_at(values, 0.99)) / 2;
  }
  for (size_t i = 0; i < n; ++i) {
    double squares = 0, scale = -100;
    for (size_t axis = 0; axis < 3; ++axis) {
      squares += std::pow(scene.positions[3 * i + axis] - out.center[axis], 2);
      scale = std::max(scale, static_cast<double>(scene.log_scales[3 * i + axis]));
    }
    values[i] = std::sqrt(squares) + 3 * std::exp(std::min(scale, 20.0));
  }
  out.radius = std::max(value_at(values, 0.99), 1e-3);
  return out;
}

}  // namespace rlx::vision
