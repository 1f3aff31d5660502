// The history of a run: a file that only grows, and that every checkpoint refers to for the steps before it.
#include "engine/checkpoint/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/support/contents.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using testing::refusal;
using ::testing::StartsWith;

/// A run that writes checkpoints without tensors.
class Course {
 public:
  explicit Course(const fs::path& folder) : store_(folder, 0, true), history_(folder, {}) {}
  Course(const fs::path& folder, std::size_t step) : store_(folder, 0, true), history_(folder, read(folder, step)) {}

  /// Continues to a step, with an epoch's end and a validation after every 10 steps.
  void go_to(std::size_t step) {
    while (state_.step < step) {
      state_.losses.push_back(std::sin(static_cast<double>(++state_.step)));
      if (state_.step % 10 > 0) continue;
      state_.epoch = state_.step / 10;
      state_.validations.push_back({.step = state_.step, .epoch = 1, .loss = 0.1, .metrics = {{"accuracy", 0.5}}});
      EpochResult result;
      result.epoch = state_.epoch;
      result.step = state_.step;
      result.ranks = 12;
      result.waited_for = {{0, 0.25}, {4, 0.5}};
      state_.epochs.push_back(result);
    }
  }
  /// Writes a checkpoint. Returns the bytes that were written for the state and the history.
  std::size_t save() {
    RunState kept = state_.without_past();
    const std::string lines = history_.note(state_);
    kept.history = history_.mark();
    kept.batch = 8;
    const std::string text = kept.json();
    history_.append(lines, kept.history);
    Saver saver(store_);
    saver.start(state_.step, {.tensors = {}, .texts = {{RunState::file, text}}}, false);
    saver.wait();
    return text.size() + lines.size();
  }
  RunState& state() { return state_; }

 private:
  HistoryMark read(const fs::path& folder, std::size_t step) {
    state_ = RunState::read(folder / ("step-" + std::to_string(step)) / RunState::file);
    state_.read_past(folder, true);
    return state_.history;
  }

  RunState state_;
  CheckpointStore store_;
  History history_;
};

class HistoryTest : public ::testing::Test {
 protected:
  RunState at(std::size_t step) const {
    RunState state = RunState::read(folder_ / ("step-" + std::to_string(step)) / RunState::file);
    state.read_past(folder_, true);
    return state;
  }
  std::string fault(std::size_t step, bool sums = true) const {
    return fault_of(folder_ / ("step-" + std::to_string(step)), sums);
  }

  const testing::TemporaryFolder temporary_;
  const fs::path folder_ = fs::path(temporary_.path()) / "checkpoints";
};

TEST_F(HistoryTest, EveryCheckpointHasItsPast) {
  Course run(folder_);
  for (const std::size_t step : {7, 25, 40}) {
    run.go_to(step);
    run.save();
  }
  for (const std::size_t step : {7, 25, 40}) {
    EXPECT_EQ(fault(step), "");
    const RunState state = at(step);
    EXPECT_EQ(state.losses,
              std::vector(run.state().losses.begin(), run.state().losses.begin() + static_cast<std::ptrdiff_t>(step)));
    EXPECT_EQ(state.epochs.size(), step / 10);
    EXPECT_EQ(state.validations.size(), step / 10);
  }
  EXPECT_EQ(at(40).epochs[3].ranks, 12U);
  EXPECT_EQ(at(40).epochs[3].waited_for, (std::vector<WaitedFor>{{0, 0.25}, {4, 0.5}}));
  EXPECT_EQ(at(40).validations[3].metrics, (Metrics{{"accuracy", 0.5}}));
}

TEST_F(HistoryTest, AStateIsAsLongAfterAMillionSteps) {
  Course run(folder_);
  run.go_to(100);
  run.save();
  const auto before = fs::file_size(folder_ / "step-100/state.json");
  run.go_to(1'000'000);
  run.save();
  const auto after = fs::file_size(folder_ / "step-1000000/state.json");
  EXPECT_LT(after, before + 60) << "numbers have more digits, and that is all";
  EXPECT_LT(after, 2048U);
  run.go_to(1'000'100);
  EXPECT_LT(run.save(), 2048 + 100 * 30 + 20 * 400U) << "a checkpoint writes what is new";
}

TEST_F(HistoryTest, ARunThatGoesOnEarlierLeavesLaterOnesWhole) {
  {
    Course run(folder_);
    for (const std::size_t step : {8, 16, 24}) {
      run.go_to(step);
      run.save();
    }
  }
  Course other(folder_, 8);
  other.state().losses.back() = 77;  // changes nothing: this loss is written already
  other.go_to(20);
  other.save();
  for (const std::size_t step : {8, 16, 20, 24}) EXPECT_EQ(fault(step), "") << step;
  EXPECT_EQ(at(20).losses.size(), 20U);
  EXPECT_EQ(at(20).losses[7], at(24).losses[7]);
  EXPECT_EQ(at(8).history.file, "history.jsonl");
  EXPECT_EQ(at(20).history.file, "history-1.jsonl");
  Course last(folder_, 20);  // nothing was written after step 20, so the file is continued
  last.go_to(30);
  last.save();
  EXPECT_EQ(at(30).history.file, "history-1.jsonl");
}

