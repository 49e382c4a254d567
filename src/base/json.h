// JSON that the program writes, and that of other programs. The library behind it takes a compiler ten
// seconds, so only json.cpp includes it.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx {

class Json {
 public:
  using Member = std::pair<std::string_view, Json>;

  Json(std::string_view text);
  Json(const std::string& text) : Json(std::string_view(text)) {}
  Json(const char* text) : Json(std::string_view(text)) {}
  Json(bool value);
  Json(double value);
  Json(std::signed_integral auto value) : Json(Signed{value}) {}
  Json(std::unsigned_integral auto value) : Json(Unsigned{value}) {}
  Json(const std::vector<std::string>& texts);
  static Json object(std::initializer_list<Member> members = {});
  static Json array(std::initializer_list<Json> items = {});

  void set(std::string_view name, const Json& value);  // of an object
  void add(const Json& item);                          // to an array
  // On one line, or indented by this many spaces. Bytes that are not UTF-8 are replaced: names come from
  // files.
  std::string text(int indent = -1) const;

  // Nothing if the text is no JSON.
  static std::optional<Json> read(std::string_view text);
  // Nothing if there is none, or this is something else.
  std::optional<Json> member(std::string_view name) const;
  std::optional<Json> item(size_t index) const;
  std::vector<std::string> names() const;  // of the members of an object
  std::optional<double> number() const;
  std::optional<std::string> string() const;

 private:
  struct Signed {
    int64_t value;
  };
  struct Unsigned {
    uint64_t value;
  };
  struct Impl;
  explicit Json(Signed number);
  explicit Json(Unsigned number);
  explicit Json(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;  // a copy of a Json is the same value
};

}  // namespace rlx
