#include "runtime/tuning_records.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fail.h"
#include "base/json.h"
#include "kernels/registry.h"
#include "rlx/version.h"

namespace rlx {

namespace fs = std::filesystem;

namespace {

// Grows when what is measured, or which kernels hosts make of the same texts, changes its meaning.
constexpr int kFormat = 1;
constexpr std::string_view kFormatName = "rlx_tuning";

using Verdict = TuningRecord::Verdict;
constexpr Verdict kVerdicts[] = {Verdict::timed,   Verdict::trying, Verdict::interrupted, Verdict::retrying,
                                 Verdict::crashed, Verdict::wrong,  Verdict::failed};

std::optional<TuningRecord::Entry> read_entry(const Json& value) {
  if (const auto ns = value.number()) {
    if (!std::isfinite(*ns) || *ns < 0) return std::nullopt;
    return TuningRecord::Entry{.ns = *ns};
  }
  const std::optional<std::string> name = value.string();
  for (const Verdict verdict : kVerdicts) {
    if (name && verdict != Verdict::timed && *name == to_string(verdict))
      return TuningRecord::Entry{.verdict = verdict};
  }
  return std::nullopt;
}

void read_record(const Json& item, TuningRecords& out) {
  const auto text = [&](std::string_view name) {
    const std::optional<Json> member = item.member(name);
    return member ? member->string() : std::nullopt;
  };
  const auto adapter = text("adapter");
  const auto driver = text("driver");
  const auto kernels = text("kernels");
  const auto family = text("family");
  const auto key = text("key");
  const auto candidates = item.member("candidates");
  if (!adapter || !driver || !kernels || !family || !key || !candidates) return;
  TuningRecord record;
  for (const std::string& name : candidates->names()) {
    const auto entry = read_entry(*candidates->member(name));
    if (!entry) return;
    record.candidates[name] = *entry;
  }
  record.choice = text("choice").value_or("");
  const auto chosen = record.candidates.find(record.choice);
  if (!record.choice.empty() &&
      (chosen == record.candidates.end() || TuningRecord::excludes(chosen->second.verdict)))
    return;
  out.at({*adapter, *driver, *kernels}, *family, *key) = std::move(record);
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::timed:
      return "timed";
    case Verdict::trying:
      return "trying";
    case Verdict::interrupted:
      return "interrupted";
    case Verdict::retrying:
      return "retrying";
    case Verdict::crashed:
      return "crashed";
    case Verdict::wrong:
      return "wrong";
    case Verdict::failed:
      return "failed";
  }
  return "";
}

TuningScope tuning_scope(const AdapterInfo& adapter) {
  return {.adapter = adapter.backend + ": " + adapter.name,
          .driver = adapter.driver,
          .kernels = formatted("{} {:016x}", version(), kernels::texts_hash())};
}

// --- Records ---

bool TuningRecords::can_parse(std::string_view json) {
  const std::optional<Json> file = Json::read(json);
  const std::optional<Json> format = file ? file->member(kFormatName) : std::nullopt;
  return format && format->number() == kFormat;
}

TuningRecords TuningRecords::parse(std::string_view json) {
  TuningRecords out;
  if (!can_parse(json)) return out;
  const std::optional<Json> file = Json::read(json);
  const std::optional<Json> items = file->member("records");
  if (!items) return out;
  for (size_t i = 0;; ++i) {
    const std::optional<Json> item = items->item(i);
    if (!item) return out;
    read_record(*item, out);
  }
}

std::string TuningRecords::text() const {
  Json items = Json::array();
  for (const auto& [problem, record] : records_) {
    if (record.candidates.empty()) continue;
    Json candidates = Json::object();
    for (const auto& [name, entry] : record.candidates)
      candidates.set(name, entry.verdict == Verdict::timed ? Json(entry.ns) : Json(to_string(entry.verdict)));
    Json item = Json::object({{"adapter", problem.scope.adapter},
                              {"driver", problem.scope.driver},
                              {"kernels", problem.scope.kernels},
                              {"family", problem.family},
                              {"key", problem.key}});
    if (!record.choice.empty()) item.set("choice", record.choice);
    item.set("candidates", candidates);
    items.add(item);
  }
  Json file = Json::object({{kFormatName, kFormat}});
  file.set("records", items);
  return file.text(1) + "\n";
}

const TuningRecord* TuningRecords::find(const TuningScope& scope, std::string_view family,
                                        std::string_view key) const {
  const auto found = records_.find(Problem{scope, std::string(family), std::string(key)});
  return found == records_.end() ? nullptr : &found->second;
}

TuningRecord& TuningRecords::at(const TuningScope& scope, std::string_view family, std::string_view key) {
  return records_[Problem{scope, std::string(family), std::string(key)}];
}

void TuningRecords::merge(const TuningRecords& others) {
  for (const auto& [problem, theirs] : others.records_) {
    const auto [it, fresh] = records_.try_emplace(problem, theirs);
    if (fresh) continue;
    TuningRecord& ours = it->second;
    for (const auto& [name, entry] : theirs.candidates) {
      const auto [own, added] = ours.candidates.try_emplace(name, entry);
      if (!added && TuningRecord::excludes(entry.verdict)) own->second = entry;
    }
    if (ours.choice.empty()) ours.choice = theirs.choice;
    const auto chosen = ours.candidates.find(ours.choice);
    if (chosen != ours.candidates.end() && TuningRecord::excludes(chosen->second.verdict))
      ours.choice.clear();
  }
}

void TuningRecords::settle_trials() {
  for (auto& [problem, record] : records_) {
    for (auto& [name, entry] : record.candidates) {
      if (entry.verdict == Verdict::retrying) entry.verdict = Verdict::crashed;
      if (entry.verdict == Verdict::trying) entry.verdict = Verdict::interrupted;
    }
  }
}

// --- The file ---

std::optional<TuningFile> TuningFile::in_folder(const std::string& cache_folder) {
  if (cache_folder.empty()) return std::nullopt;
  return TuningFile((fs::path(cache_folder) / "tuning.json").string());
}

namespace {

// "" where there is no file: devices and pipes are not read.
std::string text_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

}  // namespace

bool TuningFile::is_ours() const {
  const std::string text = text_of(path_);
  return text.empty() || TuningRecords::can_parse(text);
}

void TuningFile::check() const {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_regular_file(path_, error))
    fail(ErrorKind::invalid_file, "{}: measured times cannot be written there, since it is no file", path_);
}

TuningRecords TuningFile::read() const { return TuningRecords::parse(text_of(path_)); }

void TuningFile::update(const std::function<void(TuningRecords&)>& change) const {
  check();
  const auto refuse = [&] { fail(ErrorKind::invalid_file, "{}: measured times cannot be written", path_); };
  const std::optional<FileLock> lock = FileLock::take(path_ + ".lock", true);
  if (!lock) refuse();
  TuningRecords records = read();
  change(records);
  const std::string unfinished = path_ + ".new";
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  out << records.text();
  out.close();
  std::error_code error;
  if (!is_ours()) fs::rename(path_, path_ + ".old", error);
  if (out) fs::rename(unfinished, path_, error);
  if (!out || error) refuse();
}

// --- Locks ---

std::optional<FileLock> FileLock::take(const std::string& path, bool wait) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  const int descriptor = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor < 0) return std::nullopt;
  while (flock(descriptor, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    close(descriptor);
    return std::nullopt;
  }
  return FileLock(descriptor);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace rlx
