#include "ir/expr_attr.h"

#include <cctype>
#include <charconv>

#include "base/format.h"
#include "base/hash.h"
#include "ir/dtype.h"
#include "ir/literal.h"

namespace rlx {

ExprAttr::ExprAttr(std::vector<Step> steps) {
  if (!steps.empty()) steps_ = std::make_shared<const std::vector<Step>>(std::move(steps));
}

const std::vector<ExprAttr::Step>& ExprAttr::steps() const {
  static const std::vector<Step> none;
  return steps_ ? *steps_ : none;
}

uint64_t ExprAttr::hash() const {
  Hash hash;
  for (const Step& s : steps()) {
    hash.text(s.function).number(static_cast<uint64_t>(s.to));
    for (const ExprArg& a : s.args) {
      hash.number(static_cast<uint64_t>(a.kind)).number(static_cast<uint64_t>(a.index));
      hash.number(std::bit_cast<uint64_t>(a.number));
    }
  }
  return hash.value();
}

namespace {

std::string arg_text(const ExprArg& a) {
  switch (a.kind) {
    case ExprArg::Kind::input:
      return formatted("${}", a.index);
    case ExprArg::Kind::step:
      return formatted("t{}", a.index);
    case ExprArg::Kind::number:
      break;
  }
  return formatted("{}", a.number);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<ExprAttr::Step> all() {
    do {
      skip();
      if (at_ == text_.size()) break;
      step();
    } while (take(';'));
    skip();
    if (at_ != text_.size() || steps_.empty()) wrong();
    return std::move(steps_);
  }

 private:
  void step() {
    std::string_view name = word();
    if (take('=')) {
      if (name != formatted("t{}", steps_.size())) wrong();
      name = word();
    }
    if (!take('(')) wrong();
    ExprAttr::Step step;
    do step.args.push_back(arg());
    while (take(','));
    if (!take(')')) wrong();
    if (name.starts_with("cast_")) {
      const auto to = parse_dtype(name.substr(5));
      if (!to || step.args.size() != 1) wrong();
      step.to = *to;
    } else {
      step.function = name;
    }
    steps_.push_back(std::move(step));
  }

  ExprArg arg() {
    skip();
    if (take('$')) return {ExprArg::Kind::input, index(), 0};
    if (at_ + 1 < text_.size() && text_[at_] == 't' &&
        std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
      ++at_;
      const int32_t i = index();
      if (i >= static_cast<int64_t>(steps_.size())) wrong();
      return {ExprArg::Kind::step, i, 0};
    }
    return {ExprArg::Kind::number, 0, number<double>()};
  }

  int32_t index() {
    const auto i = number<int32_t>();
    if (i < 0) wrong();
    return i;
  }
  template <class T>
  T number() {
    T value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) wrong();
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void wrong() { fail("'{}' is not an expression (stopped at character {})", text_, at_ + 1); }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<ExprAttr::Step> steps_;
};

}  // namespace

std::string ExprAttr::text() const {
  std::string out;
  for (size_t i = 0; i < steps().size(); ++i) {
    const Step& s = steps()[i];
    const bool last = i + 1 == steps().size();
    if (!last) out += formatted("t{}=", i);
    out += s.function.empty() ? "cast_" + std::string(to_string(s.to)) : s.function;
    for (size_t a = 0; a < s.args.size(); ++a) out += (a ? "," : "(") + arg_text(s.args[a]);
    out += last ? ")" : "); ";
  }
  return out;
}

ExprAttr ExprAttr::parse(std::string_view text) {
  return text.empty() ? ExprAttr() : ExprAttr(Parser(text).all());
}

}  // namespace rlx
