// Letters about ranks and hosts: they arrive as they were sent, and what is none is refused.
#include <gtest/gtest.h>

#include "collectives/doctor/letter.hpp"

namespace tutti::doctor {
namespace {

using State = RecordedCall::State;

constexpr Time start = 1'700'000'000'000'000'000;

Patient patient(int calls) {
  Patient one;
  one.life = Patient::Life::stopped;
  one.process = "sleeps in nanosleep";
  Recording& all = one.recording;
  all.rank = 3;
  all.size = 8;
  all.pid = 4711;
  all.started = 99;
  all.host = "h2";
  all.machine = "m";
  all.job = "job";
  all.program = "train";
  all.stage = Stage::running;
  all.staged_at = start;
  all.doing = "looks for the store";
  all.waiters = 1;
  all.waits_for = 7;
  all.looked_at = start + 5;
  all.lost = 2;
  all.communicators.push_back({1, "world", 3, 8, 0, 1, start});
  all.communicators.push_back({77, "half", -1, 4, 6, -2, start + 1});
  for (int i = 0; i < calls; ++i) {
    RecordedCall call;
    call.number = static_cast<std::uint64_t>(10 + 2 * i);
    call.state = i % 100 == 0 ? State::running : State::done;
    call.launched = start + 1000 * i;
    call.ended = call.state == State::running ? 0 : call.launched + 500;
    call.group = 1;
    call.call.bits = 0xfedcba9876543210u;
    call.bytes = 4000;
    call.sequence = static_cast<std::uint32_t>(i);
    call.label = i % 2 == 0 ? "MPI_Allreduce" : "";
    call.how = "tcp/ring";
    all.calls.push_back(call);
  }
  return one;
}

TEST(letter, tells_all_of_a_patient) {
  Patient sent = patient(20);
  Cause why;
  why.code = Code::timeout;
  why.culprit = 5;
  why.say("the deadline passed");
  sent.recording.failure = why;
  const Patient came = read_patient(letter_of(sent, 256));
  EXPECT_EQ(came.life, sent.life);
  EXPECT_EQ(came.process, sent.process);
  const Recording &a = sent.recording, &b = came.recording;
  EXPECT_EQ(std::tie(a.rank, a.size, a.pid, a.started, a.host, a.machine, a.job, a.program),
            std::tie(b.rank, b.size, b.pid, b.started, b.host, b.machine, b.job, b.program));
  EXPECT_EQ(std::tie(a.stage, a.staged_at, a.doing, a.waiters, a.waits_for, a.looked_at, a.lost),
            std::tie(b.stage, b.staged_at, b.doing, b.waiters, b.waits_for, b.looked_at, b.lost));
  ASSERT_TRUE(b.failure);
  EXPECT_STREQ(b.failure->text, "the deadline passed");
  EXPECT_EQ(b.failure->culprit, 5);
  ASSERT_EQ(b.communicators.size(), 2u);
  EXPECT_EQ(b.communicators[1].name, "half");
  EXPECT_EQ(std::tie(b.communicators[1].rank, b.communicators[1].first, b.communicators[1].stride),
            std::make_tuple(-1, 6, -2));
  ASSERT_EQ(b.calls.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    const RecordedCall &x = a.calls[i], &y = b.calls[i];
    EXPECT_EQ(std::tie(x.number, x.state, x.launched, x.ended, x.first, x.group, x.call.bits, x.bytes, x.sequence),
              std::tie(y.number, y.state, y.launched, y.ended, y.first, y.group, y.call.bits, y.bytes, y.sequence));
    EXPECT_EQ(std::tie(x.peer, x.from, x.label, x.how), std::tie(y.peer, y.from, y.label, y.how));
  }
}

TEST(letter, has_the_newest_calls_and_all_that_run_and_is_short) {
  const std::string letter = letter_of(patient(4000), 256);
  const Patient came = read_patient(letter);
  EXPECT_EQ(came.recording.calls.size(), 256u + 38u);
  EXPECT_EQ(came.recording.calls.back().sequence, 3999u);
  EXPECT_EQ(came.recording.calls.front().sequence, 0u);
  EXPECT_LT(letter.size(), 16u << 10);
  EXPECT_LT(letter_of(patient(0), 256).size(), 200u);
}

TEST(letter, tells_all_of_a_host) {
  const AskedHost sent{"h2", {2, 3, 9}, false, true, 4'000'000'000, "'ssh h2' has gone", -77, 12};
  const AskedHost came = read_host(letter_of(sent));
  EXPECT_EQ(
      std::tie(sent.name, sent.ranks, sent.answers, sent.here, sent.silent_for, sent.why, sent.ahead, sent.error),
      std::tie(came.name, came.ranks, came.answers, came.here, came.silent_for, came.why, came.ahead, came.error));
}

TEST(letter, of_another_version_or_cut_is_refused) {
  const std::string letter = letter_of(patient(20), 256), host = letter_of(AskedHost{.name = "h", .ranks = {0, 1}});
  for (std::size_t size = 0; size < letter.size(); ++size) EXPECT_THROW(read_patient(letter.substr(0, size)), Error);
  for (std::size_t size = 0; size < host.size(); ++size) EXPECT_THROW(read_host(host.substr(0, size)), Error);
  EXPECT_THROW(read_patient(letter + "x"), Error);
  EXPECT_THROW(read_patient(std::string(longest_letter + 1, 1)), Error);
  std::string other = letter;
  other[0] = 2;
  EXPECT_THROW(read_patient(other), Error);
}

// Numbers that no rank can have, as memory that is damaged has them: whoever reads them is not harmed.
TEST(letter, does_not_pass_on_what_cannot_be) {
  Patient sent = patient(2);
  sent.process = "two\nlines";
  sent.recording.staged_at = -5;
  sent.recording.calls[1].launched = std::numeric_limits<Time>::max();
  sent.recording.calls[1].ended = std::numeric_limits<Time>::min();
  const Patient came = read_patient(letter_of(sent, 256));
  EXPECT_EQ(came.process, "two?lines");
  EXPECT_EQ(came.recording.staged_at, 0);
  EXPECT_LT(came.recording.calls[1].launched, Time{1} << 62);
  const auto refused = [](auto change) {
    Patient one = patient(2);
    change(one.recording);
    EXPECT_THROW(read_patient(letter_of(one, 256)), Error);
  };
  refused([](Recording& one) { one.rank = 8; });
  refused([](Recording& one) { one.size = 1 << 21; });
  refused([](Recording& one) { one.communicators[0].size = 9; });
  refused([](Recording& one) { one.communicators[0].stride = 1 << 19; });
  refused([](Recording& one) { one.calls[0].peer = 1 << 21; });
  refused([](Recording& one) { one.calls[1].number = one.calls[0].number; });
}

}  // namespace
}  // namespace tutti::doctor
