#include "vision/orientation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace rlx::vision {
namespace {

// Whole numbers of a file in either byte order; nothing beyond its end.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint32_t> number(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return std::nullopt;
    uint32_t out = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t from = big_endian_ ? i : size - 1 - i;
      out = out << 8 | std::to_integer<uint32_t>(bytes_[at + from]);
    }
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_endian_;
};

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin(),
                    [](char c, std::byte b) { return std::byte(static_cast<unsigned char>(c)) == b; });
}

// The tag in a TIFF structure, which is what an Exif segment holds: a header, then a list of entries of 12
// bytes each.
int tag_of(std::span<const std::byte> tiff) {
  constexpr uint32_t kOrientation = 0x0112;
  const bool big = starts_with(tiff, "MM");
  if (!big && !starts_with(tiff, "II")) return 1;
  const Bytes read(tiff, big);
  const auto list = read.number(4, 4);
  const auto count = list ? read.number(*list, 2) : std::nullopt;
  for (size_t i = 0; count && i < *count; ++i) {
    const size_t entry = *list + 2 + 12 * i;
    const auto tag = read.number(entry, 2);
    const auto value = read.number(entry + 8, 2);
    if (!tag || !value) return 1;
    if (*tag == kOrientation) return *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> jpeg) {
  constexpr uint32_t kExif = 0xffe1;
  constexpr uint32_t kScan = 0xffda;  // the picture itself: nothing about it comes later
  constexpr std::string_view kName("Exif\0\0", 6);
  const Bytes read(jpeg, true);
  for (size_t at = 2; at < jpeg.size();) {
    const auto marker = read.number(at, 2);
    const auto length = read.number(at + 2, 2);
    if (!marker || !length || *marker < 0xff00 || *marker == kScan || *length < 2) return 1;
    const auto segment = jpeg.subspan(at + 4, std::min<size_t>(*length - 2, jpeg.size() - at - 4));
    if (*marker == kExif && starts_with(segment, kName)) return tag_of(segment.subspan(kName.size()));
    at += 2 + *length;
  }
  return 1;
}

Image turned(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool sideways = orientation >= 5;
  // Which ends of the stored rows and columns the left and the top of the picture are at.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out{.width = sideways ? image.height : image.width, .height = sideways ? image.width : image.height};
  out.rgb.resize(image.rgb.size());
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      const int64_t column = sideways ? y : x;
      const int64_t row = sideways ? x : y;
      const uint8_t* from = image.pixel(from_right ? image.width - 1 - column : column,
                                        from_bottom ? image.height - 1 - row : row);
      std::copy_n(from, 3, out.pixel(x, y));
    }
  }
  return out;
}

}  // namespace rlx::vision
