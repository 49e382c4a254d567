// The one error type of rlx. Every failure that a caller can cause or meet arrives as rlx::Error.
#pragma once

#include <stdexcept>
#include <string>

#include "rlx/export.h"

RLX_EXPORT_BEGIN
namespace rlx {

enum class ErrorKind {
  invalid_graph,     // a graph, shape, type, axis or attribute is wrong
  invalid_argument,  // a call got a wrong name, size or type; the object stays usable
  invalid_file,      // a file is missing, malformed or truncated
  unsupported,       // the request is well formed, but this device or build cannot do it
  out_of_memory,     // the device or the host has less memory than the work needs
  device_lost,       // the GPU went away; build the executable again on a new device
  cancelled,         // by the caller (Pending::cancel)
  internal,          // a bug in rlx
};

const char* to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

  // The same error, prefixed with where it happened; added where one stage calls another.
  Error within(const std::string& where) const { return Error(kind_, where + ": " + what()); }

 private:
  ErrorKind kind_;
};

}  // namespace rlx
RLX_EXPORT_END
