#include "kernels/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/fail.h"

namespace rlx {
namespace {

bool part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    at = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, at - begin));
  }
  return words;
}

std::string_view without_comment(std::string_view line) { return line.substr(0, line.find("//")); }

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The lines of a text in order, and where each comes from according to the `//# FILE LINE` before it.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  bool next() {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    line = text_.substr(at_, end - at_);
    begin = at_;
    at_ = end + 1;
    ++number_;
    if (line.starts_with("//# ")) {
      const size_t space = line.rfind(' ');
      file = line.substr(4, std::max<size_t>(space, 4) - 4);
      parse_number(line.substr(space + 1), number_);
      --number_;
      return next();
    }
    return true;
  }

  template <class... Args>
  [[noreturn]] void fail_here(std::format_string<Args...> message, Args&&... args) const {
    fail(ErrorKind::invalid_argument, "{}:{}: {}", file, number_,
         formatted(message, std::forward<Args>(args)...));
  }

  std::string_view line;
  std::string_view file;
  size_t begin = 0;  // of the line in the text

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

OperandDecl parse_operand(const Lines& lines, const std::vector<std::string_view>& words) {
  if (words.size() < 4) lines.fail_here("an operand has a name and a kind: //@ {} x float", words[1]);
  OperandDecl o;
  o.name = words[2];
  o.out = words[1] == "out";
  if (words[3] == "float") {
    o.kind = OperandDecl::Kind::float_;
  } else if (words[3] == "int") {
    o.kind = OperandDecl::Kind::int_;
  } else if (words[3] == "encoded" && !o.out) {
    o.kind = OperandDecl::Kind::encoded;
  } else if (words[3] != "any") {
    lines.fail_here("operand {} has the unknown kind {}; it can be float, int or any", o.name, words[3]);
  }
  for (const std::string_view word : std::span(words).subspan(4)) {
    if (word == "x4") {
      o.x4 = true;
    } else if (word == "atomic" && o.out) {
      o.atomic = true;
    } else {
      lines.fail_here("operand {} cannot be '{}'; it can be x4 and, if it is written, atomic", o.name, word);
    }
  }
  if (o.x4 && o.atomic) lines.fail_here("operand {} cannot be both x4 and atomic", o.name);
  return o;
}

bool is_scalar(std::string_view type) { return type == "u32" || type == "i32" || type == "f32"; }

// Scalar and width of `vec3<u32>`, `vec3u` or `u32`. Width 0 if it is neither a vector nor a scalar.
ParamDecl parse_vector(std::string_view type) {
  ParamDecl p;
  if (is_scalar(type)) {
    p.scalar = type;
    return p;
  }
  p.width = 0;
  if (!type.starts_with("vec") || type.size() < 5 || type[3] < '2' || type[3] > '4') return p;
  const std::string_view rest = type.substr(4);
  if (rest.size() == 1 && (rest == "u" || rest == "i" || rest == "f")) {
    p.scalar = std::string(rest) + "32";
  } else if (rest.starts_with('<') && rest.ends_with('>') &&
             is_scalar(trimmed(rest.substr(1, rest.size() - 2)))) {
    p.scalar = trimmed(rest.substr(1, rest.size() - 2));
  } else {
    return p;
  }
  p.width = type[3] - '0';
  return p;
}

ParamDecl parse_param(const Lines& lines, std::string_view name, std::string_view type) {
  constexpr std::string_view kAllowed =
      "parameters are u32, i32, f32, vectors of them, and arrays of scalars or of vectors of four";
  ParamDecl p = parse_vector(type);
  if (type.starts_with("array<") && type.ends_with('>')) {
    const std::string_view inside = type.substr(6, type.size() - 7);
    const size_t comma = inside.rfind(',');
    p = parse_vector(trimmed(inside.substr(0, comma)));
    std::string_view count = comma == std::string_view::npos ? "" : trimmed(inside.substr(comma + 1));
    if (count.ends_with('u')) count.remove_suffix(1);
    if (!parse_number(count, p.count) || p.count <= 0 || (p.width != 1 && p.width != 4)) p.width = 0;
  }
  if (p.width == 0) lines.fail_here("the parameter {} has the type {}; {}", name, type, kAllowed);
  p.name = name;
  return p;
}

// WGSL's rules for uniforms.
void place(std::vector<ParamDecl>& params, size_t& end) {
  for (ParamDecl& p : params) {
    const size_t align = p.count > 0 || p.width > 2 ? 16 : p.width == 2 ? 8 : 4;
    p.offset = (end + align - 1) / align * align;
    const auto words = static_cast<size_t>(p.count == 0   ? p.width
                                           : p.width == 4 ? 4 * p.count
                                                          : (p.count + 3) / 4 * 4);
    end = p.offset + 4 * words;
  }
}

