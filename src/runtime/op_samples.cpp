#include "runtime/op_samples.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/fail.h"
#include "base/format.h"
#include "ops/elementwise/scalar.h"

namespace rlx {
namespace {

struct Argument {
  std::string literal;  // a number, or
  TensorType type;      // an input of this type
  double low = 0, high = 0;
  bool bounded = false;
  bool state = false;
};

std::vector<std::string> split_arguments(const std::string& text) {
  std::vector<std::string> out;
  int depth = 0;
  std::string part;
  for (char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      out.push_back(part);
      part.clear();
    } else if (c != ' ' || !part.empty()) {
      part += c;
    }
  }
  if (!part.empty()) out.push_back(part);
  return out;
}

// The number that all of the text is.
template <class T>
T parse_number(std::string_view text, std::string_view argument) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    fail(ErrorKind::invalid_argument, "the operand '{}' of a sample: '{}' is not a number", argument, text);
  return value;
}

Argument parse_argument(std::string text, DType dtype) {
  Argument a;
  a.state = text.starts_with("state ");
  if (a.state) text.erase(0, std::string_view("state ").size());
  const size_t open = text.find('[');
  if (open == std::string::npos) {
    a.literal = text;
    return a;
  }
  const std::string type = text.substr(0, open);
  const std::optional<DType> named = type == "T" ? dtype : parse_dtype(type);
  const size_t close = text.find(']');
  if (!named || close == std::string::npos) {
    fail(ErrorKind::invalid_argument,
         "the operand '{}' of a sample is not a number, or a type such as T[3,17]", text);
  }
  a.type.dtype = *named;
  std::istringstream dims(text.substr(open + 1, close - open - 1));
  for (std::string d; std::getline(dims, d, ',');) {
    const auto size = parse_number<int64_t>(d, text);
    if (size < 0)
      fail(ErrorKind::invalid_argument, "the operand '{}' of a sample has the negative size {}", text, size);
    a.type.shape.push_back(Dim(size));
  }
  if (const size_t in = text.find(" in "); in != std::string::npos) {
    const size_t dots = text.find("..", in);
    if (dots == std::string::npos)
      fail(ErrorKind::invalid_argument, "the operand '{}' of a sample has no range such as 0..5", text);
    a.low = parse_number<double>(text.substr(in + 4, dots - in - 4), text);
    a.high = parse_number<double>(text.substr(dots + 2), text);
    a.bounded = true;
    if (a.low > a.high)
      fail(ErrorKind::invalid_argument, "the operand '{}' of a sample: {} is more than {}", text, a.low,
           a.high);
  }
  return a;
}

// The range in which an op is sampled when the sample does not say.
void default_range(const OpInfo& info, Argument& a) {
  if (a.bounded) return;
  const ScalarFn* fn = find_scalar(info.name);
  const bool real = is_float(a.type.dtype) || a.type.dtype == DType::c64;
  a.low = real ? (fn ? fn->low : -2) : (fn ? fn->int_low : -50);
  a.high = real ? (fn ? fn->high : 2) : (fn ? fn->int_high : 50);
}

}  // namespace

Tensor random_tensor(DType dtype, const std::vector<int64_t>& dims, double low, double high,
                     std::mt19937& random) {
  const auto n = static_cast<size_t>(product(dims));
  if (is_float(dtype)) {
    std::uniform_real_distribution<double> uniform(low, high);
    std::vector<double> values(n);
    for (double& v : values) v = uniform(random);
    return Tensor::from_doubles(dtype, dims, values);
  }
  if (dtype == DType::c64) {
    std::uniform_real_distribution<float> uniform(static_cast<float>(low), static_cast<float>(high));
    std::vector<std::complex<float>> values(n);
    for (auto& v : values) v = {uniform(random), uniform(random)};
    return Tensor::of<std::complex<float>>(dims, values);
  }
  if (dtype == DType::bool_) low = 0, high = 1;
  if (dtype == DType::u8 || dtype == DType::u32) low = std::max(low, 0.0);
  if (dtype == DType::i8) low = std::max(low, -128.0), high = std::min(high, 127.0);
  std::uniform_int_distribution<int64_t> uniform(static_cast<int64_t>(low), static_cast<int64_t>(high));
  std::vector<int64_t> values(n);
  for (int64_t& v : values) v = uniform(random);
  return Tensor::from_ints(dtype, dims, values);
}