TEST_F(HistoryTest, WhatNoCheckpointNeedsIsCutOrGoes) {
  {
    Course run(folder_);
    run.go_to(8);
    run.save();
  }
  std::ofstream(folder_ / "history.jsonl", std::ios::app) << "{\"losses\":[";  // as of a killed process
  std::ofstream(folder_ / "history-3.jsonl") << "old";
  EXPECT_EQ(fault(8), "");
  Course run(folder_, 8);
  EXPECT_FALSE(fs::exists(folder_ / "history-3.jsonl"));
  run.go_to(12);
  run.save();
  EXPECT_EQ(at(12).history.file, "history.jsonl");
  EXPECT_EQ(at(12).losses.size(), 12U);
  EXPECT_EQ(fault(8), "");
}

TEST_F(HistoryTest, AStateOfAnEarlierVersionGoesOnWithAHistory) {
  fs::create_directories(folder_ / "step-4");
  RunState old;
  old.step = 4;
  old.batch = 8;
  old.losses = {1, 0.5, std::numeric_limits<double>::quiet_NaN(), 0.25};
  std::string text = old.json();
  text.replace(text.find(" \"manifest\": true,\n"), std::string(" \"manifest\": true,\n").size(), "");
  std::ofstream(folder_ / "step-4/state.json") << text;
  EXPECT_EQ(fault(4), "");
  Course run(folder_, 4);
  EXPECT_EQ(run.state().losses.size(), 4U);
  run.go_to(6);
  run.save();
  const RunState state = at(6);
  ASSERT_EQ(state.losses.size(), 6U);
  EXPECT_EQ(state.losses[3], 0.25);
  EXPECT_TRUE(std::isnan(state.losses[2]));
}

TEST(EpochRecords, OfAnEarlierVersionHaveTheSecondsOfAllRanks) {
  const RunPast past = parse_history(
      R"({"epoch":{"epoch":1,"epochs":2,"step":5,"learning_rate":0.1,"train_loss":1,"test_loss":1,"metrics":[],)"
      R"("samples_per_second":10,"phases":[1,2,3,4,5],"waited_for":[0.5,0.25]}})"
      "\n",
      "here");
  ASSERT_EQ(past.epochs.size(), 1U);
  EXPECT_EQ(past.epochs[0].ranks, 2U);
  EXPECT_EQ(past.epochs[0].waited_for, (std::vector<WaitedFor>{{0, 0.5}, {1, 0.25}}));
}

TEST_F(HistoryTest, DamageIsNamedWithItsFile) {
  Course run(folder_);
  run.go_to(12);
  run.save();
  const fs::path file = folder_ / "history.jsonl";
  const std::string whole = contents(file);
  const auto with = [&](const std::string& text, bool sums = true) {
    std::ofstream(file, std::ios::trunc) << text;
    const std::string found = fault(12, sums);
    EXPECT_THAT(found, StartsWith(file.string()));
    return found;
  };
  EXPECT_THAT(with(whole.substr(0, 50)), HasSubstr("has 50 bytes of " + std::to_string(whole.size())));
  std::string other = whole;
  other[15] = other[15] == '1' ? '2' : '1';
  EXPECT_THAT(with(other), HasSubstr("checksum of its first"));
  std::ofstream(file, std::ios::trunc) << other;
  EXPECT_EQ(fault(12, false), "") << "checksums are left out";
  other = whole;
  other[other.find("losses")] = 'x';
  EXPECT_THAT(with(other, false), AllOf(HasSubstr("line 1"), HasSubstr("no part of a run's history")));
  other = whole;
  other[other.size() - 1] = ' ';
  EXPECT_THAT(with(other, false), HasSubstr("its end is missing"));
  EXPECT_THAT(refusal([&] { read_history(folder_, {.file = "history.jsonl", .losses = 3}, true); }),
              HasSubstr("not as many losses"));
  fs::remove(file);
  EXPECT_THAT(fault(12), HasSubstr("history.jsonl: is missing"));
  std::string state = contents(folder_ / "step-12/state.json");
  state.replace(state.find("history.jsonl"), 13, "../../x.jsonl");
  std::ofstream(fs::path(temporary_.path()) / "state.json") << state;
  EXPECT_THAT(refusal([&] { RunState::read(fs::path(temporary_.path()) / "state.json"); }),
              HasSubstr("is no history of a run"));
  state = contents(folder_ / "step-12/state.json");
  const std::size_t at_bytes = state.find("\"bytes\": ");
  state.replace(at_bytes, state.find(',', at_bytes) - at_bytes, "\"bytes\": 0");
  std::ofstream(fs::path(temporary_.path()) / "state.json", std::ios::trunc) << state;
  EXPECT_THAT(refusal([&] { RunState::read(fs::path(temporary_.path()) / "state.json"); }),
              HasSubstr("the history has 0 bytes with 12 losses, 1 epochs and 1 validations"));
}

}  // namespace
}  // namespace tutti::engine
