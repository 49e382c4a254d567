// How much memory a large ONNX model takes besides its file and what the device holds: a small part of its
// weights, however they are stored.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <protozero/pbf_writer.hpp>
#include <thread>

#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/executable.h"
#include "rlx/onnx.h"
#include "rlx/tensor.h"
#include "tests/support/devices.h"
#include "tests/support/full.h"
#include "tests/support/onnx_model.h"

namespace rlx::testing {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;

// Memory of this process that is no mapped file, in bytes.
int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  int64_t total = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssShmem:"))
      total += 1024 * std::stoll(line.substr(line.find(':') + 1));
  }
  return total;
}

// The most memory that an action takes, besides what the device holds: on a software device that is memory of
// this process too.
int64_t most_memory(const Device& device, const std::function<void()>& action) {
  malloc_trim(0);
  const auto now = [&] { return own_memory() - static_cast<int64_t>(device.memory().bytes); };
  const int64_t before = now();
  std::atomic<int64_t> most = before;
  std::jthread watcher([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most = std::max(most.load(), now());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  action();
  watcher.request_stop();
  watcher.join();
  return most - before;
}

constexpr int64_t kColumns = 1024;
constexpr int64_t kWeightBytes = 16 << 20;  // of one in the file

struct Layout {
  std::string name;
  ElementType type;
  bool external;
  bool fill = false;  // made by a node, and nowhere in the file
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

// Sums a row of each weight. The first number of each is 1, all others are 0: files have holes.
class Model {
 public:
  Model(const Layout& layout, int64_t count)
      : layout_(layout),
        rows_(kWeightBytes * 8 / onnx::bits_of(layout.type) / kColumns),
        folder_(fs::temp_directory_path() / ("rlx_onnx_memory_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    OnnxGraph graph;
    graph.input("at", {1}, ElementType::int64);
    for (int64_t i = 0; i < count; ++i) add_weight(graph, i);
    graph.node("Identity", {"s" + std::to_string(count - 1)}, {"y"}).output("y");
    for (int64_t i = 0; i < count && !layout.fill; ++i) tensors_.push_back(tensor(i));
    write(graph.message());
    if (layout.external) write_external(count);
  }
  ~Model() { fs::remove_all(folder_); }
  std::string path() const { return (folder_ / "model.onnx").string(); }

 private:
  void add_weight(OnnxGraph& graph, int64_t i) const {
    const std::string n = std::to_string(i);
    if (layout_.fill) {
      graph.node("Constant", {}, {"dims" + n}, {{"value_ints", std::vector<int64_t>{rows_, kColumns}}});
      graph.node("ConstantOfShape", {"dims" + n}, {"w" + n}, {{"value", Tensor::of({1}, {0.5F})}});
      // Of all of it: a row would be found to be a fill as well.
      graph.node("Mul", {"w" + n, "w" + n}, {"v" + n});
    }
    graph.node("Gather", {(layout_.fill ? "v" : "w") + n, "at"}, {"row" + n});
    graph.node("Cast", {"row" + n}, {"f" + n}, {{"to", 1}});
    graph.node(i == 0 ? "Identity" : "Add",
               i == 0 ? std::vector<std::string>{"f0"}
                      : std::vector<std::string>{"s" + std::to_string(i - 1), "f" + n},
               {"s" + n});
  }

  // Without its raw data, which is a hole in the file.
  std::string tensor(int64_t i) const {
    std::string out;
    pbf_writer fields(out);
    const int64_t dims[] = {rows_, kColumns};
    fields.add_packed_int64(1, std::begin(dims), std::end(dims));
    fields.add_int32(2, static_cast<int32_t>(layout_.type));
    fields.add_string(8, "w" + std::to_string(i));
    if (!layout_.external) {
      out += '\x4a';  // raw_data
      protozero::add_varint_to_buffer(&out, static_cast<uint64_t>(kWeightBytes));
      return out;
    }
    fields.add_int32(14, 1);
    const std::pair<std::string, std::string> entries[] = {{"location", "weights.bin"},
                                                           {"offset", std::to_string(i * kWeightBytes)},
                                                           {"length", std::to_string(kWeightBytes)}};
    for (const auto& [key, value] : entries) {
      pbf_writer entry(fields, 13);
      entry.add_string(1, key);
      entry.add_string(2, value);
    }
    return out;
  }

  void write(const std::string& graph) const {
    uint64_t size = graph.size();
    std::vector<std::string> heads;
    const uint64_t hole = layout_.external ? 0 : static_cast<uint64_t>(kWeightBytes);
    for (const std::string& t : tensors_) {
      std::string& head = heads.emplace_back("\x2a");  // an initializer
      protozero::add_varint_to_buffer(&head, t.size() + hole);
      head += t;
      size += head.size() + hole;
    }
    std::string begin;
    pbf_writer model(begin);
    model.add_int64(1, 10);
    model.add_message(8, std::string("\x10\x15"));  // opset 21
    begin += '\x3a';
    protozero::add_varint_to_buffer(&begin, size);
    std::ofstream out(path(), std::ios::binary);
    out << begin << graph;
    for (const std::string& head : heads) {
      out << head;
      if (hole > 0) write_weight(out);
    }
  }
  void write_external(int64_t count) const {
    std::ofstream out(folder_ / "weights.bin", std::ios::binary);
    for (int64_t i = 0; i < count; ++i) write_weight(out);
  }
  void write_weight(std::ofstream& out) const {
    const double wide = 1;
    const float narrow = 1;
    const char half_byte = 1;
    const auto put = [&](const auto& one) {
      out.write(reinterpret_cast<const char*>(&one), sizeof one);
      out.seekp(kWeightBytes - static_cast<std::streamoff>(sizeof one) - 1, std::ios::cur);
      out.put(0);
    };
    layout_.type == ElementType::float64 ? put(wide)
    : layout_.type == ElementType::int4  ? put(half_byte)
                                         : put(narrow);
  }

  Layout layout_;
  int64_t rows_;
  fs::path folder_;
  std::vector<std::string> tensors_;
};

class OnnxMemory : public ::testing::TestWithParam<Layout> {};

TEST_P(OnnxMemory, IsASmallPartOfTheWeights) {
  const int64_t count = full_run() ? 32 : 4;  // half a gigabyte, or little
  const Model file(GetParam(), count);
  const Device& device = full_device();
  Tensor y;
  std::optional<Executable> exe;  // lives on: a driver takes its time to give memory back
  const int64_t most = most_memory(device, [&] {
    const onnx::Model model = onnx::load(file.path());
    exe = compile(model.graph, device);
    exe->set_params(model.weights);
    y = exe->run({{"at", Tensor::of<int64_t>({1}, {0})}}).at("y");
  });
  EXPECT_EQ(y.real(0), GetParam().fill ? 0.25 * static_cast<double>(count) : static_cast<double>(count));
  EXPECT_EQ(y.real(kColumns - 1), GetParam().fill ? 0.25 * static_cast<double>(count) : 0);
  EXPECT_LE(most, 3 * count * kWeightBytes / 10)
      << (most >> 20) << " MiB beyond the device's, for weights of " << (count * kWeightBytes >> 20)
      << " MiB";
}

INSTANTIATE_TEST_SUITE_P(Layouts, OnnxMemory,
                         ::testing::Values(Layout{"f32_raw", ElementType::float32, false},
                                           Layout{"f32_external", ElementType::float32, true},
                                           Layout{"f64_raw", ElementType::float64, false},
                                           Layout{"int4_external", ElementType::int4, true},
                                           Layout{"fill", ElementType::float32, false, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rlx::testing
