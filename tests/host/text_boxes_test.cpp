// The steps around the networks that read text: boxes, strips, characters. Cases made by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numbers>
#include <random>

#include "tests/support/message.h"
#include "vision/ctc.h"
#include "vision/strip.h"
#include "vision/text_boxes.h"
#include "vision/text_networks.h"
#include "vision/tiles.h"

namespace rlx::vision {
namespace {

struct Map {
  int64_t width;
  int64_t height;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(width * height), 0.0F);

  float& at(int64_t x, int64_t y) { return values[static_cast<size_t>(y * width + x)]; }
  void fill(int64_t x, int64_t y, int64_t w, int64_t h, float value) {
    for (int64_t j = y; j < y + h; ++j) {
      for (int64_t i = x; i < x + w; ++i) at(i, j) = value;
    }
  }
  // A rectangle around a centre, turned clockwise by an angle in degrees.
  void fill_turned(Point center, double along, double across, double degrees, float value) {
    const double a = degrees * std::numbers::pi / 180;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const Point p = Point{static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5} - center;
        if (std::fabs(dot(p, {std::cos(a), std::sin(a)})) <= along / 2 &&
            std::fabs(dot(p, {-std::sin(a), std::cos(a)})) <= across / 2)
          at(x, y) = value;
      }
    }
  }
  std::vector<TextBox> boxes(const BoxOptions& options = {}) const {
    return text_boxes(values, width, height, options);
  }
};

double degrees_of(Point p) { return std::atan2(p.y, p.x) * 180 / std::numbers::pi; }

TEST(TextBoxes, ARectangleGrowsByAreaOverPerimeter) {
  Map map{64, 48};
  map.fill(10, 20, 20, 6, 0.9F);
  const auto boxes = map.boxes();
  ASSERT_EQ(boxes.size(), 1u);
  // Between the centres of its pixels it is 19 x 5: 19 * 5 * 1.6 / 48 = 3.1667 is added on each side.
  EXPECT_NEAR(boxes[0].along.x, 19 + 2 * 3.1667, 1e-3);
  EXPECT_NEAR(boxes[0].along.y, 0, 1e-9);
  EXPECT_NEAR(boxes[0].down.y, 5 + 2 * 3.1667, 1e-3);
  EXPECT_NEAR(boxes[0].center().x, 20, 1e-9);
  EXPECT_NEAR(boxes[0].center().y, 23, 1e-9);
  EXPECT_NEAR(boxes[0].score, 0.9, 1e-6);
}

TEST(TextBoxes, ATurnedLineHasATurnedBox) {
  for (const double angle : {-40.0, -17.0, 5.0, 30.0, 44.0}) {
    Map map{160, 160};
    map.fill_turned({80, 80}, 100, 16, angle, 1.0F);
    const auto boxes = map.boxes({.unclip = 0});
    ASSERT_EQ(boxes.size(), 1u) << angle;
    EXPECT_NEAR(degrees_of(boxes[0].along), angle, 1.5);
    EXPECT_NEAR(length(boxes[0].along), 100, 2.5);
    EXPECT_NEAR(length(boxes[0].down), 16, 2.5);
    EXPECT_NEAR(boxes[0].center().x, 80, 1);
    EXPECT_GT(cross(boxes[0].along, boxes[0].down), 0);  // down is to the right of along, y points down
  }
}

TEST(TextBoxes, ALineThatRunsDownIsReadFromTheTop) {
  Map map{40, 100};
  map.fill(10, 10, 8, 80, 1.0F);
  const auto boxes = map.boxes({.unclip = 0});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_NEAR(boxes[0].origin.x, 17.5, 1e-9);  // the upper right corner
  EXPECT_NEAR(boxes[0].origin.y, 10.5, 1e-9);
  EXPECT_NEAR(boxes[0].along.y, 79, 1e-9);
  EXPECT_NEAR(boxes[0].down.x, -7, 1e-9);
}

