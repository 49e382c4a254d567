// A user's program against the installed package: it has to compile, link and run.
#include <cstdio>

#include "rlx/error.h"

int main() {
  try {
    throw rlx::Error(rlx::ErrorKind::invalid_argument, "a sentence");
  } catch (const rlx::Error& error) {
    std::printf("%s\n", error.what());
  }
}
