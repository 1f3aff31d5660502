// The clocks of several hosts: what was measured, made better by what calls tell.
#include <gtest/gtest.h>

#include "collectives/doctor/clocks.hpp"
#include "collectives/doctor/lateness.hpp"

namespace tutti::doctor {
namespace {

using State = RecordedCall::State;

constexpr Time second = 1'000'000'000, start = 1000 * second, microsecond = 1000, millisecond = 1'000'000;

Signature call_of(Kind kind) {
  Collective call;
  call.kind = kind;
  call.in = ConstBuffer(nullptr, 100, DType::f32);
  call.out = Buffer(nullptr, 100, DType::f32);
  return signature(call, 0, 4);
}

/// Ranks whose hosts' clocks are wrong by `ahead`. Rank i is on host i.
struct Ranks {
  explicit Ranks(std::vector<Time> ahead_) : ahead(std::move(ahead_)) {
    for (std::size_t i = 0; i < ahead.size(); ++i) {
      Patient& one = patients.emplace_back();
      one.recording.rank = static_cast<int>(i);
      one.recording.size = static_cast<int>(ahead.size());
      one.recording.host = "h" + std::to_string(i);
    }
  }
  /// All make a call `begun` after the start; it ends 20 us after the last has begun it.
  void make(const std::vector<Time>& begun, Kind kind = Kind::allreduce) {
    ++sequence;
    const Time last = *std::max_element(begun.begin(), begun.end());
    for (std::size_t i = 0; i < ahead.size(); ++i) {
      RecordedCall call;
      call.number = sequence;
      call.sequence = sequence;
      call.state = State::done;
      call.group = 1;
      call.call = call_of(kind);
      call.launched = start + begun[i] + ahead[i];
      call.ended = start + last + 20 * microsecond + ahead[i];
      patients[i].recording.calls.push_back(call);
    }
  }
  /// How wrong the clocks of two hosts still are against each other.
  Time wrong(const std::vector<HostClock>& clocks, std::size_t a, std::size_t b) const {
    return std::abs((clocks[a].ahead - clocks[b].ahead) - (ahead[a] - ahead[b]));
  }
  std::vector<Time> ahead;
  std::vector<Patient> patients;
  std::uint32_t sequence = 0;
};

TEST(clocks, keep_what_was_measured_where_calls_do_not_contradict) {
  Ranks ranks({0, 5 * millisecond});
  ranks.make({0, 0});
  const auto clocks = clocks_of(ranks.patients, {{"h0", 0, 0}, {"h1", 5 * millisecond + 3 * microsecond, millisecond}});
  ASSERT_EQ(clocks.size(), 2u);
  EXPECT_EQ(clocks[0].ahead, 0);
  EXPECT_EQ(clocks[1].ahead, 5 * millisecond + 3 * microsecond);
}

TEST(clocks, become_better_by_calls_that_synchronize) {
  Ranks ranks({0, 5 * millisecond, -3 * second});
  ranks.make({0, 0, 0});
  ranks.make({2 * millisecond, millisecond, 2 * millisecond});
  const auto clocks =
      clocks_of(ranks.patients, {{"h0", 0, 0}, {"h1", 6 * millisecond, 2 * millisecond}, {"h2", 0, 10 * second}});
  EXPECT_EQ(clocks[0].ahead, 0);
  EXPECT_LE(ranks.wrong(clocks, 0, 1), 30 * microsecond);
  EXPECT_LE(ranks.wrong(clocks, 0, 2), 30 * microsecond);
}

TEST(clocks, change_by_no_more_than_their_error) {
  Ranks ranks({0, 5 * millisecond});
  ranks.make({0, 0});
  const auto clocks = clocks_of(ranks.patients, {{"h0", 0, 0}, {"h1", 0, millisecond}});
  EXPECT_EQ(clocks[1].ahead, millisecond);
}

TEST(clocks, learn_from_calls_alone_where_nothing_was_measured) {
  Ranks ranks({0, -7 * second, 40 * millisecond});
  for (Time at = 0; at < 10; ++at) ranks.make({at * second, at * second + at * millisecond, at * second});
  EXPECT_EQ(clocks_of({}, {}).size(), 0u);
  const auto clocks = clocks_of(ranks.patients, {});
  EXPECT_EQ(clocks[0].ahead, 0);
  EXPECT_LE(ranks.wrong(clocks, 0, 1), 40 * microsecond);
  EXPECT_LE(ranks.wrong(clocks, 0, 2), 40 * microsecond);
}

TEST(clocks, learn_nothing_from_calls_that_do_not_synchronize) {
  Ranks ranks({0, 5 * second});
  ranks.make({0, 0}, Kind::broadcast);
  EXPECT_EQ(clocks_of(ranks.patients, {})[1].ahead, 0);
}

TEST(clocks, make_lateness_that_of_one_clock) {
  Ranks ranks({0, 5 * second});  // by the clocks as they are, rank 1 is always late
  for (Time at = 0; at < 20; ++at) ranks.make({at * second + millisecond, at * second});
  EXPECT_EQ(latenesses(Job(ranks.patients, start + 100 * second, second)).front().rank, 1);
  align(ranks.patients, clocks_of(ranks.patients, {{"h0", 0, 0}, {"h1", 5 * second, 50 * microsecond}}));
  const Lateness worst = latenesses(Job(ranks.patients, start + 100 * second, second)).front();
  EXPECT_EQ(worst.rank, 0);
  EXPECT_EQ(worst.last, 20u);
}

}  // namespace
}  // namespace tutti::doctor