TEST(TextBoxes, PixelsThatTouchAtACornerAreOneRegion) {
  Map map{40, 40};
  map.fill(4, 4, 8, 8, 1.0F);
  map.fill(12, 12, 8, 8, 1.0F);  // touches at a corner, from the left
  EXPECT_EQ(map.boxes({.least_score = 0}).size(), 1u);
  map.fill(4, 20, 8, 8, 1.0F);  // and this one from the right
  EXPECT_EQ(map.boxes({.least_score = 0}).size(), 1u);
  map.fill(30, 4, 6, 6, 1.0F);  // this one touches nothing
  EXPECT_EQ(map.boxes({.least_score = 0}).size(), 2u);
}

// Two arms that meet only in their last row: the upper ends look like two regions at first.
TEST(TextBoxes, ARegionMayJoinLate) {
  Map map{40, 30};
  map.fill(5, 5, 4, 20, 1.0F);
  map.fill(25, 5, 4, 20, 1.0F);
  map.fill(5, 21, 24, 4, 1.0F);
  const auto boxes = map.boxes({.least_score = 0, .unclip = 0});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_NEAR(length(boxes[0].along), 23, 1e-9);
  EXPECT_NEAR(length(boxes[0].down), 19, 1e-9);
}

TEST(TextBoxes, WeakSmallAndMeaninglessRegionsAreDropped) {
  Map map{64, 64};
  map.fill(2, 2, 20, 6, 0.4F);   // below the score
  map.fill(2, 20, 20, 3, 1.0F);  // two pixels between the centres
  map.at(50, 50) = 1;
  map.fill(2, 40, 20, 6, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(map.boxes().empty());
  EXPECT_EQ(map.boxes({.least_score = 0.3}).size(), 1u);
  EXPECT_TRUE(text_boxes({}, 0, 0).empty());
}

TEST(TextBoxes, NoiseIsBounded) {
  Map map{512, 512};
  std::mt19937 random(3);
  for (float& v : map.values) v = static_cast<float>(random() % 1000) / 1000;
  for (int64_t y = 0; y < 512; y += 8) {
    for (int64_t x = 0; x < 512; x += 8) map.fill(x, y, 8, 8, 0), map.fill(x, y, 5, 5, 1);
  }
  EXPECT_EQ(map.boxes({.most_boxes = 100}).size(), 100u);
  EXPECT_EQ(map.boxes().size(), 1000u);
}

TEST(TextBoxes, TheSmallestRectangleOfFewPoints) {
  EXPECT_EQ(smallest_rectangle({{3, 4}}).along, 0);
  const Rectangle line = smallest_rectangle({{0, 0}, {3, 3}, {1, 1}, {2, 2}});
  EXPECT_NEAR(std::max(line.along, line.across), 3 * std::numbers::sqrt2, 1e-9);
  EXPECT_NEAR(std::min(line.along, line.across), 0, 1e-9);
  const Rectangle diamond = smallest_rectangle({{2, 0}, {4, 2}, {2, 4}, {0, 2}});
  EXPECT_NEAR(diamond.along * diamond.across, 8, 1e-9);
  EXPECT_NEAR(diamond.center.x, 2, 1e-9);
}

TEST(TextBoxes, AreSortedAsOneReads) {
  const auto box = [](double x, double y, double score) { return TextBox{{x, y}, {30, 0}, {0, 10}, score}; };
  std::vector<TextBox> boxes = {box(50, 43, 5), box(0, 40, 4), box(60, 0, 2), box(0, 3, 1), box(20, 15, 3)};
  sort_for_reading(boxes);
  for (size_t i = 0; i < boxes.size(); ++i) EXPECT_EQ(boxes[i].score, static_cast<double>(i + 1));
}

// A small box whose middle is above that of a high one comes first, although the high one reaches beside it.
TEST(TextBoxes, OfTwoHeightsTheSmallerMakesARow) {
  const TextBox high{{0, 0}, {90, 0}, {0, 80}, 2};
  const TextBox small{{100, 10}, {60, 0}, {0, 12}, 1};
  std::vector<TextBox> boxes = {high, small};
  sort_for_reading(boxes);
  EXPECT_EQ(boxes[0].score, 1);
  EXPECT_EQ(boxes[1].score, 2);
}

// Words of a heading stay in one row, whatever lies between them.
TEST(TextBoxes, ASpeckDoesNotEndARow) {
  std::vector<TextBox> boxes = {{{1089, 176}, {300, 0}, {0, 91}, 3},
                                {{207, 176}, {420, 0}, {0, 96}, 1},
                                {{642, 170}, {428, 0}, {0, 119}, 2},
                                {{500, 222}, {8, 0}, {0, 8}, 4}};
  sort_for_reading(boxes);
  for (size_t i = 0; i < boxes.size(); ++i) EXPECT_EQ(boxes[i].score, static_cast<double>(i + 1));
}

// Lines of a page that is turned, of unequal lengths, and the last in two pieces.
TEST(TextBoxes, ATurnedPageIsReadLineByLine) {
  for (const double degrees : {0.0, 15.0, -15.0, 40.0, 90.0, 180.0, -90.0, 172.0}) {
    const double a = degrees * std::numbers::pi / 180;
    const auto turned = [&](Point p) {
      return Point{p.x * std::cos(a) - p.y * std::sin(a), p.x * std::sin(a) + p.y * std::cos(a)};
    };
    const auto box = [&](double x, double y, double wide, double number) {
      return TextBox{turned({x, y}), turned({wide, 0}), turned({0, 16}), number};
    };
    std::vector<TextBox> boxes = {box(300, 61, 200, 4), box(0, 20, 80, 1), box(0, 60, 280, 3),
                                  box(0, 0, 500, 0), box(0, 40, 490, 2)};
    sort_for_reading(boxes);
    for (size_t i = 0; i < boxes.size(); ++i) EXPECT_EQ(boxes[i].score, static_cast<double>(i)) << degrees;
  }
}

TEST(TextBoxes, LargeLinesReplaceTheBitsOfTheirLetters) {
  const TextBox title{{0, 0}, {3000, 0}, {0, 400}, 1};
  const TextBox bit{{100, 100}, {200, 0}, {0, 150}, 2};
  const TextBox elsewhere{{0, 500}, {200, 0}, {0, 20}, 3};
  const std::vector<TextBox> found = with_large_lines({bit, elsewhere}, {title});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].score, 3);
  EXPECT_EQ(found[1].score, 1);
  // A box around a whole paragraph does not replace its lines, and a line is not there twice.
  std::vector<TextBox> paragraph;
  for (int i = 0; i < 10; ++i) paragraph.push_back({{0, i * 40.0}, {3000, 0}, {0, 24}, 4});
  EXPECT_EQ(with_large_lines(paragraph, {title}).size(), 10u);
  EXPECT_EQ(with_large_lines({title}, {title}).size(), 1u);
  EXPECT_EQ(with_large_lines({}, {title}).size(), 1u);
}

