// std::format for the types of rlx: std::format("{} of {}", tensor, shape).
#pragma once

#include <algorithm>
#include <format>

#include "rlx/error.h"
#include "rlx/export.h"
#include "rlx/tensor.h"
#include "rlx/value.h"

RLX_EXPORT_BEGIN
namespace rlx {

// Anything in rlx that to_string(), or its own text(), turns into text.
template <class T>
concept Printable = std::same_as<T, DType> || std::same_as<T, ErrorKind> || std::same_as<T, Dim> ||
                    std::same_as<T, Shape> || std::same_as<T, TensorType>;

}  // namespace rlx
RLX_EXPORT_END

// Only {}: a width or precision would apply to the whole text.
template <>
struct std::formatter<rlx::Tensor> {
  constexpr auto parse(std::format_parse_context& context) { return context.begin(); }
  auto format(const rlx::Tensor& tensor, std::format_context& context) const {
    return std::ranges::copy(rlx::to_string(tensor), context.out()).out;
  }
};

template <rlx::Printable T>
struct std::formatter<T> : std::formatter<std::string_view> {
  auto format(const T& value, std::format_context& context) const {
    if constexpr (requires { value.text(); }) {
      return std::formatter<std::string_view>::format(value.text(), context);
    } else {
      return std::formatter<std::string_view>::format(to_string(value), context);
    }
  }
};
