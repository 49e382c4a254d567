#include "runtime/runner.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"

namespace rlx {
namespace {

// A long loop without conditions is submitted in parts, so that the device can begin.
constexpr size_t kMostPending = 4096;
// Iterations of a loop between two looks at its condition: those after its end are wasted.
constexpr int64_t kMostUnread = 64;

}  // namespace

Runner::Runner(std::shared_ptr<gpu::Device> device, std::shared_ptr<DevicePlan> plan,
               std::vector<gpu::Copy> before, Submit submit, Finish finish)
    : device_(std::move(device)),
      plan_(std::move(plan)),
      submit_(std::move(submit)),
      finish_(std::move(finish)),
      before_(std::move(before)) {
  if (const OverflowWords words = plan_->overflow(); words.buffer) before_.push_back(words.clearing());
}

bool Runner::advance(bool wait) {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  try {
    while (!done_) {
      if (word_) {
        if (!wait && !word_.ready()) return false;
        int32_t word;
        std::memcpy(&word, word_.wait().data(), sizeof word);
        word_ = {};
        take_word(word);
      }
      done_ = step();
    }
    let_go();
    return true;
  } catch (...) {
    error_ = std::current_exception();
    let_go();
    throw;
  }
}

// What the functions hold may hold this.
void Runner::let_go() {
  submit_ = nullptr;
  finish_ = nullptr;
}

bool Runner::step() {
  const std::vector<Program::Work>& all = plan_->work();
  for (; work_ < all.size(); ++work_, at_ = 0) {
    if (all[work_].code.empty()) add(plan_->commands_of(work_));
    while (at_ < all[work_].code.size()) {
      execute(all[work_].code[at_]);
      if (word_) return false;
    }
  }
  list_pending();
  finish_(pending_, {.before = before_, .dispatches = commands_});
  return true;
}

void Runner::execute(const Instruction& i) {
  using enum Instruction::Kind;
  if (loops_.size() <= i.loop) loops_.resize(i.loop + 1);
  Loop& loop = loops_[i.loop];
  const bool reads = i.word != Instruction::kNoWord;
  switch (i.kind) {
    case run:
      add(plan_->commands_of(work_, i.first, i.count));
      ++at_;
      return;
    case unless:
    case size:
      return request(i.word);
    case jump:
      at_ = i.target;
      return;
    case begin:
      loop = {.made = 0, .trips = i.trips, .unread = 0, .next_unread = 1};
      if (reads) return request(i.word);
      ++at_;
      return;
    case test:
      if (loop.made >= loop.trips) {
        at_ = i.target;
      } else if (!reads || loop.unread > 0) {
        loop.unread -= reads;
        ++at_;
      } else {
        request(i.word);
      }
      return;
    case next:
      ++loop.made;
      at_ = i.target;
      return;
  }
}

// The word that the current instruction has asked for.
void Runner::take_word(int32_t word) {
  using enum Instruction::Kind;
  const Instruction& i = plan_->work()[work_].code[at_];
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
             plan_->names()[static_cast<size_t>(i.name)].name, i.symbol, word, i.capacity);
      }
      const std::string symbol = i.symbol;  // the instructions may be replaced
      plan_->set_run_symbol(symbol, word);
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
  if (pending_.size() >= kMostPending) submit_pending(nullptr);
}

void Runner::request(int32_t word) {
  const Placement place = plan_->place_of(word);
  word_ = device_->readback(sizeof(int32_t));
  copies_ = {
      {&plan_->buffer(place.buffer), static_cast<uint64_t>(place.offset), nullptr, 0, sizeof(int32_t)}};
  submit_pending(&word_);
  copies_.clear();
}

void Runner::list_pending() {
  commands_.clear();
  for (size_t i : pending_) commands_.push_back(plan_->commands()[i]);
}

void Runner::submit_pending(gpu::Readback* readback) {
  list_pending();
  submit_(pending_, {.before = before_, .dispatches = commands_, .after = copies_, .readback = readback});
  before_.clear();
  pending_.clear();
}

}  // namespace rlx
