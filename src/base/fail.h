// Raising rlx::Error.
#pragma once

#include "base/format.h"
#include "rlx/error.h"

namespace rlx {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, std::format_string<Args...> message, Args&&... args) {
  throw Error(kind, vformatted(message.get(), std::make_format_args(args...)));
}

// Most failures are about the graph; this is the short form for them.
template <class... Args>
[[noreturn]] void fail(std::format_string<Args...> message, Args&&... args) {
  throw Error(ErrorKind::invalid_graph, vformatted(message.get(), std::make_format_args(args...)));
}

// For our own bugs only: `holds` must be true whatever the user does.
void check(bool holds, const char* what_must_hold);

}  // namespace rlx
