// What a compilation knows about kernels before it estimates: choices that are replayed, and measured times.
// It also takes note of what is chosen.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/device.h"
#include "kernels/choices.h"
#include "kernels/target.h"
#include "rlx/compile.h"
#include "runtime/tuning_records.h"

namespace rlx {

class KnownChoices final : public Chooser {
 public:
  KnownChoices(KernelChoices replayed, TuningRecords records, TuningScope scope)
      : replayed_(std::move(replayed)), records_(std::move(records)), scope_(std::move(scope)) {}

  bool knows(std::string_view family, std::string_view key) const override;
  std::string_view settled(std::string_view family, std::string_view key) const override;
  std::optional<double> measured_ns(std::string_view family, std::string_view key,
                                    std::string_view candidate) const override;
  void chosen(const Decision& decision) const override;

  std::string choices() const;  // so far (KernelChoices::text)

 private:
  // Empty if nothing is to be replayed, or if it has turned out to be wrong since.
  std::string_view replayed(std::string_view family, std::string_view key) const;

  const KernelChoices replayed_;
  const TuningRecords records_;
  const TuningScope scope_;
  mutable std::mutex mutex_;
  mutable KernelChoices chosen_;
};

// As the options say, which have those of the environment.
std::shared_ptr<const KnownChoices> known_choices(const gpu::Device& device, const CompileOptions& options);

}  // namespace rlx
