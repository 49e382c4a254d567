// Nothing is lost: what the program writes replaces neither what it reads nor files of other kinds, and `-`
// is standard input and output.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "rlx/safetensors.h"
#include "tests/gpu/cli_models.h"
#include "vision/image.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class CliFiles : public CliTest {
 protected:
  // A second of silence.
  std::string write_wav(const std::string& name) {
    const auto word = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
    return write(name, "RIFF" + word(36 + 16000) + "WAVEfmt " + word(16) + word(0x00010001) + word(8000) +
                           word(16000) + word(0x00100002) + "data" + word(16000) + std::string(16000, '\0'));
  }
  std::string write_picture(const std::string& name) {
    vision::write_png(path(name), {.width = 2, .height = 2, .rgb = std::vector<uint8_t>(12, 200)});
    return path(name);
  }

  // The call is refused, and every file of the folder is as before.
  void expect_refused(const std::string& call, const std::string& part, const std::string& file) {
    SCOPED_TRACE(call);
    const std::string before = slurp(file);
    expect_complaint(rlx(call), 2, part);
    EXPECT_TRUE(slurp(file) == before) << file << " has changed";
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
  }
};

TEST_F(CliFiles, AnOutputThatIsAnInputIsRefused) {
  const std::string wav = write_wav("a.wav");
  const std::string model = write("small.rlx", kSmall);
  const std::string run = model + " --dim batch=2 ";
  const std::string picture = write_picture("a.png");
  const std::string onnx = write("a.onnx", linear_model());
  expect_refused("spectrogram " + wav + " -o " + wav, "is also an input", wav);
  expect_refused("convert " + onnx + " -o " + onnx, "is also an input", onnx);
  expect_refused("convert " + model + " -o " + model, "is also an input", model);
  expect_refused("info " + onnx + " --json-file " + onnx, "is also an input", onnx);
  expect_refused("ocr " + picture + " --boxes " + picture, "is also an input", picture);
  expect_refused("transcribe " + wav + " --json-file " + wav, "is also an input", wav);
  expect_refused("splat " + picture + " -o " + picture, "is also an input", picture);
  for (const char* call : {"run {}--trace ", "run {}--json-file ", "profile {}--html ", "profile {}--trace ",
                           "profile {}--json-file ", "verify {}--json-file ", "plan {}--json-file ",
                           "bench {}--json-file ", "bench {}--growth --plot "}) {
    expect_refused(std::vformat(call, std::make_format_args(run)) + model, "is also an input", model);
  }
  expect_complaint(rlx("run " + run, "RLX_TRACE_PERFETTO=" + model), 2, "RLX_TRACE_PERFETTO: the file");
  EXPECT_EQ(slurp(model), kSmall);
  // By whatever name.
  fs::create_symlink(wav, path("link.png"));
  fs::create_hard_link(wav, path("hard.png"));
  expect_refused("spectrogram " + wav + " -o " + path("link.png"), formatted("also an input, '{}'", wav),
                 wav);
  expect_refused("spectrogram " + wav + " -o " + path("hard.png"), formatted("also an input, '{}'", wav),
                 wav);
  expect_refused("spectrogram - <" + wav + " -o " + path("link.png"), "is also an input", wav);
  expect_refused(
      formatted("spectrogram {0}/../{1}/a.wav -o {2}", folder_.string(), folder_.filename().string(), wav),
      "is also an input", wav);
}

TEST_F(CliFiles, FilesOfInputsAndWeightsAreInputsToo) {
  const std::string model = write("small.rlx", kSmall);
  fs::create_directories(path("out"));
  const std::string x = write("out/y.npy", pattern({2, 6}, 1));
  expect_refused("run " + model + " --input x=" + x + " --output-dir " + path("out"), "is also an input", x);
  const std::string text = write("out/z.npy", "not an array");
  const std::string other = write("z.rlx", "graph g {\n  %x = input : f32[2]\n  output z = %x\n}\n");
  expect_refused("run " + other + " --output-dir " + path("out"), "exists and is not an npy file", text);
}

TEST_F(CliFiles, TwoOutputsAreTwoFiles) {
  const std::string run = "run " + write("small.rlx", kSmall) + " --dim batch=2 ";
  const std::string both = path("both.json");
  expect_complaint(rlx(run + "--trace " + both + " --json-file " + both), 2,
                   "--trace and --json-file would write the same file");
  expect_complaint(rlx(run + "--trace " + both + " --json-file " + folder_.string() + "/./both.json"), 2,
                   "would write the same file");
  expect_complaint(rlx(run + "--trace - --json"), 2,
                   "--trace and --json cannot both write to standard output");
  EXPECT_FALSE(fs::exists(both));
  // Devices and pipes hold nothing that could be lost.
  EXPECT_EQ(rlx(run + "--trace /dev/null --json-file /dev/null").code, 0);
}

TEST_F(CliFiles, FilesOfOtherKindsAreNotOverwritten) {
  const std::string model = write("small.rlx", kSmall);
  const std::string plan = "plan " + model + " --dim batch=2 --json-file ";
  for (const auto& [name, text] :
       {std::pair("notes", "milk, bread"), std::pair("photo", "\x89PNG\r\n\x1a\n..."),
        std::pair("list.txt", "1 2 3\n")}) {
    const std::string file = write(name, text);
    expect_refused(plan + file, "exists and is not JSON", file);
  }
  EXPECT_EQ(rlx(plan + write("empty", "")).code, 0) << "nothing is lost";
  EXPECT_EQ(rlx(plan + path("empty")).code, 0) << "a report may be written again";
  EXPECT_TRUE(json::parse(slurp(path("empty"))).contains("dispatches"));
  const std::string wav = write_wav("a.wav");
  expect_refused("spectrogram " + wav + " -o " + write("page", "<html>"), "exists and is not a PNG",
                 path("page"));
  expect_refused("convert " + write("a.onnx", linear_model()) + " -o " + write("b", "int main() {}"),
                 "exists and is not the text of a graph", path("b"));
  write("c.safetensors", "something else");
  expect_refused("convert " + path("a.onnx") + " -o " + path("c.rlx"), "exists and is not a safetensors file",
                 path("c.safetensors"));
  EXPECT_FALSE(fs::exists(path("c.rlx")));
}

