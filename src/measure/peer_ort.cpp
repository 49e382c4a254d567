#include "measure/peer_ort.h"

#include <cmath>
#include <filesystem>
#include <sstream>

#include "base/fail.h"
#include "base/flags.h"
#include "base/json.h"
#include "import/npy.h"
#include "import/onnx/model_file.h"

namespace rlx::measure {
namespace {

constexpr std::string_view kMark = "@rlx ";  // before the lines that are meant for us

// The names that the file has for sizes, which ONNX Runtime may then treat as numbers, as rlx does.
Json sizes_of(const OrtWork& work) {
  Json out = Json::object();
  const onnx::ModelFile model = onnx::ModelFile::open(work.file);
  for (const onnx::ValueInfo& info : model.model.graph.inputs) {
    const auto given = work.inputs.find(info.name);
    if (given == work.inputs.end() || !info.shape) continue;
    for (size_t axis = 0; axis < info.shape->size(); ++axis) {
      const std::string_view name = (*info.shape)[axis].param;
      if (!name.empty()) out.set(name, given->second.shape()[axis]);
    }
  }
  return out;
}

Json job(OrtProvider provider, const OrtWork& work, const NamedTensors& outputs,
         const TemporaryFolder& folder) {
  int64_t files = 0;
  const auto written = [&](const NamedTensors& tensors) {
    Json out = Json::object();
    for (const auto& [name, tensor] : tensors) {
      const std::string path = folder.file(formatted("{}.npy", files++));
      write_npy(path, tensor, onnx::type_in_file(work.types, name, tensor.dtype()));
      out.set(name, path);
    }
    return out;
  };
  return Json::object({{"package", ort_package()},
                       {"provider", provider == OrtProvider::webgpu ? "webgpu" : "cpu"},
                       {"model", std::filesystem::absolute(work.file).string()},
                       {"profile", folder.file("profile")},
                       {"inputs", written(work.inputs)},
                       {"outputs", written(outputs)},
                       {"dims", sizes_of(work)}});
}

std::unique_ptr<ChildProcess> start_node(const TemporaryFolder& folder) {
  const std::span<const std::byte> script = peer_ort_mjs();
  const std::string text(reinterpret_cast<const char*>(script.data()), script.size());
  try {
    // The flag: the binding cannot read the Float16Array of newer versions of node.
    return std::make_unique<ChildProcess>(
        std::vector<std::string>{"node", "--no-js-float16array", "--input-type=module", "--eval", text},
        std::map<std::string, std::string>{}, folder.file("stderr"));
  } catch (const Error& e) {
    fail(ErrorKind::unsupported, "--peer: ONNX Runtime needs node (the Debian package nodejs): {}", e.what());
  }
}

}  // namespace

// tools/peers.sh puts both there.
std::string ort_package() { return cache_folder() + "/peers/onnxruntime-node-1.30.0"; }
std::string ort_case_file(std::string_view name) {
  return formatted("{}/peers/cases/{}.onnx", cache_folder(), name);
}

void check_ort() {
  if (std::filesystem::exists(ort_package() + "/package.json")) return;
  fail(ErrorKind::unsupported,
       "--peer: there is no ONNX Runtime in {}; in a checkout of the sources, ./rlx bench --peer ort "
       "downloads it once, with npm",
       ort_package());
}

OrtPeer::OrtPeer(OrtProvider provider, const OrtWork& work, const NamedTensors& outputs) : file_(work.file) {
  node_ = start_node(folder_);
  std::istringstream reply(ask(job(provider, work, outputs, folder_).text(), "ready"));
  std::string difference;  // may be nan, which streams do not read
  reply >> whole_ >> dispatches_ >> difference >> version_;
  if (!reply)
    fail(ErrorKind::internal, "--peer: node answers something else than was agreed: '{}'", reply.str());
  difference_ = std::strtod(difference.c_str(), nullptr);
}

Measured OrtPeer::measure(double seconds) {
  std::istringstream reply(ask(formatted("{}", seconds), "measured"));
  Measured out;
  reply >> out.wall_ms >> out.cpu_ms >> out.runs;
  if (!reply)
    fail(ErrorKind::internal, "--peer: node answers something else than was agreed: '{}'", reply.str());
  return out;
}

// What the program answers after `word`. Other lines are what libraries print.
std::string OrtPeer::ask(const std::string& line, std::string_view word) {
  node_->write_line(line);
  while (const std::optional<std::string> answer = node_->read_line()) {
    if (!answer->starts_with(kMark)) continue;
    const std::string_view said = std::string_view(*answer).substr(kMark.size());
    if (said.starts_with(word)) return std::string(said.substr(word.size()));
    fail(ErrorKind::unsupported, "{}: ONNX Runtime says: {}", file_, said.substr(said.find(' ') + 1));
  }
  const std::string why = node_->last_complaint();
  fail(ErrorKind::unsupported, "{}: ONNX Runtime ended early{}{}", file_, why.empty() ? "" : ": ", why);
}

}  // namespace rlx::measure
