// The layout of an npy file: "\x93NUMPY", two bytes of version, the length of the header (2 bytes, from
// version 2 on 4), the header, the elements. The header is a Python literal with three keys, padded with
// spaces:
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
#include "import/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/border.h"
#include "base/fail.h"
#include "import/file_bytes.h"
#include "import/new_file.h"
#include "import/zip.h"
#include "ops/elementwise/scalar.h"
#include "rlx/npy.h"
#include "rlx/shape.h"

namespace rlx {
namespace {

using Type = onnx::ElementType;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 64;  // as in NumPy
constexpr size_t kAlignment = 64;

struct TypeRow {
  Type type;
  std::string_view code;  // NumPy's, after the byte order
  std::string_view name;
};
constexpr TypeRow kTypes[] = {
    {Type::boolean, "b1", "bool"},        {Type::int8, "i1", "int8"},
    {Type::uint8, "u1", "uint8"},         {Type::int16, "i2", "int16"},
    {Type::uint16, "u2", "uint16"},       {Type::int32, "i4", "int32"},
    {Type::uint32, "u4", "uint32"},       {Type::int64, "i8", "int64"},
    {Type::uint64, "u8", "uint64"},       {Type::float16, "f2", "float16"},
    {Type::float32, "f4", "float32"},     {Type::float64, "f8", "float64"},
    {Type::complex64, "c8", "complex64"}, {Type::complex128, "c16", "complex128"},
    {Type::bfloat16, "V2", "bfloat16"},
};

size_t bytes_of(Type type) { return static_cast<size_t>(onnx::bits_of(type) / 8); }

// --- The header ---

// Reads the part of Python's grammar that headers use.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, NpyArray& into) : all_(text), rest_(text), into_(into) {}

  void read() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      read_value(key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty()) wrong("has something after its last '}'");
    if (!type_ || !order_ || !shape_) wrong("lacks one of 'descr', 'fortran_order' and 'shape'");
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    fail(ErrorKind::invalid_file, "{}: the header of the array {} (at byte {} of {})", into_.name, what,
         all_.size() - rest_.size(), all_.size());
  }
  // What NumPy has and tensors do not.
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::unsupported, "{}: its elements are {} not supported (supported: {})", into_.name, what,
         joined(kTypes, &TypeRow::name));
  }

  void skip_spaces() {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(n, rest_.size()));
  }
  bool accept(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) wrong(formatted("has no '{}' where one is needed", c));
  }
  bool accept(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view quoted() {
    skip_spaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) wrong("has no string where one is needed");
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) wrong("has a string that does not end");
    const std::string_view out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return out;
  }

  void read_value(std::string_view key) {
    bool& seen = key == "descr" ? type_ : key == "fortran_order" ? order_ : shape_;
    if (key != "descr" && key != "fortran_order" && key != "shape")
      wrong(formatted("has the unknown key '{}'", excerpt(key)));
    if (seen) wrong(formatted("has the key '{}' twice", key));
    seen = true;
    if (key == "descr") {
      read_type();
    } else if (key == "shape") {
      read_shape();
    } else {
      into_.fortran_order = accept("True");
      if (!into_.fortran_order && !accept("False")) wrong("has a 'fortran_order' that is not True or False");
    }
  }

  void read_type() {
    skip_spaces();
    if (rest_.starts_with('[')) refuse("records of fields, which are");
    const std::string_view text = quoted();
    const bool has_order = !text.empty() && std::string_view("<>=|").contains(text[0]);
    const auto row = std::ranges::find(kTypes, text.substr(has_order ? 1 : 0), &TypeRow::code);
    if (row == std::end(kTypes)) refuse(formatted("of the type '{}', which is", excerpt(text)));
    into_.type = row->type;
    into_.big_endian = text[0] == '>';
  }

  void read_shape() {
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error == std::errc::result_out_of_range) wrong("has a dim that does not fit in 63 bits");
      if (error != std::errc() || dim < 0) wrong("has a dim that is not a whole number of at least 0");
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      accept('L');  // as Python 2 wrote them
      into_.shape.push_back(dim);
      if (into_.shape.size() > kMaxRank) wrong(formatted("has more than {} dims", kMaxRank));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view all_, rest_;
  NpyArray& into_;
  bool type_ = false, order_ = false, shape_ = false;
};

