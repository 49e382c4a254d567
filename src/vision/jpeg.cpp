#include <turbojpeg.h>

#include <memory>
#include <string_view>

#include "base/fail.h"
#include "vision/codecs.h"
#include "vision/orientation.h"

namespace rlx::vision {
namespace {

// A progressive file may ask for any number of passes over the picture, in a few bytes each.
constexpr int kMaxScans = 200;

// Every block of 8 x 8 pixels takes at least a bit.
constexpr int64_t kMostPixelsPerByte = 8 * 64;

struct Destroy {
  void operator()(void* handle) const { tj3Destroy(handle); }
};
using Decoder = std::unique_ptr<void, Destroy>;

// Some cameras leave bytes between two segments, and every program reads such files.
bool is_harmless(std::string_view warning) {
  return warning.find("extraneous bytes") != std::string_view::npos;
}

[[noreturn]] void broken(const Decoder& decoder) {
  fail(ErrorKind::invalid_file, "the JPEG file is broken: {}", tj3GetErrorStr(decoder.get()));
}

// Pictures whose numbers do not mean red, green and blue without a profile of the printer's inks.
void check_colours(int colours) {
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    fail(ErrorKind::unsupported, "the JPEG file is in the colours of a printer ({}); save it as RGB",
         colours == TJCS_CMYK ? "CMYK" : "YCCK");
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> bytes) {
  const Decoder decoder(tj3Init(TJINIT_DECOMPRESS));
  if (!decoder)
    fail(ErrorKind::out_of_memory, "the JPEG decoder cannot be started: {}", tj3GetErrorStr(nullptr));
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (tj3DecompressHeader(decoder.get(), data, bytes.size()) != 0) broken(decoder);
  // Tables without a picture are a file too.
  if (tj3Get(decoder.get(), TJPARAM_JPEGWIDTH) < 0)
    fail(ErrorKind::invalid_file, "the JPEG file is broken: there is no picture in it");
  check_colours(tj3Get(decoder.get(), TJPARAM_COLORSPACE));
  if (const int bits = tj3Get(decoder.get(), TJPARAM_PRECISION); bits != 8)
    fail(ErrorKind::unsupported, "the JPEG file has {} bits for each colour; 8 are read", bits);
  Image out{.width = tj3Get(decoder.get(), TJPARAM_JPEGWIDTH),
            .height = tj3Get(decoder.get(), TJPARAM_JPEGHEIGHT)};
  check_size(out.width, out.height);
  // A file that only claims to be large needs no memory to be refused. (Arithmetic codes have no least
  // length.)
  if (out.width * out.height / kMostPixelsPerByte > std::ssize(bytes) &&
      tj3Get(decoder.get(), TJPARAM_ARITHMETIC) != 1)
    fail(ErrorKind::invalid_file, "the JPEG file is broken: {} bytes cannot hold {} x {} pixels",
         bytes.size(), out.width, out.height);
  tj3Set(decoder.get(), TJPARAM_SCANLIMIT, kMaxScans);
  out.rgb.resize(static_cast<size_t>(3 * out.width * out.height));
  // What is missing at the end of a file is filled with grey, and only a warning says so.
  if (tj3Decompress8(decoder.get(), data, bytes.size(), out.rgb.data(), 0, TJPF_RGB) != 0 &&
      (tj3GetErrorCode(decoder.get()) != TJERR_WARNING || !is_harmless(tj3GetErrorStr(decoder.get()))))
    broken(decoder);
  return turned(std::move(out), exif_orientation(bytes));
}

}  // namespace rlx::vision