std::vector<DType> types_of(const OpInfo& info) {
  std::vector<DType> out;
  std::istringstream words(info.types);
  for (std::string w; words >> w;) {
    const std::optional<DType> type = parse_dtype(w);
    if (!type) fail(ErrorKind::invalid_argument, "the op '{}': there is no type '{}'", info.name, w);
    out.push_back(*type);
  }
  return out;
}

Sample make_sample(const OpInfo& info, const std::string& sample, DType dtype, Reach reach, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t open = sample.find('(');
  if (sample.substr(0, open) != info.name || open == std::string::npos ||
      sample.find(')', open) == std::string::npos) {
    fail(ErrorKind::invalid_argument, "the sample '{}' of the op '{}' is not '{}(...)'", sample, info.name,
         info.name);
  }
  // The call's closing parenthesis: attributes may contain parentheses too.
  size_t close = open;
  for (int depth = 0; close < sample.size(); ++close) {
    depth += sample[close] == '(' ? 1 : sample[close] == ')' ? -1 : 0;
    if (depth == 0) break;
  }
  Sample out;
  std::string body;
  std::string call;
  int index = 0;
  for (const std::string& text : split_arguments(sample.substr(open + 1, close - open - 1))) {
    Argument a = parse_argument(text, dtype);
    call += call.empty() ? "" : ", ";
    if (!a.literal.empty()) {
      call += a.literal;
      continue;
    }
    default_range(info, a);
    const std::string name = "x" + std::to_string(index++);
    call += "%" + name;
    std::vector<int64_t> dims = a.type.shape.values();
    const auto rank = static_cast<int64_t>(dims.size());
    if (a.state) {
      body += formatted("  %{} = state : {}\n", name, a.type.text());
      out.states[name] = random_tensor(a.type.dtype, dims, a.low, a.high, random);
    } else if (reach == Reach::transposed && rank >= 2) {
      std::ranges::reverse(dims);
      std::string perm;
      for (int64_t i = rank - 1; i >= 0; --i) perm += (perm.empty() ? "" : ", ") + std::to_string(i);
      body += formatted("  %{0}.t = input : {1}{2}\n  %{0} = transpose(%{0}.t) {{perm=[{3}]}}\n", name,
                        to_string(a.type.dtype), Shape(dims).text(), perm);
      out.inputs[name + ".t"] = random_tensor(a.type.dtype, dims, a.low, a.high, random);
    } else if (reach == Reach::narrowed && rank >= 1) {
      const int64_t length = dims.back();
      dims.back() += 3;
      body +=
          formatted("  %{0}.n = input : {1}{2}\n  %{0} = slice(%{0}.n) {{axis=-1, start=1, length={3}}}\n",
                    name, to_string(a.type.dtype), Shape(dims).text(), length);
      out.inputs[name + ".n"] = random_tensor(a.type.dtype, dims, a.low, a.high, random);
    } else {
      body += formatted("  %{} = input : {}\n", name, a.type.text());
      out.inputs[name] = random_tensor(a.type.dtype, dims, a.low, a.high, random);
    }
  }
  std::string attributes = sample.substr(close + 1);
  // Attributes may mention the type too: {to=T}.
  if (const size_t at = attributes.find("=T}"); at != std::string::npos)
    attributes.replace(at + 1, 1, to_string(dtype));
  out.text = "graph sample {\n" + body + "  %y = " + info.name + "(" + call + ")" + attributes +
             "\n  output y = %y\n}\n";
  out.graph = parse_graph(out.text);
  const auto outputs = static_cast<int32_t>(out.graph.node(out.graph.find("y")).outputs.size());
  for (int32_t o = 1; o < outputs; ++o) out.graph.add_output({formatted("y{}", o), {out.graph.find("y"), o}});
  return out;
}

}  // namespace rlx