// Before anything of the size that the header claims is allocated.
void check_size(const NpyArray& a) {
  uint64_t bytes = bytes_of(a.type);
  for (const int64_t d : a.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) {
      fail(ErrorKind::invalid_file, "{}: an array of the shape {} does not fit in 64 bits of bytes", a.name,
           Shape(a.shape).text());
    }
  }
  if (bytes != a.data.size()) {
    fail(ErrorKind::invalid_file,
         "{}: an array of the type {} and the shape {} needs {} bytes, but {} follow", a.name,
         numpy_name(a.type), Shape(a.shape).text(), bytes, a.data.size());
  }
}

NpyArray parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name) {
  NpyArray out{.name = std::move(name), .owner = std::move(owner)};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t fixed = kMagic.size() + 2;
  if (!text.starts_with(kMagic)) fail(ErrorKind::invalid_file, "{}: it is not an npy file", out.name);
  const int version = text.size() < fixed ? 0 : static_cast<unsigned char>(text[kMagic.size()]);
  if (version < 1 || version > 3) {
    fail(ErrorKind::invalid_file, "{}: it has version {} of the npy format; 1 to 3 are supported", out.name,
         version);
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  if (bytes.size() >= fixed + length_bytes) std::memcpy(&length, bytes.data() + fixed, length_bytes);
  if (bytes.size() < fixed + length_bytes || length > bytes.size() - fixed - length_bytes) {
    fail(ErrorKind::invalid_file, "{}: the file ends, after {} bytes, within the header of the array",
         out.name, bytes.size());
  }
  HeaderReader(text.substr(fixed + length_bytes, length), out).read();
  out.data = bytes.subspan(fixed + length_bytes + length);
  check_size(out);
  return out;
}

// --- From the file's elements to a tensor's ---

// NumPy's type that holds all values of a type.
Type in_numpy(Type type) {
  if (type == Type::bfloat16 || onnx::small_float_format(type)) return Type::float32;
  if (type == Type::int4 || type == Type::int2) return Type::int8;
  if (type == Type::uint4 || type == Type::uint2) return Type::uint8;
  return type;
}

// Little-endian and in C's order.
std::vector<std::byte> plain_bytes(const NpyArray& a) {
  const size_t size = bytes_of(a.type);
  const size_t part = a.type == Type::complex64 || a.type == Type::complex128 ? size / 2 : size;
  const size_t count = a.data.size() / size;
  std::vector<std::byte> out(a.data.size());
  std::vector<int64_t> at(a.shape.size());  // the element's indices
  std::vector<size_t> strides(a.shape.size(), 1);
  for (size_t axis = 1; axis < strides.size(); ++axis)
    strides[axis] = strides[axis - 1] * static_cast<size_t>(a.shape[axis - 1]);
  size_t from = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::byte* const source = a.data.data() + (a.fortran_order ? from : i) * size;
    std::byte* const to = out.data() + i * size;
    std::memcpy(to, source, size);
    for (size_t p = 0; a.big_endian && p < size; p += part) std::reverse(to + p, to + p + part);
    for (size_t axis = at.size(); axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < a.shape[axis]) break;
      from -= strides[axis] * static_cast<size_t>(a.shape[axis]);
      at[axis] = 0;
    }
  }
  return out;
}

template <class T>
T element(std::span<const std::byte> bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

[[noreturn]] void does_not_fit(const NpyArray& a, size_t i, const std::string& value, Type wanted) {
  const std::string where = wanted == Type::uint64    ? "the 32 bits that carry uint64"
                            : wanted == Type::float64 ? "the f32 that carries float64"
                                                      : std::string(numpy_name(wanted));
  fail(ErrorKind::invalid_argument, "{}: element {} is {}, which does not fit in {}", a.name, i, value,
       where);
}

template <class From>
void add_integers(const NpyArray& a, std::span<const std::byte> bytes, Type wanted,
                  std::vector<int64_t>& into) {
  const bool is_signed = !onnx::is_unsigned(wanted);
  const int64_t bits = wanted == Type::uint64 ? 32 : onnx::bits_of(wanted);
  const int64_t high = std::numeric_limits<int64_t>::max() >> (is_signed ? 64 - bits : 63 - bits);
  const int64_t low = is_signed ? -high - 1 : 0;
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    const From value = element<From>(bytes, i);
    if (std::cmp_less(value, low) || std::cmp_greater(value, high))
      does_not_fit(a, i, std::to_string(value), wanted);
    into.push_back(static_cast<int64_t>(value));
  }
}

