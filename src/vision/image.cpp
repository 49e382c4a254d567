#include "rlx/image.h"

#include <algorithm>
#include <array>

#include "base/border.h"
#include "base/fail.h"
#include "import/file_bytes.h"
#include "vision/codecs.h"

namespace rlx::vision {
namespace {

struct Kind {
  std::string_view start;
  Image (*decode)(std::span<const std::byte>);  // null: known, but not read
  std::string_view name;
};

constexpr std::array kKinds = {
    Kind{"\x89PNG\r\n\x1a\n", decode_png, "PNG"},
    Kind{"\xff\xd8\xff", decode_jpeg, "JPEG"},
    Kind{"GIF8", nullptr, "GIF"},
    Kind{"BM", nullptr, "BMP"},
    Kind{"RIFF", nullptr, "WebP"},
    Kind{std::string_view("II*\0", 4), nullptr, "TIFF"},
    Kind{std::string_view("MM\0*", 4), nullptr, "TIFF"},
    Kind{"%PDF", nullptr, "PDF"},
};

}  // namespace

void check_size(int64_t width, int64_t height) {
  if (width <= 0 || height <= 0)
    fail(ErrorKind::invalid_file, "the picture has no pixels: it is {} x {}", width, height);
  if (width > kMaxPixels || height > kMaxPixels || width * height > kMaxPixels)
    fail(ErrorKind::unsupported, "the picture is {} x {}; at most {} megapixels are read", width, height,
         kMaxPixels >> 20);
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) try {
  if (bytes.empty()) fail(ErrorKind::invalid_file, "{}: the file is empty", name);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto kind = std::ranges::find_if(kKinds, [&](const Kind& k) { return text.starts_with(k.start); });
  if (kind == kKinds.end()) fail(ErrorKind::invalid_file, "{}: this is neither a PNG nor a JPEG file", name);
  if (!kind->decode)
    fail(ErrorKind::unsupported, "{}: this is a {} file; PNG and JPEG files are read", name, kind->name);
  try {
    return kind->decode(bytes);
  } catch (const Error& e) {
    throw e.within(name);
  }
} catch (...) {
  throw_as_error("reading a picture");
}

Image read_image(const std::string& path) try {
  const FileBytes file(path);
  return decode_image(file.bytes(), path);
} catch (...) {
  throw_as_error("reading a picture");
}

}  // namespace rlx::vision
