// The one error type of rlx. Every failure that a caller can cause or meet arrives as rlx::Error.
#pragma once

#include <format>
#include <stdexcept>
#include <string>
#include <utility>

namespace rlx {

enum class ErrorKind {
  invalid_graph,     // a graph, shape, type, axis or attribute is wrong
  invalid_argument,  // a call got a wrong name, size or type; the object stays usable
  invalid_file,      // a file is missing, malformed or truncated
  unsupported,       // the request is well formed, but this device or build cannot do it
  out_of_memory,     // the device or the host has less memory than the work needs
  device_lost,       // the GPU went away; build the executable again on a new device
  internal,          // a bug of ours
};

const char* to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

  // The same error with words in front that say where it happened, added at the border of a stage.
  Error within(const std::string& where) const { return Error(kind_, where + ": " + what()); }

 private:
  ErrorKind kind_;
};

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, std::format_string<Args...> message, Args&&... args) {
  throw Error(kind, std::format(message, std::forward<Args>(args)...));
}

// Most failures are about the graph; this is the short form for them.
template <class... Args>
[[noreturn]] void fail(std::format_string<Args...> message, Args&&... args) {
  throw Error(ErrorKind::invalid_graph, std::format(message, std::forward<Args>(args)...));
}

// For our own bugs only: what `holds` denies can not happen whatever the user does.
void check(bool holds, const char* what_must_hold);

}  // namespace rlx
