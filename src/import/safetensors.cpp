// The layout: 8 bytes with the length of the header, the header (JSON), the data. The header maps names to
// {"dtype", "shape", "data_offsets": [begin, end]}; "__metadata__" maps strings to strings.
#include "rlx/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/border.h"
#include "base/fail.h"
#include "import/file_bytes.h"
#include "import/safetensors_writer.h"

namespace rlx {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the format's own reader
constexpr int kMaxDepth = 3;                       // the header, an entry, its lists
constexpr std::string_view kMetadata = "__metadata__";

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypes[] = {
    {DType::f32, "F32"}, {DType::f16, "F16"}, {DType::bf16, "BF16"},
    {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::u32, "U32"},
    {DType::i8, "I8"},   {DType::u8, "U8"},   {DType::bool_, "BOOL"},
};

// How a message shows a text from the file: shortened, and without control characters.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text.size() > 80 ? out + "..." : out;
}

class HeaderReader {
 public:
  HeaderReader(std::string_view file, uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  std::vector<SafetensorsFile::Entry> tensors;
  std::map<std::string, std::string, std::less<>> metadata;

  void read(std::string_view text) {
    // Padding after the object is white space, by the format; anything before it is not.
    if (!text.starts_with('{')) wrong("the header does not begin with '{{'");
    const json header = parse(text);
    if (!header.is_object()) wrong("the header is not a JSON object");
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        read_metadata(value);
      } else {
        tensors.push_back(read_entry(name, value));
      }
    }
    std::ranges::stable_sort(tensors, {}, [](const auto& t) { return std::pair(t.begin, t.end); });
    check_coverage();
  }

 private:
  template <class... Args>
  [[noreturn]] void wrong(std::format_string<Args...> message, Args&&... args) const {
    fail(ErrorKind::invalid_file, "{}: {}", file_, formatted(message, std::forward<Args>(args)...));
  }
  template <class... Args>
  [[noreturn]] void wrong_tensor(std::string_view name, std::format_string<Args...> message,
                                 Args&&... args) const {
    wrong("the tensor '{}' {}", shown(name), formatted(message, std::forward<Args>(args)...));
  }

  json parse(std::string_view text) const {
    std::vector<std::set<std::string>> keys;  // seen in the objects that are open, by depth
    const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
        if (depth >= kMaxDepth) wrong("the header is nested more than {} deep", kMaxDepth);
        keys.resize(static_cast<size_t>(depth) + 1);
        keys.back().clear();
      } else if (event == json::parse_event_t::key) {
        const auto& key = parsed.get_ref<const std::string&>();
        keys.resize(static_cast<size_t>(depth));
        if (!keys.back().insert(key).second) wrong("the header has the key '{}' twice", shown(key));
      }
      return true;
    };
    try {
      return json::parse(text, watch);
    } catch (const json::exception& e) {
      const auto* at = dynamic_cast<const json::parse_error*>(&e);
      wrong("the header is not valid JSON (at byte {} of {})", at ? at->byte : 0, text.size());
    }
  }

  void read_metadata(const json& value) {
    if (!value.is_object()) wrong("{} is not a JSON object", kMetadata);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) wrong("the entry '{}' of {} is not a string", shown(key), kMetadata);
      metadata[key] = text.get<std::string>();
    }
  }

  SafetensorsFile::Entry read_entry(const std::string& name, const json& value) const {
    if (name.empty()) wrong("a tensor has an empty name");
    if (!value.is_object()) wrong_tensor(name, "is not a JSON object");
    for (const auto& [key, unused] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        wrong_tensor(name, "has the unknown key '{}'", shown(key));
      }
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!value.contains(key)) wrong_tensor(name, "has no '{}'", key);
    }
    SafetensorsFile::Entry entry{.name = name, .dtype = read_dtype(name, value["dtype"])};
    uint64_t bytes = host_bytes(entry.dtype);
    const json& shape = value["shape"];
    if (!shape.is_array()) wrong_tensor(name, "has a shape that is not a list");
    for (const json& dim : shape) {
      const uint64_t size = read_number(name, "shape", dim);
      if (size > static_cast<uint64_t>(INT64_MAX))
        wrong_tensor(name, "has the dim {}, more than 63 bits can hold", size);
      entry.shape.push_back(static_cast<int64_t>(size));
      if (__builtin_mul_overflow(bytes, size, &bytes)) {
        wrong_tensor(name, "has the shape {}, whose size does not fit in 64 bits", shape.dump());
      }
    }
    read_offsets(entry, value["data_offsets"], bytes);
    return entry;
  }

  void read_offsets(SafetensorsFile::Entry& entry, const json& offsets, uint64_t bytes) const {
    if (!offsets.is_array() || offsets.size() != 2) {
      wrong_tensor(entry.name, "needs data_offsets of two numbers, [begin, end]");
    }
    entry.begin = read_number(entry.name, "data_offsets", offsets[0]);
    entry.end = read_number(entry.name, "data_offsets", offsets[1]);
    if (entry.begin > entry.end) {
      wrong_tensor(entry.name, "ends at {}, before its beginning at {}", entry.end, entry.begin);
    }
    if (entry.end > data_bytes_) {
      wrong_tensor(entry.name, "ends at byte {}, but the data has only {} bytes", entry.end, data_bytes_);
    }
    if (entry.end - entry.begin != bytes) {
      wrong_tensor(entry.name, "is {}{}, {} bytes, but its offsets {} to {} hold {}", to_string(entry.dtype),
                   json(entry.shape).dump(), bytes, entry.begin, entry.end, entry.end - entry.begin);
    }
  }

  DType read_dtype(std::string_view name, const json& value) const {
    if (!value.is_string()) wrong_tensor(name, "has a dtype that is not a string");
    const auto& text = value.get_ref<const std::string&>();
    const auto it = std::ranges::find(kTypes, text, &TypeName::name);
    if (it != std::end(kTypes)) return it->dtype;
    const std::string known = joined(kTypes, &TypeName::name);
    wrong_tensor(name, "has the dtype '{}', which is not supported (supported: {})", shown(text), known);
  }

  uint64_t read_number(std::string_view name, std::string_view key, const json& value) const {
    if (!value.is_number_unsigned()) {
      wrong_tensor(name, "has {} in its {}, where a whole number from 0 to 2^64-1 is needed",
                   shown(value.dump()), key);
    }
    return value.get<uint64_t>();
  }

  // Sorted by offset, each tensor must begin where the one before ends. Empty tensors take no room and may
  // be anywhere but inside another tensor.
  void check_coverage() const {
    uint64_t at = 0;
    std::string_view before;
    for (const SafetensorsFile::Entry& t : tensors) {
      if (t.begin < at) {
        wrong_tensor(t.name, "begins at byte {}, inside '{}', which ends at {}", t.begin, shown(before), at);
      }
      if (t.begin > at)
        wrong_tensor(t.name, "begins at byte {}, but the data before it ends at {}", t.begin, at);
      at = t.end;
      before = t.name;
    }
    if (at != data_bytes_) wrong("the data has {} bytes, but the tensors end at byte {}", data_bytes_, at);
  }

  std::string_view file_;
  uint64_t data_bytes_;
};

