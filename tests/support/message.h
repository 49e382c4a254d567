// What an action says when it fails.
#pragma once

#include <functional>
#include <string>

#include "rlx/error.h"

namespace rlx::testing {

inline std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace rlx::testing