// The members between the braces of `struct Params`. Arrays of scalars become arrays of vectors in `source`
// (uniforms allow no others), and a function `params_NAME(i)` reads them.
void parse_params(Kernel& k) {
  Lines lines(k.source);
  std::string body;
  size_t begin = std::string::npos;
  size_t end = 0;
  while (lines.next()) {
    if (begin == std::string::npos && !trimmed(lines.line).starts_with("struct Params")) continue;
    if (begin == std::string::npos) begin = lines.begin;
    body += without_comment(lines.line);
    body += ' ';
    end = lines.begin + lines.line.size();
    if (body.contains('}')) break;
  }
  if (begin == std::string::npos) return;
  const size_t open = body.find('{');
  if (open == std::string::npos || !body.contains('}')) lines.fail_here("struct Params has no end");
  const std::string_view members = std::string_view(body).substr(open + 1, body.find('}') - open - 1);
  int depth = 0;
  std::string_view rest = members;
  for (size_t at = 0; at <= rest.size(); ++at) {
    if (at < rest.size() && rest[at] != ',') {
      depth += rest[at] == '<' ? 1 : rest[at] == '>' ? -1 : 0;
      continue;
    }
    if (depth > 0 && at < rest.size()) continue;
    const std::string_view member = trimmed(rest.substr(0, at));
    const size_t colon = member.find(':');
    if (!member.empty()) {
      if (colon == std::string_view::npos)
        lines.fail_here("a member of struct Params has no type: {}", member);
      k.params.push_back(
          parse_param(lines, trimmed(member.substr(0, colon)), trimmed(member.substr(colon + 1))));
    }
    if (at == rest.size()) break;
    rest.remove_prefix(at + 1);
    at = static_cast<size_t>(-1);
  }
  place(k.params, k.params_bytes);
  std::string text = k.source.substr(begin, end - begin);
  std::string readers;
  for (const ParamDecl& p : k.params) {
    if (p.count == 0 || p.width != 1) continue;
    const size_t type = text.find("array<", text.find(p.name + ":"));
    text.replace(type, text.find('>', type) + 1 - type,
                 formatted("array<vec4<{}>, {}>", p.scalar, (p.count + 3) / 4));
    readers += formatted("fn params_{0}(i: u32) -> {1} {{ return params.{0}[i / 4u][i % 4u]; }}\n", p.name,
                         p.scalar);
  }
  k.source.replace(begin, end - begin, text);
  k.source += readers;
}

// `const NAME: type = value;`; false if the line is not one.
bool parse_constant(std::string_view line, std::string_view& name, std::string_view& type,
                    std::string_view& value) {
  const std::string_view code = trimmed(without_comment(line));
  if (!code.starts_with("const ") || !code.ends_with(';')) return false;
  const size_t colon = code.find(':');
  const size_t equals = code.find('=');
  if (colon == std::string_view::npos || equals == std::string_view::npos || colon > equals) return false;
  name = trimmed(code.substr(6, colon - 6));
  type = trimmed(code.substr(colon + 1, equals - colon - 1));
  value = trimmed(code.substr(equals + 1, code.size() - equals - 2));
  return true;
}

void parse_specs(Kernel& k) {
  for (Lines lines(k.source); lines.next();) {
    if (!lines.line.contains("//@ spec")) continue;
    std::string_view name, type, value;
    if (!parse_constant(lines.line, name, type, value))
      lines.fail_here("a spec constant is written `const NAME: u32 = 8u;  //@ spec`");
    if (type != "u32" && type != "bool")
      lines.fail_here("the spec constant {} has the type {}; use u32 or bool", name, type);
    const auto begin = static_cast<size_t>(value.data() - k.source.data());
    k.specs.push_back(
        {std::string(name), std::string(type), std::string(value), begin, begin + value.size()});
  }
}

// Moves the names in `enable a, b;` to `enables`, since a module has them at its top, and leaves an empty
// line, so that lines keep their numbers.
void take_enables(std::string& source, std::vector<std::string>& enables) {
  size_t at = 0;
  while (at < source.size()) {
    const size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view code = trimmed(without_comment(std::string_view(source).substr(at, end - at)));
    if (code.starts_with("enable ")) {
      for (const std::string_view name : identifiers(code.substr(7))) {
        if (!std::ranges::contains(enables, name)) enables.emplace_back(name);
      }
      source.erase(at, end - at);
      ++at;
    } else {
      at = end + 1;
    }
  }
}

