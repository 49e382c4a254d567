#include "base/border.h"

#include <new>
#include <stdexcept>

#include "base/fail.h"

namespace rlx {

void throw_as_error(const char* doing) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::out_of_memory, "the host ran out of memory while {}", doing);
  } catch (const std::length_error& e) {
    fail(ErrorKind::out_of_memory, "no host has as much memory as was needed while {} ({})", doing, e.what());
  } catch (const std::exception& e) {
    fail(ErrorKind::internal, "{} failed: {}", doing, e.what());
  } catch (...) {
    fail(ErrorKind::internal, "{} failed: something was thrown that is not an exception", doing);
  }
}

}  // namespace rlx
