// Reading and writing safetensors files, the usual container of weights.
//
//   const auto file = rlx::SafetensorsFile::open("model.safetensors");
//   for (const auto& info : file.tensors()) exe.set_param(info.name, info.dtype, file.bytes(info.name));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/export.h"
#include "rlx/tensor.h"

RLX_EXPORT_BEGIN
namespace rlx {

// A file that has been checked as a whole: every tensor lies inside the data, has exactly the bytes that
// its shape and type need, and the tensors cover the data without overlap or hole. Copies share the contents.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    uint64_t begin = 0;  // in the data section
    uint64_t end = 0;
  };

  // Maps the file; ErrorKind::invalid_file names the file, the tensor and the numbers that are wrong. The
  // file must not change while this object lives.
  static SafetensorsFile open(const std::string& path);
  // The same for bytes in memory; messages call them `name`.
  static SafetensorsFile parse(std::vector<std::byte> bytes, std::string name = "safetensors data");

  const std::vector<Entry>& tensors() const;  // in the order of the data
  const std::map<std::string, std::string, std::less<>>& metadata() const;
  const Entry* find(std::string_view name) const;

  // The stored bytes, in the order of a host tensor.
  std::span<const std::byte> bytes(std::string_view name) const;
  // A view of the file's contents, which it keeps mapped: nothing is copied.
  Tensor tensor(std::string_view name) const;
  NamedTensors all() const;

  struct Impl;

 private:
  explicit SafetensorsFile(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const;  // an error in what was moved from
  const Entry& require(std::string_view name) const;
  std::shared_ptr<const Impl> impl_;
};

// The bytes of a safetensors file. Complex tensors have no type there and are an error.
std::vector<std::byte> to_safetensors(const NamedTensors& tensors,
                                      const std::map<std::string, std::string, std::less<>>& metadata = {});
// The file appears when it is complete.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string, std::less<>>& metadata = {});

}  // namespace rlx
RLX_EXPORT_END