TEST_F(CliFiles, NamesThatPromiseSomethingElseAreRefused) {
  const std::string wav = write_wav("a.wav");
  const std::string plan = "plan " + write("small.rlx", kSmall) + " --dim batch=2 --json-file ";
  for (const char* ending : {"jpg", "JPEG", "webp", "json"}) {
    const std::string out = path(std::string("out.") + ending);
    expect_complaint(rlx("spectrogram " + wav + " -o " + out), 2, "what is written is a PNG picture");
    EXPECT_FALSE(fs::exists(out));
  }
  expect_complaint(rlx(plan + path("new.onnx")), 2, "what is written is JSON, but the name");
  expect_complaint(rlx("splat --test-scene 10 -o " + path("a.jpg")), 2, "ends in .jpg");
  EXPECT_EQ(rlx(plan + path("no-ending")).code, 0);
  EXPECT_EQ(rlx(plan + path("today.log")).code, 0);
}

TEST_F(CliFiles, JsonTakesNoFile) {
  const std::string model = write("a.onnx", linear_model());
  const std::string other = write("b.onnx", linear_model());
  expect_refused("info --json " + other + " " + model, "--json takes no value, but", other);
  expect_refused("info " + model + " --json " + path("out.json"), "--json-file FILE", model);
  expect_refused("info " + model + " --json -", "--json takes no value, but '-' follows it", model);
  expect_complaint(rlx("bench add16 --json -"), 2, "--json takes no value");
  expect_refused("info " + model + " --json=" + other, "--json takes no value", other);
}

TEST_F(CliFiles, DashIsStandardInputAndOutput) {
  const std::string model = write("a.onnx", linear_model());
  const std::string named = rlx("info " + model).out;
  const auto expect_same = [&](const CliResult& r) {
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out.substr(r.out.find("\n")), named.substr(named.find("\n")));
    EXPECT_TRUE(r.out.contains("standard input")) << r.out;
  };
  expect_same(rlx("info - <" + model));
  expect_same(rlx("info -", "cat " + model + " |"));
  expect_complaint(rlx("info -", "printf nothing |"), 1, "standard input");
  expect_complaint(rlx("ocr -", "printf '' |"), 1, "standard input: the file is empty");
  expect_complaint(rlx("transcribe - <" + model), 1, "standard input: it is not a WAV file");

  const std::string x = write("x.npy", pattern({3, 4}, 1));
  const CliResult run = rlx("run " + model + " --input x=- --json", "cat " + x + " |");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out).at("outputs")[0].at("shape"), (json{3, 32}));
  expect_complaint(rlx("run - --input x=- <" + model), 2, "'-' is given twice");

  const CliResult text = rlx("convert " + model + " -o -");
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(text.out.starts_with("graph ")) << text.out;
  EXPECT_TRUE(text.err.contains("params of the model are not written")) << text.err;
  const CliResult picture = rlx("spectrogram - -o -", "cat " + write_wav("a.wav") + " |");
  ASSERT_EQ(picture.code, 0) << picture.err;
  const vision::Image image =
      vision::decode_image(std::as_bytes(std::span(picture.out.data(), picture.out.size())), "the picture");
  EXPECT_GT(image.width, 100);
}

// The name of the weights is not typed by anyone.
TEST_F(CliFiles, WeightsOfAnotherModelStayWhereTheyAre) {
  const std::string onnx = write("a.onnx", linear_model());
  save_safetensors(path("a.safetensors"), {{"other", Tensor::scalar(1.0f)}});
  expect_refused("convert " + onnx + " -o " + path("a.rlx"), "has other tensors than this model (other)",
                 path("a.safetensors"));
  EXPECT_FALSE(fs::exists(path("a.rlx")));
  fs::remove(path("a.safetensors"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rlx("convert " + onnx + " -o " + path("a.rlx")).code, 0);  // again
}

TEST_F(CliFiles, AnEmptyNameIsNoName) {
  const std::string run = "run " + write("small.rlx", kSmall) + " --dim batch=2 ";
  for (const std::string flag : {"--output-dir", "--json-file", "--trace", "--load"})
    expect_complaint(rlx(run + flag + " ''"), 2, flag + " is ''");
  expect_complaint(rlx("ocr " + write_picture("a.png") + " --boxes ''"), 2, "--boxes is ''");
}

TEST_F(CliFiles, AFullDiskIsNoticed) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full here";
  for (const char* call :
       {"ops", "ops --json", "ops --markdown", "splat --test-scene 100 --size 128x128 -o -"}) {
    // What the harness adds to the line is for the `exit`.
    const CliResult r = rlx(formatted("{} >/dev/full 2>{}; exit $?", call, path("err")));
    EXPECT_EQ(r.code, 1) << call;
    EXPECT_TRUE(slurp(path("err")).contains("could not be written")) << call;
  }
}

}  // namespace
}  // namespace rlx::testing
