// `rlx profile`: its table, its trace and its page.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gpu/cli_harness.h"
#include "tests/support/onnx_model.h"

namespace rlx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class ProfileCli : public testing::CliTest {
 protected:
  // What the page draws.
  static json data_of(const std::string& html) {
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t at = html.find(begin);
    if (at == std::string::npos) return {};
    const size_t first = at + begin.size();
    return json::parse(html.substr(first, html.find("</script>", first) - first));
  }
};

constexpr const char* kModel = R"(graph layers {
  %x = input : f32[batch, 64]
  %w1 = param : f32[64, 32]
  %b1 = param : f32[32]
  %w2 = param : f32[32, 16]
  %m1 = matmul(%x, %w1)
  %s1 = add(%m1, %b1)
  %h = gelu(%s1)
  %m2 = matmul(%h, %w2)
  %probs = softmax(%m2)
  output probs = %probs
}
)";

TEST_F(ProfileCli, TableAndTrace) {
  const std::string trace = path("trace.json");
  const auto r = rlx("profile " + write("layers.rlx", kModel) + " --dim batch=8 --trace " + trace);
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part : {"GFLOP/s", "GB/s", "softmax", "share", "the run in the middle of 5"})
    EXPECT_TRUE(r.out.contains(part)) << part << "\n" << r.out;
  const json events = json::parse(slurp(trace)).at("traceEvents");
  EXPECT_EQ(events.size(), 1u + 3);  // a title, two products and a softmax
}

TEST_F(ProfileCli, ThePageHasTheRun) {
  const std::string page = path("page.html");
  const auto r = rlx("profile " + write("layers.rlx", kModel) + " --dim batch=8 --repeat 2 --html " + page);
  ASSERT_EQ(r.code, 0) << r.err;
  const json data = data_of(slurp(page));
  EXPECT_EQ(data.at("graph"), "layers");
  EXPECT_EQ(data.at("runs"), 2);
  ASSERT_EQ(data.at("dispatches").size(), 3u);
  ASSERT_EQ(data.at("steps").size(), 3u);
  double flops = 0;
  for (const json& d : data["dispatches"]) {
    flops += d.at("flops").get<double>();
    EXPECT_LE(d.at("begin").get<uint64_t>(), d.at("end").get<uint64_t>());
    EXPECT_LT(d.at("step").get<size_t>(), data["steps"].size());
  }
  EXPECT_DOUBLE_EQ(flops, 2.0 * 8 * 64 * 32 + 2.0 * 8 * 32 * 16);
  // What was fused into the first product, with the bias as an input.
  int64_t fused = 0;
  for (const json& node : data.at("nodes")) {
    for (const json& e : node.value("expressions", json::array())) {
      ++fused;
      EXPECT_TRUE(e.at("text").get<std::string>().contains("gelu(")) << e;
      EXPECT_EQ(e.at("inputs"), json::array({"matmul", "b1"}));
    }
  }
  EXPECT_EQ(fused, 1);
}

// Two pieces of memory that hold something at the same time lie apart.
TEST_F(ProfileCli, TheMemoryPlanHasNoCollisions) {
  const std::string page = path("page.html");
  const std::string file = write("layers.rlx", kModel);
  ASSERT_EQ(rlx("profile " + file + " --dim batch=8 --no-optimize --repeat 1 --html " + page).code, 0);
  const json data = data_of(slurp(page));
  const json& storages = data.at("storages");
  ASSERT_GE(storages.size(), 5u);  // x, and what five nodes make
  const auto number = [](const json& s, const char* name) { return s.at(name).get<int64_t>(); };
  int64_t highest = 0;
  for (const json& a : storages) {
    EXPECT_LE(number(a, "first"), number(a, "last")) << a;
    EXPECT_LE(number(a, "last"), static_cast<int64_t>(data.at("steps").size())) << a;
    if (a.at("kind") == "intermediate") highest = std::max(highest, number(a, "offset") + number(a, "bytes"));
    for (const json& b : storages) {
      if (&a == &b || a.at("buffer") != b.at("buffer")) continue;
      if (number(a, "first") > number(b, "last") || number(b, "first") > number(a, "last")) continue;
      // A result may take the memory of an operand that is read for the last time.
      const bool follows = number(a, "first") == number(b, "last") || number(b, "first") == number(a, "last");
      EXPECT_TRUE((follows && number(a, "offset") == number(b, "offset")) ||
                  number(a, "offset") + number(a, "bytes") <= number(b, "offset") ||
                  number(b, "offset") + number(b, "bytes") <= number(a, "offset"))
          << a << b;
    }
  }
  EXPECT_GT(highest, 0);
  EXPECT_LE(highest, data.at("memory").at("intermediates").get<int64_t>());
}