uint64_t read_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

struct SafetensorsFile::Impl {
  Impl(std::string file_name, auto&& source)
      : name(std::move(file_name)), file(std::forward<decltype(source)>(source)) {
    const std::span<const std::byte> all = file.bytes();
    if (all.size() < kLengthBytes) {
      fail(ErrorKind::invalid_file, "{}: the file has {} bytes; the length of the header alone takes {}",
           name, all.size(), kLengthBytes);
    }
    const uint64_t header_bytes = read_little_endian(all);
    if (header_bytes > all.size() - kLengthBytes) {
      fail(ErrorKind::invalid_file, "{}: the header is said to have {} bytes, but only {} follow its length",
           name, header_bytes, all.size() - kLengthBytes);
    }
    if (header_bytes > kMaxHeaderBytes) {
      fail(ErrorKind::invalid_file, "{}: the header has {} bytes; more than {} are not accepted", name,
           header_bytes, kMaxHeaderBytes);
    }
    const auto text = all.subspan(kLengthBytes, header_bytes);
    data = all.subspan(kLengthBytes + header_bytes);
    HeaderReader header(name, data.size());
    header.read({reinterpret_cast<const char*>(text.data()), text.size()});
    tensors = std::move(header.tensors);
    metadata = std::move(header.metadata);
    for (size_t i = 0; i < tensors.size(); ++i) index[tensors[i].name] = i;
  }

  std::string name;
  FileBytes file;
  std::span<const std::byte> data;
  std::vector<Entry> tensors;
  std::map<std::string, size_t, std::less<>> index;
  std::map<std::string, std::string, std::less<>> metadata;
};

SafetensorsFile SafetensorsFile::open(const std::string& path) try {
  return SafetensorsFile(std::make_shared<Impl>(path, path));
} catch (...) {
  throw_as_error("reading a safetensors file");
}

SafetensorsFile SafetensorsFile::parse(std::vector<std::byte> bytes, std::string name) try {
  return SafetensorsFile(std::make_shared<Impl>(std::move(name), std::move(bytes)));
} catch (...) {
  throw_as_error("reading a safetensors file");
}

