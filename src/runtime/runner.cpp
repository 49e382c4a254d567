#include "runtime/runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fail.h"

namespace rlx {
namespace {

// A long loop without conditions is submitted in parts, so that the device can begin.
constexpr size_t kMostPending = 4096;
// Iterations of a loop between two looks at its condition: those after its end are wasted.
constexpr int64_t kMostUnread = 64;

}  // namespace

Task<> Runner::run() {
  for (; work_ < plan_.work().size(); ++work_) {
    if (plan_.work()[work_].code.empty()) add(plan_.commands_of(work_));
    for (at_ = 0; at_ < plan_.work()[work_].code.size();) {
      if (const std::optional<int32_t> word = execute(plan_.work()[work_].code[at_]))
        take_word(co_await read(*word));
      if (pending_.size() < kMostPending) continue;
      co_await submit_pending({});
      // One such part is made while the device has another, and no more: a loop may be endless.
      if (in_flight_) co_await *in_flight_;
      in_flight_ = device_.ticket();
    }
  }
  gpu::Work last;
  submitter_.add_outputs(last);
  co_await submit_pending(last);
}

Task<int32_t> Runner::read(int32_t storage) {
  const Placement place = plan_.place_of(storage);
  gpu::Readback word = device_.readback(sizeof(int32_t));
  const gpu::Copy copy{&plan_.buffer(place.buffer), static_cast<uint64_t>(place.offset), nullptr, 0,
                       sizeof(int32_t)};
  co_await submit_pending({.after = {&copy, 1}, .readback = &word});
  co_await word;
  int32_t value;
  std::memcpy(&value, word.bytes().data(), sizeof value);
  co_return value;
}

std::optional<int32_t> Runner::execute(const Instruction& i) {
  using enum Instruction::Kind;
  if (loops_.size() <= i.loop) loops_.resize(i.loop + 1);
  Loop& loop = loops_[i.loop];
  const bool reads = i.word != Instruction::kNoWord;
  switch (i.kind) {
    case run:
      add(plan_.commands_of(work_, i.first, i.count));
      ++at_;
      break;
    case unless:
    case size:
      return i.word;
    case jump:
      at_ = i.target;
      break;
    case begin:
      loop = {.made = 0, .trips = i.trips, .unread = 0, .next_unread = 1};
      if (reads) return i.word;
      ++at_;
      break;
    case test:
      if (loop.made >= loop.trips) {
        at_ = i.target;
      } else if (!reads || loop.unread > 0) {
        loop.unread -= reads;
        ++at_;
      } else {
        return i.word;
      }
      break;
    case next:
      ++loop.made;
      at_ = i.target;
      break;
  }
  return std::nullopt;
}

// The word that the current instruction has asked for.
void Runner::take_word(int32_t word) {
  using enum Instruction::Kind;
  const Instruction& i = plan_.work()[work_].code[at_];
  Loop& loop = loops_[i.loop];
  switch (i.kind) {
    case unless:
      at_ = word != 0 ? at_ + 1 : i.target;
      return;
    case begin:
      loop.trips = std::min<int64_t>(i.trips, word);
      ++at_;
      return;
    case test:
      if (word == 0) {
        at_ = i.target;
        return;
      }
      if (i.masked) {
        loop.unread = std::min(loop.next_unread, loop.trips - loop.made) - 1;
        loop.next_unread = std::min(2 * loop.next_unread, kMostUnread);
      }
      ++at_;
      return;
    case size: {
      if (word > i.capacity) {
        fail(ErrorKind::invalid_argument,
             "'{0}' makes the symbol '{1}' {2}, more than its capacity {3}; a larger one is given by "
             "Graph::set_capacity or --capacity {1}=N",
             plan_.names()[static_cast<size_t>(i.name)].name, i.symbol, word, i.capacity);
      }
      const std::string symbol = i.symbol;  // the instructions may be replaced
      plan_.set_run_symbol(symbol, word);
      ++at_;
      return;
    }
    case run:
    case jump:
    case next:
      check(false, "these instructions read nothing");
  }
}

void Runner::add(DevicePlan::Range range) {
  for (size_t i = range.first; i < range.first + range.count; ++i) pending_.push_back(i);
}

Task<> Runner::submit_pending(gpu::Work work) {
  commands_.clear();
  for (size_t i : pending_) commands_.push_back(plan_.commands()[i]);
  work.before = std::exchange(before_, {});
  work.dispatches = commands_;
  work.what = plan_.what();
  if (device_.is_first_run(commands_)) {
    co_await submit_in_pieces(work);
  } else {
    submitter_.submit(pending_, work);
  }
  pending_.clear();
}

// Drivers that compile a pipeline when it is first dispatched take most of a first run's time there. A piece
// ends with such a dispatch, or after a twentieth of the work, and is waited for, so that there is something
// to tell.
Task<> Runner::submit_in_pieces(gpu::Work work) {
  const std::span<const gpu::DispatchCommand> all = work.dispatches;
  const size_t most = std::max<size_t>(all.size() / 20, 1);
  device_.report(ProgressStage::first_run, 0, std::ssize(all));
  size_t first = 0;
  for (size_t end = 1; end <= all.size(); ++end) {
    const bool compiles = device_.note_first_run(all[end - 1]);
    const bool is_last = end == all.size();
    if (!compiles && !is_last && end - first < most) continue;
    gpu::Work piece{.before = std::exchange(work.before, {}),
                    .dispatches = all.subspan(first, end - first),
                    .what = work.what};
    if (is_last) {
      piece.after = work.after;
      piece.readback = work.readback;
    }
    submitter_.submit(std::span(pending_).subspan(first, end - first), piece);
    gpu::Ticket done = device_.ticket();
    co_await done;
    device_.report(ProgressStage::first_run, static_cast<int64_t>(end), std::ssize(all));
    first = end;
  }
}

}  // namespace rlx
