// Another program that works for this one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::measure {

// How a program ended.
struct Ended {
  int code = 0;
  int signal = 0;  // 0: none ended it
};

// Reads lines from us and writes lines to us. Ends with this object.
class ChildProcess {
 public:
  // `command[0]` is looked for in PATH. What the program writes to stderr is kept in a file. Fails with
  // ErrorKind::unsupported and the reason if it cannot be started.
  ChildProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment,
               std::string stderr_file);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // False if the program has ended.
  bool write_line(std::string_view line);
  // Waits for a whole line, or so long; false if there is neither one nor the end of the output by then.
  bool has_line(double seconds);
  // Waits for a whole line; nothing at the end of the output.
  std::optional<std::string> read_line();
  // It has nothing more to read.
  void end_input();
  // Waits for its end. What it would still read or write is lost.
  Ended wait();
  // The last line on its stderr that is not empty, for errors; "" if there is none.
  std::string last_complaint() const;

 private:
  bool read_more();  // false at the end of the output

  pid_t pid_ = -1;                // until it has been waited for
  int input_ = -1, output_ = -1;  // of the program
  std::string stderr_file_;
  std::string pending_;  // read, but not yet returned
};

// A folder for files that the programs share. Removed with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(std::string_view name) const;

 private:
  std::string path_;
  mutable std::set<std::string, std::less<>> files_;  // all that were asked for, with their folder
};

// Kills the programs that are running, and removes the folders with the files that were asked for. Nothing
// may be started or written after that. Safe in a signal handler.
void drop_child_processes();

}  // namespace rlx::measure