// Finds the operands of a flat kernel that element(i) does not only read at i.
void find_reads_elsewhere(Kernel& k) {
  std::string index;
  const std::vector<std::string_view> names = identifiers(k.source);
  for (size_t n = 0; n + 2 < names.size(); ++n) {
    if (names[n] == "fn" && names[n + 1] == "element") index = names[n + 2];
  }
  const char* const end = k.source.data() + k.source.size();
  for (const std::string_view name : names) {
    const char* const open = name.data() + name.size();
    if (open == end || *open != '(') continue;
    const std::string_view rest(open + 1, end);
    const bool at_index = trimmed(rest.substr(0, std::min(rest.find(')'), rest.size()))) == index;
    for (OperandDecl& o : k.operands) {
      if (!at_index && (name == o.name + "_at" || name == o.name + "_flat")) o.calls.elsewhere = true;
    }
  }
}

void check_enables(const Kernel& k, const Lines& lines) {
  static constexpr std::string_view kKnown[] = {"f16", "subgroups", "subgroup_size_control",
                                                "chromium_experimental_subgroup_matrix"};
  for (const std::string& e : k.enables) {
    if (!std::ranges::contains(kKnown, e))
      fail(ErrorKind::invalid_argument, "{}: a kernel cannot enable {}; it can enable {}", lines.file, e,
           joined(kKnown));
  }
}

// What the fragments and the host rely on: see lib/flat.wgsl, lib/team_serial.wgsl and lib/four.wgsl.
void check_conventions(const Kernel& k, const Lines& lines) {
  const auto uses = [&](std::string_view lib) { return std::ranges::contains(k.libs, lib); };
  const auto has_spec = [&](std::string_view name) {
    return std::ranges::contains(k.specs, name, &SpecDecl::name);
  };
  const std::vector<std::string_view> functions = called_functions(k.source);
  const bool each = uses("each");
  const bool team =
      std::ranges::any_of(k.libs, [](const std::string& lib) { return lib.starts_with("team_"); });
  if (k.flat + each + team > 1)
    fail(ErrorKind::invalid_argument, "{}: a kernel uses only one of flat, each and a team", lines.file);
  if (k.flat || each || team) {
    if (k.params.size() < 2 || k.params[0].name != "first" || k.params[1].name != "end")
      fail(ErrorKind::invalid_argument,
           "{}: the Params of a kernel that uses flat, each or a team must begin with `first: u32, end: u32`",
           lines.file);
  }
  const auto need = [&](bool needs, bool has, std::string_view user, std::string_view what) {
    if (needs && !has)
      fail(ErrorKind::invalid_argument, "{}: a kernel that uses {} must have {}", lines.file, user, what);
  };
  need(k.flat, std::ranges::contains(functions, "element"), "flat", "a function element(i: u32) -> y_t");
  need(each, std::ranges::contains(functions, "task"), "each", "a function task(i: u32)");
  need(team, has_spec("TEAM"), "a team", "the spec constant TEAM");
  need(team, std::ranges::contains(functions, "row_task"), "a team", "a function row_task");
  need(uses("four") || uses("put_four"), has_spec("FOUR"), "four", "the spec constant FOUR");
}

}  // namespace

