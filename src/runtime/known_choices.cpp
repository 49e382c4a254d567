#include "runtime/known_choices.h"

#include <limits>
#include <utility>

namespace rlx {

std::string_view KnownChoices::replayed(std::string_view family, std::string_view key) const {
  const std::string_view candidate = replayed_.find(family, key);
  if (candidate.empty()) return {};
  const TuningRecord* const record = records_.find(scope_, family, key);
  const auto entry = record ? record->candidates.find(candidate) : decltype(record->candidates.end())();
  const bool excluded =
      record && entry != record->candidates.end() && TuningRecord::excludes(entry->second.verdict);
  return excluded ? std::string_view() : candidate;
}

bool KnownChoices::knows(std::string_view family, std::string_view key) const {
  return !replayed_.find(family, key).empty() || records_.find(scope_, family, key);
}

std::string_view KnownChoices::settled(std::string_view family, std::string_view key) const {
  if (const std::string_view before = replayed(family, key); !before.empty()) return before;
  const TuningRecord* const record = records_.find(scope_, family, key);
  return record ? std::string_view(record->choice) : std::string_view();
}

std::optional<double> KnownChoices::measured_ns(std::string_view family, std::string_view key,
                                                std::string_view candidate) const {
  const TuningRecord* const record = records_.find(scope_, family, key);
  const bool replays = !replayed(family, key).empty();
  if (!record) return std::nullopt;
  const auto entry = record->candidates.find(candidate);
  if (entry == record->candidates.end()) return std::nullopt;
  if (TuningRecord::excludes(entry->second.verdict)) return std::numeric_limits<double>::infinity();
  if (entry->second.verdict != TuningRecord::Verdict::timed) return std::nullopt;
  // What is replayed was not chosen for its time.
  return replays ? std::nullopt : std::optional(entry->second.ns);
}

void KnownChoices::chosen(const Decision& decision) const {
  if (decision.key.empty()) return;  // a replay within this executable
  const std::lock_guard lock(mutex_);
  // Deep graphs have the same problems again and again.
  if (!chosen_.find(decision.family, decision.key).empty()) return;
  chosen_.add(decision.family, decision.key, decision.all[decision.taken].text());
}

std::string KnownChoices::choices() const {
  const std::lock_guard lock(mutex_);
  return chosen_.text();
}

std::shared_ptr<const KnownChoices> known_choices(const gpu::Device& device, const CompileOptions& options) {
  TuningRecords records;
  if (options.tuning.records) {
    if (const auto own = TuningFile::in_folder(device.cache_folder())) records = own->read();
    for (const std::string& file : options.tuning.files) records.merge(TuningFile(file).read());
  }
  return std::make_shared<const KnownChoices>(
      options.choices.empty() ? KernelChoices() : KernelChoices::parse(options.choices), std::move(records),
      tuning_scope(device.info()));
}

}  // namespace rlx
