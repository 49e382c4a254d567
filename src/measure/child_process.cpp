#include "measure/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/fail.h"

extern char** environ;

namespace rlx::measure {
namespace {

// The environment of this program, with some variables set.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) out.emplace_back(text);
  }
  for (const auto& [name, value] : changes) out.push_back(name + "=" + value);
  return out;
}

// What a signal handler, which may neither lock nor allocate, has to end and to remove. What has no place in
// these lists is left behind.
template <class T>
class SignalList {
 public:
  void enter(T what) {
    for (std::atomic<T>& slot : slots_) {
      T free{};
      if (slot.compare_exchange_strong(free, what)) return;
    }
  }
  void leave(T what) {
    for (std::atomic<T>& slot : slots_) {
      T mine = what;
      if (slot.compare_exchange_strong(mine, T{})) return;
    }
  }
  template <class F>
  void for_each(F&& f) const {
    for (const std::atomic<T>& slot : slots_) {
      if (const T what = slot.load()) f(what);
    }
  }

 private:
  std::array<std::atomic<T>, 64> slots_{};
};
SignalList<pid_t> running;
SignalList<const char*> files, folders;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::map<std::string, std::string>& environment, std::string stderr_file)
    : stderr_file_(std::move(stderr_file)) {
  // Sockets, because a write to a closed one can return an error instead of raising a signal.
  std::array<int, 2> in{}, out{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0)
    fail(ErrorKind::unsupported, "{} cannot be started: {}", command[0], std::strerror(errno));
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out.data()) != 0) {
    close(in[0]);
    close(in[1]);
    fail(ErrorKind::unsupported, "{} cannot be started: {}", command[0], std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_file_.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<std::string> words = command;
  std::vector<std::string> variables = environment_with(environment);
  const int error = posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                 pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[1]);
  close(out[1]);
  input_ = in[0];
  output_ = out[0];
  if (error == 0) {
    running.enter(pid_);
    return;
  }
  close(input_);
  close(output_);
  fail(ErrorKind::unsupported, "{} cannot be started: {}", command[0], std::strerror(error));
}

ChildProcess::~ChildProcess() {
  end_input();
  if (pid_ < 0) return;
  close(output_);
  running.leave(pid_);
  kill(pid_, SIGKILL);  // it has nothing to save, and taking a device down can take long
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::end_input() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

Ended ChildProcess::wait() {
  end_input();
  close(output_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  running.leave(pid_);
  pid_ = -1;
  return WIFSIGNALED(status) ? Ended{.signal = WTERMSIG(status)} : Ended{.code = WEXITSTATUS(status)};
}

bool ChildProcess::write_line(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t sent = send(input_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    done += static_cast<size_t>(sent);
  }
  return true;
}

bool ChildProcess::read_more() {
  for (;;) {
    std::array<char, 4096> bytes;
    const ssize_t got = read(output_, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    pending_.append(bytes.data(), static_cast<size_t>(got));
    return true;
  }
}

bool ChildProcess::has_line(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!pending_.contains('\n')) {
    const std::chrono::duration<double, std::milli> left = end - std::chrono::steady_clock::now();
    pollfd waited{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max(0.0, left.count())));
    if (ready == 0) return false;
    if (ready > 0 && !read_more()) return true;
  }
  return true;
}

std::optional<std::string> ChildProcess::read_line() {
  for (;;) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (!read_more()) return std::nullopt;
  }
}

std::string ChildProcess::last_complaint() const {
  std::ifstream file(stderr_file_);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rlx-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    fail(ErrorKind::invalid_file, "no folder for temporary files can be made as {}: {}", pattern,
         std::strerror(errno));
  path_ = pattern;
  folders.enter(path_.c_str());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // what stays behind is in the folder for temporary files
  std::filesystem::remove_all(path_, ignored);
  for (const std::string& file : files_) files.leave(file.c_str());
  folders.leave(path_.c_str());
}

std::string TemporaryFolder::file(std::string_view name) const {
  const auto [file, fresh] = files_.insert(path_ + "/" + std::string(name));
  if (fresh) files.enter(file->c_str());
  return *file;
}

void drop_child_processes() {
  running.for_each([](pid_t pid) { kill(pid, SIGKILL); });
  files.for_each([](const char* file) { unlink(file); });
  folders.for_each([](const char* folder) { rmdir(folder); });
}

}  // namespace rlx::measure
