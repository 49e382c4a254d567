#include "base/fail.h"

namespace rlx {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_graph:
      return "invalid graph";
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::invalid_file:
      return "invalid file";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::out_of_memory:
      return "out of memory";
    case ErrorKind::device_lost:
      return "device lost";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::internal:
      return "internal error";
  }
  return "error";
}

void check(bool holds, const char* what_must_hold) {
  if (!holds) fail(ErrorKind::internal, "internal error: this must hold: {}", what_must_hold);
}

}  // namespace rlx
