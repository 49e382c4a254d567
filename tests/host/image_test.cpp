// PNG and JPEG files of every kind (tests/fixtures/make_pictures.py), broken ones, and those that claim too
// much.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "import/new_file.h"
#include "rlx/npy.h"
#include "tests/support/compare.h"
#include "tests/support/message.h"
#include "tests/support/paths.h"
#include "vision/draw.h"
#include "vision/image.h"
#include "vision/orientation.h"
#include "vision/text_boxes.h"

namespace rlx::vision {
namespace {

using Bytes = std::vector<std::byte>;

const NamedTensors& fixtures() {
  static const NamedTensors all = read_npz(in_source("tests/fixtures/pictures.npz"));
  return all;
}

Bytes file(const std::string& name) {
  const std::span<const std::byte> bytes = fixtures().at(name + ".file").bytes();
  return {bytes.begin(), bytes.end()};
}

std::vector<std::string> names_of(std::string_view prefix) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : fixtures()) {
    if (name.ends_with(".file") && name.starts_with(prefix)) out.push_back(name.substr(0, name.size() - 5));
  }
  return out;
}

// The colours are those that the picture shows, but for so many steps of 256.
void expect_shows(const Image& got, const std::string& name, double allowed) {
  const Tensor& want = fixtures().at(name + ".rgb");
  EXPECT_EQ(want.shape(), (std::vector<int64_t>{got.height, got.width, 3})) << name;
  const std::vector<double> colours(got.rgb.begin(), got.rgb.end());
  EXPECT_TRUE(testing::within(colours, want.doubles(), allowed)) << name;
}

bool is_jpeg(const std::string& name) { return name.starts_with("jpeg"); }

TEST(Image, EveryKindOfPngShowsWhatItHolds) {
  int count = 0;
  for (const std::string& name : names_of("")) {
    if (is_jpeg(name)) continue;
    ++count;
    // 16 bits become 8 by rounding, in one way or another.
    expect_shows(decode_image(file(name), name), name, name.contains("16") ? 1 : 0);
  }
  EXPECT_EQ(count, 15);
}

TEST(Image, EveryKindOfJpegShowsWhatItHolds) {
  int count = 0;
  for (const std::string& name : names_of("jpeg")) {
    if (name == "jpeg_cmyk") continue;
    ++count;
    expect_shows(decode_image(file(name), name), name, 6);  // at quality 97
  }
  EXPECT_EQ(count, 11);
}

TEST(Image, PrintersColoursAreRefusedByName) {
  EXPECT_SAYS(decode_image(file("jpeg_cmyk"), "a.jpg"),
              "a.jpg: the JPEG file is in the colours of a printer");
}

TEST(Image, OtherFilesAreNamed) {
  const auto decode = [](std::string_view text) {
    const std::span<const char> chars(text.data(), text.size());
    return decode_image(std::as_bytes(chars), "it");
  };
  EXPECT_SAYS(decode(""), "it: the file is empty");
  EXPECT_SAYS(decode("hello, this is a text"), "neither a PNG nor a JPEG");
  EXPECT_SAYS(decode("GIF89a..."), "this is a GIF file; PNG and JPEG files are read");
  EXPECT_SAYS(decode("\x89PNG"), "neither a PNG nor a JPEG");
  EXPECT_SAYS(decode("\x89PNG\r\n\x1a\n"), "the PNG file is broken");
  EXPECT_SAYS(decode("\xff\xd8\xff"), "the JPEG file is broken");
  EXPECT_SAYS(read_image("/nowhere/a.png"), "/nowhere/a.png");
  EXPECT_SAYS(read_image("/tmp"), "/tmp");
}

TEST(Image, FilesThatAreCutShortAreBroken) {
  for (const std::string& name : names_of("")) {
    if (name == "jpeg_cmyk") continue;
    const Bytes whole = file(name);
    // Up to where the picture itself ends: what is left is the mark of the end.
    const size_t end = whole.size() - (is_jpeg(name) ? 8 : 16);
    for (size_t size = 8; size < end; size += size < 64 ? 1 : 7) {
      const std::string said = testing::message([&] { decode_image(std::span(whole).first(size), name); });
      EXPECT_TRUE(said.contains("broken"))
          << name << " cut to " << size << " of " << whole.size() << ": " << said;
    }
  }
}

