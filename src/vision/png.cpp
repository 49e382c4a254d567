#include <png.h>

#include "base/fail.h"
#include "import/new_file.h"
#include "vision/codecs.h"
#include "vision/image.h"

namespace rlx::vision {
namespace {

// Deflate never makes more than this many bytes of one.
constexpr int64_t kMostExpansion = 1040;

// libpng's state while it reads or writes a whole picture, freed however that ends.
struct Png {
  png_image image = {};

  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
};

}  // namespace

Image decode_png(std::span<const std::byte> bytes) {
  Png png;
  const auto broken = [&] { fail(ErrorKind::invalid_file, "the PNG file is broken: {}", png.image.message); };
  if (!png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size())) broken();
  const int64_t width = png.image.width;
  const int64_t height = png.image.height;
  check_size(width, height);
  // The least that a pixel takes is one bit. A file that only claims to be large needs no memory to be
  // refused.
  if (width * height / 8 > static_cast<int64_t>(bytes.size()) * kMostExpansion)
    fail(ErrorKind::invalid_file, "the PNG file is broken: {} bytes cannot hold {} x {} pixels", bytes.size(),
         width, height);
  png.image.format = PNG_FORMAT_RGB;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // what writers of 16 bits mean
  Image out{.width = width, .height = height};
  out.rgb.resize(static_cast<size_t>(3 * width * height));
  const png_color white = {255, 255, 255};
  if (!png_image_finish_read(&png.image, &white, out.rgb.data(), 0, nullptr)) broken();
  return out;
}

std::vector<std::byte> encode_png(const Image& image) {
  check_size(image.width, image.height);
  Png png;
  png.image.width = static_cast<png_uint_32>(image.width);
  png.image.height = static_cast<png_uint_32>(image.height);
  png.image.format = PNG_FORMAT_RGB;
  std::vector<std::byte> out(PNG_IMAGE_PNG_SIZE_MAX(png.image));
  png_alloc_size_t size = out.size();
  if (!png_image_write_to_memory(&png.image, out.data(), &size, 0, image.rgb.data(), 0, nullptr))
    fail(ErrorKind::internal, "libpng cannot write the picture: {}", png.image.message);
  out.resize(size);
  return out;
}

void write_png(const std::string& path, const Image& image) {
  const std::vector<std::byte> bytes = encode_png(image);
  NewFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace rlx::vision
