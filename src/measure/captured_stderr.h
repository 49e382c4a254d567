// What a library writes to stderr because it has no other way to say it.
#pragma once

#include <cstdio>
#include <string>

namespace rlx::measure {

// While it exists, stderr goes into a file. One at a time. If a signal such as SIGABRT ends the program
// meanwhile, the end of the file is on the real stderr.
class CapturedStderr {
 public:
  CapturedStderr();
  ~CapturedStderr();
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  // What has been written since the last call, or since the beginning.
  std::string take();

 private:
  std::FILE* file_;
  int stderr_;  // the real one
};

}  // namespace rlx::measure