// Whatever the bytes are, the answer is a picture or a sentence.
TEST(Image, ChangedBytesAreAPictureOrAnError) {
  std::mt19937 random(7);
  int errors = 0;
  for (const std::string& name : names_of("")) {
    const Bytes whole = file(name);
    for (int i = 0; i < 200; ++i) {
      Bytes bytes = whole;
      for (int changes = 0; changes <= i % 4; ++changes)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
      try {
        const Image image = decode_image(bytes, name);
        EXPECT_EQ(std::ssize(image.rgb), 3 * image.width * image.height);
      } catch (const Error& e) {
        ++errors;
        EXPECT_NE(e.kind(), ErrorKind::internal) << e.what();
      }
    }
  }
  EXPECT_GT(errors, 1000);
}

// The same file with other sizes in its header, and the checksum that belongs to them.
Bytes resized_png(uint32_t width, uint32_t height) {
  Bytes bytes = file("rgb8");
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (24 - 8 * i) & 0xff);
  };
  put(16, width);
  put(20, height);
  put(29, static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()) + 12, 17)));
  return bytes;
}

TEST(Image, SizesThatAreOnlyClaimedTakeNoMemory) {
  EXPECT_SAYS(decode_image(resized_png(100'000, 100'000), "a"),
              "the picture is 100000 x 100000; at most 64 megapixels");
  EXPECT_SAYS(decode_image(resized_png(8000, 8000), "a"), "bytes cannot hold 8000 x 8000 pixels");
  EXPECT_SAYS(decode_image(resized_png(0, 10), "a"), "the PNG file is broken");
  Bytes jpeg = file("jpeg");
  const auto frame = std::ranges::search(jpeg, std::array{std::byte{0xff}, std::byte{0xc0}});
  ASSERT_FALSE(frame.empty());
  for (const int side : {5, 7}) {
    frame.begin()[side] = std::byte{0xff};
    frame.begin()[side + 1] = std::byte{0xd8};
  }
  EXPECT_SAYS(decode_image(jpeg, "a"), "the picture is 65496 x 65496; at most 64 megapixels");
  for (const int side : {5, 7}) {
    frame.begin()[side] = std::byte{8000 >> 8};
    frame.begin()[side + 1] = std::byte{8000 & 0xff};
  }
  EXPECT_SAYS(decode_image(jpeg, "a"), "bytes cannot hold 8000 x 8000 pixels");
}

TEST(Image, AnOrientationThatIsNoneIsIgnored) {
  Bytes bytes = file("jpeg_turned6");
  EXPECT_EQ(exif_orientation(bytes), 6);
  // Everything that the tag's segment can be cut to or made of: never read beyond its end, never anything but
  // 1 to 8.
  for (size_t size = 0; size < std::min<size_t>(bytes.size(), 200); ++size) {
    const int found = exif_orientation(std::span(bytes).first(size));
    EXPECT_TRUE(found == 1 || found == 6);
  }
  for (size_t at = 0; at < 64; ++at) {
    for (const int value : {0, 1, 9, 127, 255}) {
      Bytes changed = bytes;
      changed[at] = static_cast<std::byte>(value);
      const int found = exif_orientation(changed);
      EXPECT_TRUE(found >= 1 && found <= 8);
    }
  }
}

Image coloured(int64_t width, int64_t height) {
  Image image{.width = width, .height = height};
  for (int64_t i = 0; i < 3 * width * height; ++i) image.rgb.push_back(static_cast<uint8_t>(i * 37 % 251));
  return image;
}

