#include "base/json.h"

#include <nlohmann/json.hpp>

namespace rlx {

struct Json::Impl {
  nlohmann::json value;
};

Json::Json(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Json::Json(std::string_view text) : Json(std::make_shared<Impl>(text)) {}
Json::Json(bool value) : Json(std::make_shared<Impl>(value)) {}
Json::Json(double value) : Json(std::make_shared<Impl>(value)) {}
Json::Json(Signed number) : Json(std::make_shared<Impl>(number.value)) {}
Json::Json(Unsigned number) : Json(std::make_shared<Impl>(number.value)) {}
Json::Json(const std::vector<std::string>& texts) : Json(std::make_shared<Impl>(texts)) {}

Json Json::object(std::initializer_list<Member> members) {
  Json out(std::make_shared<Impl>(nlohmann::json::object()));
  for (const auto& [name, value] : members) out.set(name, value);
  return out;
}

Json Json::array(std::initializer_list<Json> items) {
  Json out(std::make_shared<Impl>(nlohmann::json::array()));
  for (const Json& item : items) out.add(item);
  return out;
}

void Json::set(std::string_view name, const Json& value) { impl_->value[name] = value.impl_->value; }
void Json::add(const Json& item) { impl_->value.push_back(item.impl_->value); }

std::string Json::text(int indent) const {
  return impl_->value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Json> Json::read(std::string_view text) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return Json(std::make_shared<Impl>(std::move(value)));
}

std::optional<Json> Json::member(std::string_view name) const {
  const nlohmann::json& all = impl_->value;
  if (!all.is_object() || !all.contains(name)) return std::nullopt;
  return Json(std::make_shared<Impl>(all.at(name)));
}

std::optional<Json> Json::item(size_t index) const {
  const nlohmann::json& all = impl_->value;
  if (!all.is_array() || index >= all.size()) return std::nullopt;
  return Json(std::make_shared<Impl>(all.at(index)));
}

std::vector<std::string> Json::names() const {
  std::vector<std::string> out;
  if (!impl_->value.is_object()) return out;
  for (const auto& [name, value] : impl_->value.items()) out.push_back(name);
  return out;
}

std::optional<double> Json::number() const {
  return impl_->value.is_number() ? std::optional(impl_->value.get<double>()) : std::nullopt;
}

std::optional<std::string> Json::string() const {
  return impl_->value.is_string() ? std::optional(impl_->value.get<std::string>()) : std::nullopt;
}

}  // namespace rlx
