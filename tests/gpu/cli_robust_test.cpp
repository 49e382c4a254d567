// What the program says and leaves behind when a file is broken, the disk is full or it is interrupted.
#include <gtest/gtest.h>

#include "tests/gpu/cli_harness.h"
#include "tests/support/paths.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;

class CliRobust : public CliTest {
 protected:
  static std::string source(const std::string& path) { return in_source(path); }

  // The command that runs the program while `disk` is a file system with a few bytes left, and then lists
  // what is on it. Empty where this process may not mount one.
  std::string with_full_disk() {
    const std::string disk = path("disk");
    fs::create_directories(disk);
    // In a changed root, which the launcher has made private already, it cannot be made so again.
    const std::string unshare = "unshare --mount --propagation ";
    const bool can_be_private = std::system((unshare + "private true 2>/dev/null").c_str()) == 0;
    const std::string mount = formatted("{}{} sh -c 'mount -t tmpfs -o size=16k tmpfs \"{}\"", unshare,
                                        can_be_private ? "private" : "unchanged", disk);
    if (std::system((mount + "' 2>/dev/null").c_str()) != 0) return "";
    return formatted(
        "{} && head -c 16384 /dev/zero >\"{}/filler\"; \"$0\" \"$@\"; code=$?; ls -A \"{}\" >\"{}\"; exit "
        "$code'",
        mount, disk, disk, path("left"));
  }
};

TEST_F(CliRobust, BrokenSoundIsASentence) {
  expect_complaint(rlx("transcribe " + path("none.wav")), 1, "none.wav");
  expect_complaint(rlx("transcribe " + write("empty.wav", "")), 1, "empty.wav: the file is empty");
  expect_complaint(rlx("transcribe " + write("text.wav", "hello, world")), 1, "it is not a WAV file");
  const std::string start("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0", 24);
  expect_complaint(rlx("transcribe " + write("cut.wav", start)), 1, "the file ends after 4");
  expect_complaint(rlx("transcribe " + path("")), 1, "not a regular file");
}

TEST_F(CliRobust, PicturesThatAreCutAreSentences) {
  const std::string png = slurp(source("examples/ocr/cafe.png"));
  for (const size_t n : {size_t{20}, size_t{2000}, png.size() / 2}) {
    expect_complaint(rlx("ocr " + write("cut.png", png.substr(0, n)) + " --boxes " + path("boxes.png")), 1,
                     "cut.png: the PNG file is broken");
  }
  expect_complaint(rlx("ocr " + write("cut.jpg", "\xff\xd8\xff\xe0")), 1, "cut.jpg: the JPEG file is broken");
  EXPECT_FALSE(fs::exists(path("boxes.png")));
}

TEST_F(CliRobust, AnEmptyModelIsASentenceInEveryCommand) {
  const std::string model = write("empty.onnx", "");
  for (const char* command : {"info", "plan", "run", "verify", "profile", "bench"})
    expect_complaint(rlx(command + (" " + model)), 1, "empty.onnx: the file is empty");
  expect_complaint(rlx("convert " + model + " -o " + path("made.rlx")), 1, "empty.onnx: the file is empty");
  EXPECT_FALSE(fs::exists(path("made.rlx")));
}

// Each command that writes files: a sentence that names the file, and nothing of it is left.
TEST_F(CliRobust, AFullDiskIsASentence) {
  const std::string full = with_full_disk();
  if (full.empty()) GTEST_SKIP() << "no file system can be mounted here";
  const std::string model = source("examples/mlp.rlx") + " --dim batch=4 ";
  const std::string network = source("tests/fixtures/onnx/architectures/resnet_dynamic_f32/model.onnx ");
  const auto expect_nothing_left = [&](const std::string& arguments, const std::string& file) {
    SCOPED_TRACE(arguments);
    expect_complaint(rlx(arguments + path("disk/" + file), full), 1,
                     "cannot be written: No space left on device");
    EXPECT_EQ(slurp(path("left")), "filler\n");
  };
  expect_nothing_left("run " + model + "--trace ", "trace.json");
  expect_nothing_left("profile " + model + "--trace ", "trace.json");
  expect_nothing_left("profile " + model + "--html ", "page.html");
  expect_nothing_left("bench " + model + "--json-file ", "bench.json");
  expect_nothing_left("info " + network + "--json-file ", "info.json");
  expect_nothing_left("convert " + network + "-o ", "model.rlx");
  expect_nothing_left(formatted("conformance {} --suite microsoft --only fast_gelu_bias --json-file ",
                                source("tests/fixtures/onnx")),
                      "tests.json");
  // A folder is not a file: an empty one may stay.
  fs::create_directories(path("disk"));
  expect_complaint(rlx("run " + model + "--output-dir " + path("disk"), full), 1,
                   "probs.npy' cannot be written: No space left on device");
  EXPECT_EQ(slurp(path("left")), "filler\n");
  // Compiled shaders are only kept where there is room for them.
  EXPECT_EQ(rlx("run " + model, full + " env RLX_CACHE_DIR=" + path("disk/cache")).code, 0);
}

TEST_F(CliRobust, OutputThatNobodyTakesIsAnError) {
  const std::string command = formatted("'{}' ops >/dev/full 2>'{}'", cli_path(), path("err"));
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_EQ(slurp(path("err")), "rlx: the output could not be written\n");
}

// It is interrupted when the folder for its results is there, in the middle of a billion runs.
TEST_F(CliRobust, InterruptedRunsLeaveNothing) {
  for (const auto& [signal, code] : {std::pair("INT", 130), std::pair("TERM", 143)}) {
    const std::string folder = path(std::string("out") + signal);
    const std::string script = formatted(
        "env --default-signal={0} '{1}' run '{2}' --dim batch=64 --repeat 1000000000 --output-dir '{3}' "
        ">/dev/null "
        "2>'{4}' & run=$!; while [ ! -d '{3}' ] && kill -0 $run; do sleep 0.05; done; kill -{0} $run; wait "
        "$run",
        signal, cli_path(), source("examples/mlp.rlx"), folder, path("err"));
    EXPECT_EQ(WEXITSTATUS(std::system(script.c_str())), code);
    EXPECT_EQ(slurp(path("err")), "rlx: interrupted; nothing half-written is left\n");
    EXPECT_TRUE(fs::is_empty(folder));
  }
}

}  // namespace
}  // namespace rlx::testing