// --- Strips ---

// Red says where across, green where down.
Image gradient(int64_t width, int64_t height) {
  Image image{.width = width, .height = height};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x)
      image.rgb.insert(image.rgb.end(), {static_cast<uint8_t>(2 * x), static_cast<uint8_t>(2 * y), 9});
  }
  return image;
}

struct Strip {
  int64_t width, height, stride;
  std::vector<float> values;
  // Channels are blue, green, red.
  double red(int64_t x, int64_t y) const { return colour(2, x, y); }
  double green(int64_t x, int64_t y) const { return colour(1, x, y); }
  double colour(int64_t c, int64_t x, int64_t y) const {
    return (static_cast<double>(values[static_cast<size_t>((c * height + y) * stride + x)]) + 1) * 127.5;
  }
};
Strip cut(const Image& image, const TextBox& box, int64_t width, int64_t height) {
  Strip out{width, height, width + 3,
            std::vector<float>(static_cast<size_t>(3 * height * (width + 3)), 0.0F)};
  cut_strip(image, box, width, height, out.stride, out.values);
  return out;
}

TEST(Strip, OneToOneItIsThePicture) {
  const Image image = gradient(40, 30);
  const Strip s = cut(image, {.origin = {5, 7}, .along = {20, 0}, .down = {0, 10}}, 20, 10);
  EXPECT_NEAR(s.red(0, 0), 10, 1e-4);
  EXPECT_NEAR(s.red(19, 9), 48, 1e-4);
  EXPECT_NEAR(s.green(19, 9), 32, 1e-4);
  EXPECT_NEAR(s.colour(0, 3, 3), 9, 1e-4);
  EXPECT_EQ(s.values[20], 0.0F);  // beyond its width nothing is written
}