std::vector<std::string_view> identifiers(std::string_view wgsl) {
  std::vector<std::string_view> names;
  for (size_t at = 0; at < wgsl.size();) {
    if (wgsl.substr(at, 2) == "//") {
      at = std::min(wgsl.find('\n', at), wgsl.size());
    } else if (part_of_name(wgsl[at])) {
      size_t end = at;
      while (end < wgsl.size() && part_of_name(wgsl[end])) ++end;
      if (!std::isdigit(static_cast<unsigned char>(wgsl[at]))) names.push_back(wgsl.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
  return names;
}

std::vector<std::string_view> called_functions(std::string_view wgsl) {
  std::vector<std::string_view> names = identifiers(wgsl);
  const char* const end = wgsl.data() + wgsl.size();
  std::erase_if(names, [&](std::string_view name) {
    const char* const after = name.data() + name.size();
    return after == end || *after != '(';
  });
  std::ranges::sort(names);
  const auto [first, last] = std::ranges::unique(names);
  names.erase(first, last);
  return names;
}

std::vector<ConstantDecl> host_constants(std::string_view text) {
  std::vector<ConstantDecl> constants;
  for (Lines lines(text); lines.next();) {
    std::string_view name, type, value;
    if (lines.line.contains("//@ spec") || !parse_constant(lines.line, name, type, value) || type != "u32")
      continue;
    uint32_t number = 0;
    if (value.ends_with('u') && parse_number(value.substr(0, value.size() - 1), number))
      constants.push_back({std::string(name), std::string(value)});
  }
  return constants;
}

std::string kernel_text(const std::string& file, std::string_view source,
                        const std::function<std::string(std::string_view)>& include) {
  std::string text = formatted("//# {} 1\n", file);
  int64_t number = 0;
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view line = source.substr(at, end - at);
    at = end + 1;
    ++number;
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() == 3 && words[0] == "//@" && words[1] == "include") {
      text += formatted("//# lib/{}.wgsl 1\n{}\n//# {} {}\n", words[2], trimmed(include(words[2])), file,
                        number + 1);
    } else {
      text += line;
      text += '\n';
    }
  }
  return text;
}

Kernel parse_kernel_alone(std::string text) {
  Kernel k;
  Lines lines(text);
  while (lines.next()) {
    const std::vector<std::string_view> words = words_of(lines.line);
    if (words.empty() || words[0] != "//@" || (words.size() == 2 && words[1] == "params")) continue;
    if (words.size() > 1 && (words[1] == "in" || words[1] == "out")) {
      OperandDecl operand = parse_operand(lines, words);
      if (std::ranges::contains(k.operands, operand.name, &OperandDecl::name))
        lines.fail_here("there are two operands named {}", operand.name);
      k.operands.push_back(std::move(operand));
    } else if (words.size() > 2 && words[1] == "use") {
      k.libs.insert(k.libs.end(), words.begin() + 2, words.end());
    } else {
      lines.fail_here("'{}' is not one of the lines //@ in, //@ out and //@ use", trimmed(lines.line));
    }
  }
  check(!lines.file.empty(), "a kernel's text says where it comes from");
  k.name = lines.file.substr(0, lines.file.rfind('.'));
  k.name = k.name.substr(k.name.rfind('/') + 1);
  k.source = text;
  take_enables(k.source, k.enables);
  parse_params(k);
  parse_specs(k);
  k.constants = host_constants(k.source);
  k.flat = std::ranges::contains(k.libs, "flat");
  k.invocation = std::ranges::contains(identifiers(k.source), "Invocation");
  check_enables(k, lines);
  check_conventions(k, lines);
  add_calls(k, called_functions(k.source));
  if (k.flat) find_reads_elsewhere(k);
  k.text = std::move(text);
  return k;
}

void add_calls(Kernel& k, const std::vector<std::string_view>& calls) {
  static constexpr std::pair<std::string_view, bool AccessorCalls::*> kAccessors[] = {
      {"base", &AccessorCalls::base}, {"step", &AccessorCalls::step},
      {"flat", &AccessorCalls::flat}, {"at", &AccessorCalls::at},
      {"get", &AccessorCalls::get},   {"put", &AccessorCalls::put},
      {"has", &AccessorCalls::has},   {"from_bits", &AccessorCalls::from_bits},
      {"add", &AccessorCalls::add},   {"min", &AccessorCalls::min},
      {"max", &AccessorCalls::max},   {"exchange", &AccessorCalls::exchange},
  };
  for (const std::string_view call : calls) {
    k.owns |= call == "owns";
    for (OperandDecl& o : k.operands) {
      if (!call.starts_with(o.name) || call.size() <= o.name.size() || call[o.name.size()] != '_') continue;
      for (const auto& [name, member] : kAccessors) {
        if (call.substr(o.name.size() + 1) == name) o.calls.*member = true;
      }
    }
  }
}

Fragment parse_fragment(const std::string& place, std::string_view text) {
  Fragment fragment;
  std::string own(text);
  take_enables(own, fragment.enables);
  std::string declaration;
  int depth = 0;
  const std::string with_place = formatted("//# {} 1\n{}", place, own);
  Lines lines(with_place);
  int64_t number = 0;
  while (lines.next()) {
    ++number;
    if (declaration.empty() && (lines.line.empty() || lines.line.starts_with("//"))) continue;
    if (declaration.empty()) declaration = formatted("//# {} {}\n", place, number);
    declaration += lines.line;
    declaration += '\n';
    const std::string_view code = trimmed(without_comment(lines.line));
    for (const char c : code) depth += c == '{' || c == '(' ? 1 : c == '}' || c == ')' ? -1 : 0;
    if (depth != 0 || !(code.ends_with('}') || code.ends_with(';'))) continue;
    Declaration d;
    d.text = std::move(declaration);
    declaration.clear();
    const std::vector<std::string_view> names = identifiers(d.text);
    d.entry_point = d.text.contains("@compute");
    d.uses.assign(names.begin(), names.end());
    static constexpr std::string_view kKeywords[] = {"fn", "const", "struct", "alias", "var"};
    for (size_t i = 0; i + 1 < names.size() && d.name.empty(); ++i) {
      if (!std::ranges::contains(kKeywords, names[i])) continue;
      // var<workgroup> NAME
      const size_t at = names[i] == "var" && names[i].data()[3] == '<' ? i + 2 : i + 1;
      if (at < d.uses.size()) d.name = d.uses[at];
    }
    if (d.name.empty()) lines.fail_here("no declaration ends here");
    fragment.declarations.push_back(std::move(d));
  }
  if (!declaration.empty()) lines.fail_here("the last declaration does not end");
  for (const std::string_view call : called_functions(with_place)) fragment.calls.emplace_back(call);
  return fragment;
}

}  // namespace rlx
