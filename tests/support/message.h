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

// The action fails with a message that contains this.
#define EXPECT_SAYS(action, text)                                                         \
  do {                                                                                    \
    const std::string said = ::rlx::testing::message([&] { static_cast<void>(action); }); \
    EXPECT_TRUE(said.contains(text)) << said;                                             \
  } while (false)