TEST(Strip, UpsideDownAndSideways) {
  const Image image = gradient(40, 30);
  const TextBox box{.origin = {5, 7}, .along = {20, 0}, .down = {0, 10}};
  const Strip turned = cut(image, box.upside_down(), 20, 10);
  EXPECT_NEAR(turned.red(0, 0), 48, 1e-4);
  EXPECT_NEAR(turned.green(0, 0), 32, 1e-4);
  EXPECT_NEAR(turned.red(19, 9), 10, 1e-4);
  // From the upper right corner downwards.
  const Strip down = cut(image, {.origin = {25, 7}, .along = {0, 10}, .down = {-20, 0}}, 10, 20);
  EXPECT_NEAR(down.red(0, 0), 48, 1e-4);
  EXPECT_NEAR(down.green(0, 0), 14, 1e-4);
  EXPECT_NEAR(down.green(9, 0), 32, 1e-4);
}

TEST(Strip, SmallerMeansAveragedAndOutsideMeansTheEdge) {
  Image stripes{.width = 80, .height = 8};
  for (int64_t i = 0; i < 80 * 8; ++i) stripes.rgb.insert(stripes.rgb.end(), 3, i % 2 ? 255 : 0);
  const Strip half = cut(stripes, {.origin = {0, 0}, .along = {80, 0}, .down = {0, 8}}, 20, 2);
  for (int64_t x = 0; x < 20; ++x) EXPECT_NEAR(half.red(x, 1), 127.5, 1e-3);
  const Strip outside =
      cut(gradient(40, 30), {.origin = {-100, -100}, .along = {20, 0}, .down = {0, 10}}, 20, 10);
  EXPECT_NEAR(outside.red(19, 9), 0, 1e-4);
  EXPECT_NEAR(outside.green(19, 9), 0, 1e-4);
}

TEST(Strip, ItsWidthKeepsProportions) {
  EXPECT_NEAR(strip_width({.along = {0, 100}, .down = {-20, 0}}, 48), 240, 1e-9);
  EXPECT_GT(strip_width({.along = {100, 0}, .down = {0, 0}}, 48), 1e6);  // not a division by 0
}

// Keys' cubic through single bright pixels, by its formula.
TEST(Strip, EnlargedItIsACubic) {
  Image dots{.width = 9, .height = 9, .rgb = std::vector<uint8_t>(9 * 9 * 3, 100)};
  for (size_t c = 0; c < 3; ++c) dots.pixel(4, 4)[c] = 200;
  const auto kernel = [](double d) {
    d = std::fabs(d);
    return d < 1 ? 1.5 * d * d * d - 2.5 * d * d + 1 : d < 2 ? -0.5 * d * d * d + 2.5 * d * d - 4 * d + 2 : 0;
  };
  const Strip s = cut(dots, {.origin = {0, 0}, .along = {9, 0}, .down = {0, 9}}, 36, 45);
  for (int64_t y = 0; y < 45; ++y) {
    for (int64_t x = 0; x < 36; ++x) {
      const double across = (static_cast<double>(x) + 0.5) / 4 - 4.5;
      const double down = (static_cast<double>(y) + 0.5) / 5 - 4.5;
      EXPECT_NEAR(s.red(x, y), 100 + 100 * kernel(across) * kernel(down), 1e-3) << x << " " << y;
    }
  }
}

TEST(Strip, NothingIsDarkerThanBlackOrLighterThanWhite) {
  Image edge{.width = 8, .height = 4};
  for (int64_t i = 0; i < 8 * 4; ++i) edge.rgb.insert(edge.rgb.end(), 3, i % 8 < 4 ? 0 : 255);
  const Strip s = cut(edge, {.origin = {0, 0}, .along = {8, 0}, .down = {0, 4}}, 64, 32);
  for (int64_t x = 0; x < 64; ++x) {
    EXPECT_GE(s.red(x, 9), -1e-3);
    EXPECT_LE(s.red(x, 9), 255 + 1e-3);
  }
}

TEST(Strip, MarginsArePartsOfTheHeightOnAllSides) {
  const TextBox down{.origin = {50, 10}, .along = {0, 100}, .down = {-20, 0}, .score = 0.7};
  const TextBox wider = with_margins(down);
  EXPECT_NEAR(wider.origin.x, 52, 1e-9);
  EXPECT_NEAR(wider.origin.y, 7, 1e-9);
  EXPECT_NEAR(wider.along.y, 106, 1e-9);
  EXPECT_NEAR(wider.down.x, -24, 1e-9);
  EXPECT_EQ(wider.score, 0.7);
  EXPECT_EQ(with_margins({.origin = {1, 1}}).origin.x, 1);  // no division by 0
}