TEST(Image, WhatIsWrittenIsReadBack) {
  for (const auto& [width, height] : {std::pair{1, 1}, {3, 17}, {257, 2}, {300, 200}}) {
    const Image image = coloured(width, height);
    const Image again = decode_image(encode_png(image), "a");
    EXPECT_EQ(again.width, width);
    EXPECT_EQ(again.height, height);
    EXPECT_EQ(again.rgb, image.rgb);
  }
  EXPECT_SAYS(encode_png({}), "the picture has no pixels");
}

TEST(Image, AFileThatCannotBeWrittenLeavesNothing) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / std::format("rlx-image-{}", getpid());
  std::filesystem::create_directories(folder);
  EXPECT_SAYS(write_png((folder / "none/a.png").string(), coloured(3, 3)), "cannot be written");
  EXPECT_SAYS(write_png("/dev/full", coloured(3, 3)), "is not a regular file");
  write_png((folder / "a.png").string(), coloured(3, 3));
  EXPECT_EQ(read_image((folder / "a.png").string()).rgb, coloured(3, 3).rgb);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

// What a signal handler does.
TEST(Image, UnfinishedFilesCanBeRemoved) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / std::format("rlx-unfinished-{}", getpid());
  std::filesystem::create_directories(folder);
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator(folder), {}); };
  {
    NewFile done((folder / "done").string());
    done.write("all of it");
    done.commit();
    NewFile half((folder / "half").string());
    half.write("half of");
    EXPECT_EQ(files(), 2);
    remove_unfinished_files();
    EXPECT_EQ(files(), 1);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "done"));
  remove_unfinished_files();  // of a file that is done, nothing is remembered
  EXPECT_EQ(files(), 1);
  std::filesystem::remove_all(folder);
}

// Whoever puts a link where the temporary file would be does not have another file written.
TEST(Image, TemporaryFilesAreNew) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / std::format("rlx-new-{}", getpid());
  std::filesystem::create_directories(folder);
  const auto text = [&](const char* name) {
    std::ostringstream out;
    out << std::ifstream(folder / name).rdbuf();
    return out.str();
  };
  std::ofstream(folder / "other") << "precious";
  std::ofstream(folder / "private") << "old";
  std::filesystem::permissions(folder / "private", std::filesystem::perms::owner_read);
  std::filesystem::create_symlink(folder / "other", folder / std::format("a.{}.tmp", getpid()));
  for (const char* name : {"a", "private"}) {
    NewFile first((folder / name).string());
    NewFile second((folder / name).string());  // as another thread may
    first.write("first");
    second.write("second");
    first.commit();
    second.commit();
    EXPECT_EQ(text(name), "second");
  }
  EXPECT_EQ(text("other"), "precious");
  EXPECT_EQ(std::filesystem::status(folder / "private").permissions(), std::filesystem::perms::owner_read);
  std::filesystem::remove_all(folder);
}

TEST(Draw, ABoxIsAnOutlineWithinThePicture) {
  Image image{.width = 20, .height = 10, .rgb = std::vector<uint8_t>(600, 0)};
  draw_box(image, TextBox{.origin = {4.5, 2.5}, .along = {10, 0}, .down = {0, 4}}.corners(), {255, 128, 0},
           1);
  const auto red = [&](int64_t x, int64_t y) { return int{image.pixel(x, y)[0]}; };
  EXPECT_EQ(red(4, 2), 255);
  EXPECT_EQ(red(14, 6), 255);
  EXPECT_EQ(red(9, 2), 255);
  EXPECT_EQ(image.pixel(9, 2)[1], 128);
  EXPECT_EQ(red(9, 4), 0);  // inside
  EXPECT_EQ(red(9, 8), 0);  // outside
  const Image before = image;
  draw_box(image, TextBox{.origin = {-500, -500}, .along = {1e9, 0}, .down = {0, 1e9}}.corners(),
           {255, 255, 255}, 3);
  draw_box(image, TextBox{.origin = {1e7, 1e7}, .along = {10, 0}, .down = {0, 10}}.corners(), {255, 255, 255},
           3);
  EXPECT_EQ(image.rgb, before.rgb);  // nothing of them lies inside
}

}  // namespace
}  // namespace rlx::vision
