// What was measured on adapters, as one file that several processes may read and write.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "rlx/adapter.h"

namespace rlx {

// Where a measured time holds: one adapter with one driver, and one version of the kernels and of what puts
// them together.
struct TuningScope {
  std::string adapter, driver, kernels;
  friend auto operator<=>(const TuningScope&, const TuningScope&) = default;
};
TuningScope tuning_scope(const AdapterInfo& adapter);

struct TuningRecord {
  enum class Verdict : uint8_t {
    timed,
    trying,       // for the first time; found later, it was interrupted, by the user or by a crash
    interrupted,  // which may be tried once more
    retrying,     // which, found later, has crashed the process
    crashed,      // the device, or the process
    wrong,        // numbers
    failed,       // could not be made
  };
  struct Entry {
    Verdict verdict = Verdict::timed;
    double ns = 0;  // of what is timed
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  static bool excludes(Verdict verdict) {
    return verdict != Verdict::timed && verdict != Verdict::interrupted;
  }

  std::string choice = {};  // "": not decided yet
  std::map<std::string, Entry, std::less<>> candidates = {};
  friend bool operator==(const TuningRecord&, const TuningRecord&) = default;
};
std::string_view to_string(TuningRecord::Verdict verdict);

class TuningRecords {
 public:
  struct Problem {
    TuningScope scope;
    std::string family, key;
    friend auto operator<=>(const Problem&, const Problem&) = default;
  };

  // What can be made sense of; nothing of what is broken or of another format.
  static bool can_parse(std::string_view json);
  static TuningRecords parse(std::string_view json);
  std::string text() const;

  const TuningRecord* find(const TuningScope& scope, std::string_view family, std::string_view key) const;
  TuningRecord& at(const TuningScope& scope, std::string_view family, std::string_view key);
  // Adds what the others have: for a problem that both have, candidates that one of them lacks. What either
  // excludes stays excluded, and is no choice.
  void merge(const TuningRecords& others);
  // Candidates that were being tried when the process died.
  void settle_trials();
  size_t size() const { return records_.size(); }
  const std::map<Problem, TuningRecord>& all() const { return records_; }

 private:
  std::map<Problem, TuningRecord> records_;
};

// Whoever changes the file has a lock on it, and puts a new one in its place at once: nobody reads half of
// it, and nothing that another process has added is lost.
class TuningFile {
 public:
  explicit TuningFile(std::string path) : path_(std::move(path)) {}
  // In the cache folder of a device; nothing if it has none.
  static std::optional<TuningFile> in_folder(const std::string& cache_folder);
  // Whether what stands there, if anything, are measured times that this version can read.
  bool is_ours() const;
  // ErrorKind::invalid_file if it is something else than a file.
  void check() const;

  const std::string& path() const { return path_; }
  TuningRecords read() const;  // empty if there is no file
  // ErrorKind::invalid_file if it cannot be written. What cannot be read is kept beside it, as PATH.old.
  void update(const std::function<void(TuningRecords&)>& change) const;
  // Whoever measures has it: two would disturb each other. Trials that are found then were ended by a crash.
  std::string turn() const { return path_ + ".turn"; }

 private:
  std::string path_;
};

// A lock on a file of its own beside another one. It ends with the process, however that ends.
class FileLock {
 public:
  // Nothing if another one holds it and `wait` is off, or if there can be no file.
  static std::optional<FileLock> take(const std::string& path, bool wait);
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace rlx