TEST(Strip, ALongLineHasABeginning) {
  const TextBox line{.origin = {5, 7}, .along = {300, 0}, .down = {0, 20}};
  EXPECT_NEAR(beginning(line, 4).along.x, 80, 1e-9);
  EXPECT_EQ(beginning(line, 4).origin.x, 5);
  EXPECT_EQ(beginning(line, 15).along.x, 300);
  EXPECT_EQ(beginning(line, 40).along.x, 300);
}

// --- Tiles ---

TEST(Tiles, SmallPicturesAreEnlargedAndOthersAreNot) {
  EXPECT_NEAR(detector_scale(400, 70, kAnySide), 2, 1e-9);
  EXPECT_NEAR(detector_scale(500, 300, kAnySide), std::sqrt(2.0), 1e-9);
  EXPECT_EQ(detector_scale(800, 560, kAnySide), 1);
  EXPECT_EQ(detector_scale(6000, 4000, kAnySide), 1);
  EXPECT_NEAR(detector_scale(6000, 4000, 960), 0.16, 1e-9);
  EXPECT_NEAR(detector_scale(400, 70, 100), 0.25, 1e-9);
}

TEST(Tiles, OneIsInMultiplesOf32) {
  const auto map = [](int64_t length, double scale) {
    const TileAxis axis = tile_axis(length, scale);
    EXPECT_EQ(axis.starts.size(), 1u) << length;
    EXPECT_EQ(axis.tile, length);
    EXPECT_EQ(axis.whole, axis.map);
    return axis.map;
  };
  EXPECT_EQ(map(800, 1), 800);
  EXPECT_EQ(map(560, 1), 576);  // 17.5 rounds up
  EXPECT_EQ(map(1, 1), 32);
  EXPECT_EQ(map(70, 2), 128);
  EXPECT_EQ(map(975, 1), 960);
  EXPECT_EQ(map(10'000'000, 960.0 / 10'000'000), 960);
}

// Put together, the maps of tiles are the map of the whole, each place from a tile that sees beyond it.
TEST(Tiles, TogetherTheyAreTheWhole) {
  for (const int64_t length : {977, 1000, 1793, 2400, 8192}) {
    const TileAxis x = tile_axis(length, 1);
    const TileAxis y = tile_axis(3, 1);
    ASSERT_GT(x.starts.size(), 1u);
    EXPECT_EQ(x.map % 32, 0);
    EXPECT_LE(x.map, kLongestTile);
    EXPECT_EQ(x.whole, length);
    std::vector<float> whole(static_cast<size_t>(x.whole * y.whole), -1.0F);
    for (size_t i = 0; i < x.starts.size(); ++i) {
      ASSERT_LE(x.starts[i] + x.tile, length);
      std::vector<float> tile(static_cast<size_t>(x.map * y.map));
      for (int64_t v = 0; v < y.map; ++v) {
        for (int64_t u = 0; u < x.map; ++u) {
          const bool seam = (i > 0 && u < 48) || (i + 1 < x.starts.size() && u >= x.map - 48);
          tile[static_cast<size_t>(v * x.map + u)] = seam ? -2.0F : static_cast<float>(x.starts[i] + u);
        }
      }
      place_tile(tile, x, i, y, 0, whole);
    }
    for (int64_t v = 0; v < y.whole; ++v) {
      for (int64_t u = 0; u < length; ++u)
        ASSERT_EQ(whole[static_cast<size_t>(v * length + u)], static_cast<float>(u)) << length;
    }
  }
}

TEST(Tiles, ScaledOnesStayInThePicture) {
  for (const double scale : {0.3, 0.77, 1.3, 2.0}) {
    for (const int64_t length : {1200, 4001, 9000}) {
      const TileAxis x = tile_axis(length, scale);
      EXPECT_EQ(x.starts.front(), 0);
      EXPECT_EQ(x.starts.back() + x.tile, length);
      EXPECT_EQ(x.map_starts.back() + x.map, x.whole);
      EXPECT_NEAR(1 / x.scale(), scale, 0.05);
      for (size_t i = 0; i < x.starts.size(); ++i)
        EXPECT_NEAR(static_cast<double>(x.starts[i]) / x.scale(), static_cast<double>(x.map_starts[i]), 1.5);
    }
  }
}