// Nothing is loaded from elsewhere, and no name of a model becomes a part of the page.
TEST_F(ProfileCli, ThePageStandsAlone) {
  testing::OnnxModel model;
  const std::string name = "</script><script>alert(1)</script>";
  model.graph.input("x", {2, 3}).node("Relu", {"x"}, {name}).node("Exp", {name}, {"y"}).output("y");
  const std::string page = path("page.html");
  const auto r = rlx("profile " + write("m.onnx", model.text()) + " --no-optimize --html " + page);
  ASSERT_EQ(r.code, 0) << r.err;
  std::string html = slurp(page);
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_FALSE(html.contains("<script>alert")) << "a name ended the script";
  EXPECT_TRUE(data_of(html).dump().contains("alert(1)"));
  EXPECT_FALSE(html.contains("\"THE PROFILE\""));
  // The name of SVG's namespace is an address that nobody asks.
  const std::string space = "http://www.w3.org/2000/svg";
  for (size_t at; (at = html.find(space)) != std::string::npos;) html.erase(at, space.size());
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "import("})
    EXPECT_FALSE(html.contains(outside)) << outside;
}

TEST_F(ProfileCli, LoopsAreTimedByTheirNode) {
  const std::string file = write("loop.rlx", R"(graph g {
  %x = input : f32[3]
  %n = constant {value=tensor i32[] fill 4}
  %y = loop(%n, none, %x) {carried=1, body=graph step {
    %i = input : i32[]
    %x = input : f32[3]
    %go = constant {value=tensor bool[] fill 1}
    %z = sin(%x)
    output go = %go
    output z = %z
  }}
  output y = %y
}
)");
  const std::string page = path("page.html");
  const auto r = rlx("profile " + file + " --repeat 1 --html " + page);
  ASSERT_EQ(r.code, 0) << r.err;
  const json data = data_of(slurp(page));
  EXPECT_GE(data.at("dispatches").size(), 4u);
  for (const json& d : data["dispatches"]) EXPECT_LT(d.at("step").get<size_t>(), data.at("steps").size());
}

TEST_F(ProfileCli, WrongCalls) {
  const std::string file = write("layers.rlx", kModel);
  expect_complaint(rlx("profile"), 2, "FILE");
  expect_complaint(rlx("profile " + file), 2, "--dim batch=N");
  expect_complaint(rlx("profile " + file + " --dim batch=2 --repeat 0"), 2, "--repeat is '0'");
  expect_complaint(rlx("profile " + file + " --dim batch=2 --rabbits"), 2, "--rabbits");
  expect_complaint(rlx("profile " + file + " --dim batch=2 --kernel matmul=warp"), 2, "warp");
  expect_complaint(rlx("profile " + path("none.onnx")), 1, "none.onnx");
  expect_complaint(rlx("profile " + file + " --dim batch=2 --html /no/such/folder/page.html"), 2,
                   "/no/such/folder/page.html");
  EXPECT_TRUE(rlx("profile --help").out.contains("Examples:"));
}

TEST_F(ProfileCli, EveryDeviceIsTimedOrSaysThatItCannot) {
  const std::string call = "profile " + write("layers.rlx", kModel) + " --dim batch=2 --repeat 1 --adapter ";
  for (const json& device : json::parse(rlx("devices --json").out)) {
    const auto r = rlx(call + std::to_string(device.at("index").get<int64_t>()));
    const json& features = device.at("features");
    if (std::ranges::count(features, "timestamp-query") > 0) {
      EXPECT_EQ(r.code, 0) << r.err;
    } else {
      expect_complaint(r, 1, "has no timestamps");
    }
  }
}

}  // namespace
}  // namespace rlx