Tensor integers(const NpyArray& a, std::span<const std::byte> bytes, Type wanted) {
  std::vector<int64_t> out;
  out.reserve(bytes.size() / bytes_of(a.type));
  const auto add = [&]<class From>(From) { add_integers<From>(a, bytes, wanted, out); };
  switch (a.type) {
    case Type::int8:
      add(int8_t());
      break;
    case Type::uint8:
      add(uint8_t());
      break;
    case Type::int16:
      add(int16_t());
      break;
    case Type::uint16:
      add(uint16_t());
      break;
    case Type::int32:
      add(int32_t());
      break;
    case Type::uint32:
      add(uint32_t());
      break;
    case Type::int64:
      add(int64_t());
      break;
    default:
      add(uint64_t());
  }
  return Tensor::from_ints(*onnx::carrier(wanted), a.shape, out);
}

// Of floats, or of the parts of complex numbers.
std::vector<double> doubles(Type type, std::vector<std::byte> bytes) {
  if (type == Type::float64 || type == Type::complex128) {
    std::vector<double> out(bytes.size() / sizeof(double));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  const DType dtype = type == Type::complex64 ? DType::f32 : *onnx::carrier(type);
  const auto count = static_cast<int64_t>(bytes.size() / host_bytes(dtype));
  return Tensor(dtype, {count}, std::move(bytes)).doubles();
}

Tensor floats(const NpyArray& a, std::vector<std::byte> bytes, Type wanted) {
  const bool complex = wanted == Type::complex64;
  const std::vector<double> values = doubles(a.type, std::move(bytes));
  std::vector<int64_t> shape = a.shape;
  if (complex) shape.push_back(2);
  Tensor out = Tensor::from_doubles(complex ? DType::f32 : *onnx::carrier(wanted), shape, values);
  const std::optional<int> format = onnx::small_float_format(wanted);
  for (size_t i = 0; i < values.size(); ++i) {
    double made = out.real(static_cast<int64_t>(i));
    if (format) {
      const double operands[] = {made, static_cast<double>(*format), 0};
      made = find_scalar("round_to_format")->real(operands);
    }
    if (made == values[i] || std::isnan(values[i])) continue;
    const size_t at = complex ? i / 2 : i;
    if (!std::isfinite(made)) does_not_fit(a, at, formatted("{:.17g}", values[i]), wanted);
    if (wanted == Type::float64) continue;
    fail(ErrorKind::invalid_argument,
         "{}: element {} is {:.17g}, which {} cannot hold exactly; save it as {}", a.name, at, values[i],
         numpy_name(wanted), numpy_name(in_numpy(wanted)));
  }
  if (!complex) return out;
  const auto parts = out.bytes();
  return Tensor(DType::c64, a.shape, std::vector<std::byte>(parts.begin(), parts.end()));
}

enum class Family { boolean, integer, floating, complex };
Family family(Type type) {
  if (type == Type::boolean) return Family::boolean;
  if (onnx::is_integer(type)) return Family::integer;
  return onnx::is_float(type) ? Family::floating : Family::complex;
}

void check_bools(const NpyArray& a) {
  const auto bad = std::ranges::find_if(a.data, [](std::byte b) { return b > std::byte(1); });
  if (bad == a.data.end()) return;
  fail(ErrorKind::invalid_file, "{}: the byte {} of its bools is {}, neither 0 nor 1", a.name,
       bad - a.data.begin(), static_cast<int>(*bad));
}

}  // namespace

