// Tasks: what they return, where they stop, and what becomes of errors.
#include "base/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace rlx {
namespace {

// Ends after so many looks, or when somebody waits for it.
class Countdown final : public Completion {
 public:
  explicit Countdown(int looks, bool fails = false) : looks_(looks), fails_(fails) {}
  bool ready() override { return --looks_ < 0; }
  void wait() override {
    ++waits;
    if (fails_) fail(ErrorKind::device_lost, "gone");
  }
  ProgressReport progress() const override { return {ProgressStage::pipelines, 3 - looks_, 3}; }
  int waits = 0;

 private:
  int looks_;
  bool fails_;
};

Task<int> sum(std::vector<int> parts, std::vector<std::string>& log) {
  int out = 0;
  for (const int part : parts) {
    Countdown completion(part);
    co_await completion;
    log.push_back("after " + std::to_string(part));
    out += part;
  }
  co_return out;
}

Task<std::string> text(std::vector<std::string>& log) {
  const int first = co_await sum({1, 2}, log);
  const int second = co_await sum({}, log);
  co_return std::to_string(first) + "+" + std::to_string(second);
}

TEST(Task, BlocksOrGoesOnStepByStep) {
  std::vector<std::string> log;
  EXPECT_EQ(blocking(text(log)), "3+0");
  EXPECT_EQ(log, (std::vector<std::string>{"after 1", "after 2"}));

  log.clear();
  Task<std::string> task = text(log);
  TaskPosition position;
  EXPECT_TRUE(log.empty()) << "nothing runs by itself";
  EXPECT_FALSE(task.advance(position, false));
  EXPECT_EQ(position.awaited->progress().total, 3);
  int steps = 1;
  while (!task.advance(position, false)) ++steps;
  EXPECT_EQ(steps, 3) << "each look counts down by one";
  EXPECT_EQ(task.take(), "3+0");
}

TEST(Task, CanBlockInTheMiddle) {
  std::vector<std::string> log;
  Task<std::string> task = text(log);
  TaskPosition position;
  EXPECT_FALSE(task.advance(position, false));
  EXPECT_TRUE(task.advance(position, true));
  EXPECT_EQ(task.take(), "3+0");
}

Task<int> second_try() {
  for (const bool fails : {true, false}) {
    try {
      Countdown completion(1, fails);
      co_await completion;
      co_return fails ? 1 : 2;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::device_lost) throw;
    }
  }
  co_return 3;
}

Task<> unlucky() {
  Countdown completion(0, true);
  co_await completion;
}

TEST(Task, ErrorsOfCompletionsAreThrownWhereTheyAreAwaited) {
  EXPECT_EQ(blocking(second_try()), 2);
  Task<int> task = second_try();
  TaskPosition position;
  while (!task.advance(position, false)) {
  }
  EXPECT_EQ(task.take(), 2);
  EXPECT_THROW(blocking(unlucky()), Error);
}

Task<> hold(std::shared_ptr<int> held, Completion& completion) {
  co_await completion;
  ++*held;
}

TEST(Task, DroppingOneEndsItWhereItWaits) {
  const auto held = std::make_shared<int>(0);
  Countdown completion(5);
  {
    Task<> task = hold(held, completion);
    TaskPosition position;
    EXPECT_FALSE(task.advance(position, false));
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 0);
}

TEST(Task, ACancelledOneMakesNoFurtherStep) {
  std::atomic<bool> cancelled = false;
  std::vector<std::string> log;
  Task<std::string> task = text(log);
  TaskPosition position{.cancelled = &cancelled};
  EXPECT_FALSE(task.advance(position, false));
  cancelled = true;
  EXPECT_TRUE(task.advance(position, true));
  EXPECT_THROW(
      {
        try {
          task.take();
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::cancelled);
          throw;
        }
      },
      Error);
  EXPECT_TRUE(log.empty());
}

}  // namespace
}  // namespace rlx