const SafetensorsFile::Impl& SafetensorsFile::impl() const {
  if (!impl_) fail(ErrorKind::invalid_argument, "this SafetensorsFile was moved from");
  return *impl_;
}

const std::vector<SafetensorsFile::Entry>& SafetensorsFile::tensors() const { return impl().tensors; }

const std::map<std::string, std::string, std::less<>>& SafetensorsFile::metadata() const {
  return impl().metadata;
}

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto it = impl().index.find(name);
  return it == impl().index.end() ? nullptr : &impl().tensors[it->second];
}

const SafetensorsFile::Entry& SafetensorsFile::require(std::string_view name) const {
  if (const Entry* entry = find(name)) return *entry;
  fail(ErrorKind::invalid_argument, "{}: there is no tensor named '{}' among the {} of the file", impl().name,
       name, impl().tensors.size());
}

std::span<const std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const Entry& entry = require(name);
  const auto bytes = impl().data.subspan(entry.begin, entry.end - entry.begin);
  if (entry.dtype == DType::bool_) {
    const auto bad = std::ranges::find_if(bytes, [](std::byte b) { return b > std::byte{1}; });
    if (bad != bytes.end()) {
      fail(ErrorKind::invalid_file, "{}: the tensor '{}' is BOOL, but its byte {} is {}, neither 0 nor 1",
           impl().name, shown(name), bad - bytes.begin(), static_cast<int>(*bad));
    }
  }
  return bytes;
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto stored = bytes(name);
  const Entry& entry = require(name);
  return Tensor(entry.dtype, entry.shape, stored, impl_);
}

NamedTensors SafetensorsFile::all() const try {
  NamedTensors out;
  for (const Entry& entry : impl().tensors) out.emplace(entry.name, tensor(entry.name));
  return out;
} catch (...) {
  throw_as_error("reading a safetensors file");
}

namespace {

// The file as pieces in their order: the length and the header, then the tensors.
struct Pieces {
  std::vector<std::byte> head;
  std::vector<std::span<const std::byte>> data;
};

Pieces pieces_of(const NamedTensors& tensors,
                 const std::map<std::string, std::string, std::less<>>& metadata) {
  std::vector<std::pair<std::string_view, const Tensor*>> order;
  for (const auto& [name, tensor] : tensors) order.emplace_back(name, &tensor);
  // Wide elements first, so that every tensor is aligned to its element in a mapped file.
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const auto& item) { return host_bytes(value_dtype(item.second->dtype())); });

  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  Pieces out;
  uint64_t end = 0;
  for (const auto& [name, tensor] : order) {
    const auto type = std::ranges::find(kTypes, tensor->dtype(), &TypeName::dtype);
    if (type == std::end(kTypes)) {
      fail(ErrorKind::invalid_argument, "the tensor '{}' has type {}, which safetensors files do not have",
           name, to_string(tensor->dtype()));
    }
    if (name.empty() || name == kMetadata) {
      fail(ErrorKind::invalid_argument, "'{}' cannot be the name of a tensor in a safetensors file", name);
    }
    out.data.push_back(tensor->bytes());
    const uint64_t begin = end;
    end += out.data.back().size();
    header[std::string(name)] = {
        {"dtype", type->name}, {"shape", tensor->shape()}, {"data_offsets", {begin, end}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    fail(ErrorKind::invalid_argument, "the name of a tensor is not UTF-8, as safetensors files need it");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  out.head.resize(kLengthBytes);
  for (size_t i = 0; i < kLengthBytes; ++i) out.head[i] = static_cast<std::byte>(text.size() >> (8 * i));
  const auto header_bytes = std::as_bytes(std::span(text));
  out.head.insert(out.head.end(), header_bytes.begin(), header_bytes.end());
  return out;
}

}  // namespace

std::vector<std::byte> to_safetensors(const NamedTensors& tensors,
                                      const std::map<std::string, std::string, std::less<>>& metadata) try {
  Pieces pieces = pieces_of(tensors, metadata);
  std::vector<std::byte> out = std::move(pieces.head);
  for (const auto bytes : pieces.data) out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
} catch (...) {
  throw_as_error("writing a safetensors file");
}

void write_safetensors(NewFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string, std::less<>>& metadata) {
  const Pieces pieces = pieces_of(tensors, metadata);
  file.write(pieces.head);
  for (const auto bytes : pieces.data) file.write(bytes);
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string, std::less<>>& metadata) try {
  NewFile file(path);
  write_safetensors(file, tensors, metadata);
  file.commit();
} catch (...) {
  throw_as_error("writing a safetensors file");
}

}  // namespace rlx
