#include "kernels/kernel.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "base/fail.h"
#include "kernels/fragment.h"
#include "kernels/parse.h"

namespace rlx {
namespace {

// The kernels in use, by their texts, which they own.
struct Interned {
  std::mutex mutex;
  std::unordered_map<std::string_view, std::weak_ptr<const Kernel>> kernels;
};

Interned& interned() {
  static Interned& all = *new Interned;  // never destroyed: kernels in other statics may outlive it
  return all;
}

void forget(const Kernel* kernel) {
  Interned& all = interned();
  {
    const std::scoped_lock lock(all.mutex);
    const auto found = all.kernels.find(kernel->text);
    // Another kernel with the same text may have been added since the last owner of this one let go.
    if (found != all.kernels.end() && found->first.data() == kernel->text.data()) all.kernels.erase(found);
  }
  delete kernel;
}

void add_fragments(Kernel& k) {
  for (const std::string& lib : k.libs) {
    const Fragment* const fragment = find_fragment(lib);
    if (!fragment)
      fail(ErrorKind::invalid_argument, "{}.wgsl: there is no fragment named '{}' to use (there is: {})",
           k.name, lib, joined(fragment_names()));
    add_calls(k, std::vector<std::string_view>(fragment->calls.begin(), fragment->calls.end()));
    for (const Declaration& d : fragment->declarations)
      k.invocation |= d.entry_point && std::ranges::contains(d.uses, "Invocation");
    for (const std::string& e : fragment->enables) {
      if (!std::ranges::contains(k.enables, e)) k.enables.push_back(e);
    }
  }
}

}  // namespace

KernelPtr parse_kernel(std::string text) {
  Interned& all = interned();
  {
    const std::scoped_lock lock(all.mutex);
    if (const auto found = all.kernels.find(text); found != all.kernels.end()) {
      if (KernelPtr kernel = found->second.lock()) return kernel;
    }
  }
  Kernel parsed = parse_kernel_alone(std::move(text));
  add_fragments(parsed);
  KernelPtr kernel(new Kernel(std::move(parsed)), forget);
  const std::scoped_lock lock(all.mutex);
  const auto found = all.kernels.find(kernel->text);
  if (found != all.kernels.end()) {
    if (KernelPtr other = found->second.lock()) return other;  // another thread was faster
    all.kernels.erase(found);
  }
  all.kernels.emplace(kernel->text, kernel);
  return kernel;
}

KernelPtr make_kernel(const Kernel& parts) {
  static constexpr std::string_view kKinds[] = {"float", "int", "any", "encoded"};
  std::string text = formatted("//# {}.wgsl 1\n", parts.name);
  for (const OperandDecl& o : parts.operands) {
    text += formatted("//@ {} {} {}{}{}\n", o.out ? "out" : "in", o.name, kKinds[static_cast<size_t>(o.kind)],
                      o.x4 ? " x4" : "", o.atomic ? " atomic" : "");
  }
  for (const std::string& lib : parts.libs) text += formatted("//@ use {}\n", lib);
  return parse_kernel(text + parts.source);
}

KernelPtr with_fragment(const Kernel& kernel, std::string_view from, std::string_view to) {
  std::string text = kernel.text;
  for (size_t at = text.find("//@ use "); at != std::string::npos; at = text.find("//@ use ", at + 1)) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t name = text.find(from, at);
    if (name >= end) continue;
    text.replace(name, from.size(), to);
    return parse_kernel(std::move(text));
  }
  fail(ErrorKind::internal, "the kernel {} does not use {}", kernel.name, from);
}

}  // namespace rlx