TEST(Tiles, APartAndWhetherItIsBlank) {
  Image image = gradient(40, 30);
  const Image part = part_of(image, 7, 3, 5, 4);
  ASSERT_EQ(part.rgb.size(), 60u);
  EXPECT_EQ(part.pixel(4, 3)[0], 22);
  EXPECT_EQ(part.pixel(4, 3)[1], 12);
  EXPECT_TRUE(is_blank(part));
  EXPECT_FALSE(is_blank(image));
  EXPECT_TRUE(is_blank(Image{}));
}

// --- Characters ---

const Alphabet& letters() {
  static const Alphabet alphabet({"a", "b", "é"});
  return alphabet;
}

TEST(Ctc, RepeatsAreOneAndNothingPartsThem) {
  const std::vector<int64_t> classes = {0, 1, 1, 0, 1, 2, 2, 4, 3, 0};
  const std::vector<float> sure = {1, 0.5F, 0.9F, 1, 0.7F, 0.8F, 0.1F, 1, 1, 1};
  const Reading r = decode_steps(classes, sure, letters());
  EXPECT_EQ(r.text, "aab é");
  EXPECT_NEAR(r.confidence, (0.5 + 0.7 + 0.8 + 1 + 1) / 5, 1e-6);
}

// Class 4 is the space: margins are read as one.
TEST(Ctc, SpacesAroundATextAreNoneOfIt) {
  const std::vector<int64_t> classes = {4, 0, 4, 1, 4, 2, 0, 4, 4};
  const std::vector<float> sure = {0.1F, 1, 0.1F, 1, 0.8F, 0.6F, 1, 0.1F, 0.1F};
  const Reading r = decode_steps(classes, sure, letters());
  EXPECT_EQ(r.text, "a b");
  EXPECT_EQ(r.characters, 3);
  EXPECT_NEAR(r.confidence, 0.8, 1e-6);
  const std::vector<int64_t> spaces = {4, 0, 4};
  EXPECT_EQ(decode_steps(spaces, std::span(sure).first(3), letters()).confidence, 0);
}

TEST(Ctc, NothingIsNothing) {
  const std::vector<int64_t> classes = {0, 0};
  const std::vector<float> sure = {1, 1};
  EXPECT_EQ(decode_steps(classes, sure, letters()).text, "");
  EXPECT_EQ(decode_steps(classes, sure, letters()).confidence, 0);
  EXPECT_EQ(decode_steps({}, {}, letters()).text, "");
}

TEST(Ctc, ClassesThatDoNotExistAreErrors) {
  const std::vector<float> sure = {1};
  for (const int64_t c : {int64_t{-1}, int64_t{5}, INT64_MAX}) {
    const std::vector<int64_t> classes = {c};
    EXPECT_SAYS(decode_steps(classes, sure, letters()), "but there are 5");
  }
}

TEST(Ctc, AlphabetsAreFilesWithACharacterOnEachLine) {
  const std::string path = std::filesystem::path(::testing::TempDir()) / std::format("rlx-keys-{}", getpid());
  const auto with = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  const Alphabet alphabet = Alphabet::read(with("x\r\n疗\n'"));
  ASSERT_EQ(alphabet.classes(), 5);
  EXPECT_EQ(alphabet[1], "x");
  EXPECT_EQ(alphabet[2], "疗");
  EXPECT_EQ(alphabet[4], " ");
  EXPECT_EQ(Alphabet::read(with("x\ny\n")).classes(), 4);
  EXPECT_SAYS(Alphabet::read(with("")), "the file is empty");
  EXPECT_SAYS(Alphabet::read(with("x\n\ny")), "line 2 is no character");
  EXPECT_SAYS(Alphabet::read(with("x\n\x1b[2J")), "line 2 is no character");
  EXPECT_SAYS(Alphabet::read(with("x\n\xe7\x96")), "line 2 is no character");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace rlx::vision