Tensor NpyArray::as(Type wanted) const {
  const auto dtype = onnx::carrier(wanted);
  if (!dtype) fail(ErrorKind::unsupported, "{}: the type {} is not supported", name, to_string(wanted));
  if (family(type) != family(wanted)) {
    fail(ErrorKind::invalid_argument, "{}: its elements are {}, which cannot be taken for {}", name,
         numpy_name(type), numpy_name(wanted));
  }
  if (type == Type::boolean) check_bools(*this);
  const bool same = type == wanted && onnx::element_type_of(*dtype) == type;
  const bool in_order = !fortran_order || std::ranges::count_if(shape, [](int64_t d) { return d > 1; }) < 2;
  const bool aligned = reinterpret_cast<uintptr_t>(data.data()) % bytes_of(type) == 0;
  if (same && in_order && !big_endian && aligned) return Tensor(*dtype, shape, data, owner);
  std::vector<std::byte> plain = plain_bytes(*this);
  if (same) return Tensor(*dtype, shape, std::move(plain));
  return family(type) == Family::integer ? integers(*this, plain, wanted)
                                         : floats(*this, std::move(plain), wanted);
}

std::string_view numpy_name(Type type) {
  const auto row = std::ranges::find(kTypes, type, &TypeRow::type);
  return row == std::end(kTypes) ? to_string(type) : row->name;
}

NpyArray open_npy(const std::string& path) {
  const auto file = std::make_shared<const FileBytes>(path);
  return parse_npy(file->bytes(), file, path);
}

std::map<std::string, NpyArray> open_npz(const std::string& path) {
  const ZipFile zip(std::make_shared<const FileBytes>(path), path);
  std::map<std::string, NpyArray> out;
  for (const ZipFile::Member& member : zip.members()) {
    constexpr std::string_view kEnding = ".npy";
    if (!member.name.ends_with(kEnding)) continue;
    const std::string name = member.name.substr(0, member.name.size() - kEnding.size());
    ZipFile::Contents contents = zip.contents(member);
    NpyArray array =
        parse_npy(contents.bytes, std::move(contents.owner), formatted("{}: {}", path, excerpt(name)));
    if (!out.emplace(name, std::move(array)).second)
      fail(ErrorKind::invalid_file, "{}: there are two arrays '{}'", path, excerpt(name));
  }
  return out;
}

Tensor read_npy(const std::string& path) try {
  const NpyArray array = open_npy(path);
  return array.as(array.type);
} catch (...) {
  throw_as_error("reading an npy file");
}

NamedTensors read_npz(const std::string& path) try {
  NamedTensors out;
  for (const auto& [name, array] : open_npz(path)) out.emplace(name, array.as(array.type));
  return out;
} catch (...) {
  throw_as_error("reading an npz file");
}

// --- Writing ---

namespace {

std::string header_of(Type type, const std::vector<int64_t>& shape) {
  const auto row = std::ranges::find(kTypes, type, &TypeRow::type);
  check(row != std::end(kTypes), "NumPy has every type that is written");
  std::string text =
      formatted("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                bytes_of(type) == 1 ? '|' : '<', row->code, joined(shape), shape.size() == 1 ? "," : "");
  const size_t before = kMagic.size() + 4;
  text.append(kAlignment - (before + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return out + text;
}

template <class To, class From>
void write_as(NewFile& file, const std::vector<From>& values) {
  const std::vector<To> converted(values.begin(), values.end());
  file.write(std::as_bytes(std::span(converted)));
}

}  // namespace

void write_npy(const std::string& path, const Tensor& tensor, Type carried) {
  const Type type = in_numpy(carried);
  NewFile file(path);
  file.write(header_of(type, tensor.shape()));
  if (!is_encoded(tensor.dtype()) && type == onnx::element_type_of(tensor.dtype())) {
    file.write(tensor.bytes());
  } else if (type == Type::float64) {
    write_as<double>(file, tensor.doubles());
  } else if (type == Type::float32) {
    write_as<float>(file, tensor.doubles());
  } else if (type == Type::int16) {
    write_as<int16_t>(file, tensor.integers());
  } else if (type == Type::uint16) {
    write_as<uint16_t>(file, tensor.integers());
  } else {
    check(type == Type::uint64, "every other type is its own carrier");
    write_as<uint64_t>(file, tensor.integers());
  }
  file.commit();
}

void write_npy(const std::string& path, const Tensor& tensor) try {
  write_npy(path, tensor, onnx::element_type_of(tensor.dtype()));
} catch (...) {
  throw_as_error("writing an npy file");
}

}  // namespace rlx
