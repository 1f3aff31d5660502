// The doctor's diagnosis of recordings that are made here: each mistake of a program, and whom it names.
#include <gtest/gtest.h>

#include "collectives/doctor/diagnosis.hpp"
#include "collectives/doctor/lateness.hpp"
#include "collectives/doctor/waits.hpp"
#include "collectives/doctor/words.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;
using Life = Patient::Life;
using State = RecordedCall::State;
using What = RecordedCall::What;

constexpr Time second = 1'000'000'000, now = 1000 * second;
constexpr std::uint64_t world = 1;

Signature allreduce(std::size_t count = 100) {
  Collective call;
  call.kind = tutti::Kind::allreduce;
  call.in = ConstBuffer(nullptr, count, DType::f32);
  call.out = Buffer(nullptr, count, DType::f32);
  return signature(call, 0, 4);
}

Signature barrier() { return signature(Collective{}, 0, 4); }

/// Ranks of one host, whose calls are added one by one.
class Ranks {
 public:
  explicit Ranks(int size) {
    for (int rank = 0; rank < size; ++rank) {
      Patient one;
      one.recording.rank = rank;
      one.recording.size = size;
      one.recording.pid = 100 + rank;
      one.recording.host = "h1";
      one.recording.job = "job";
      one.recording.stage = Stage::running;
      one.life = Life::lives;
      patients.push_back(one);
      communicator(rank, world, "world", rank, size, 0, 1);
    }
  }
  Recording& operator[](int rank) { return patients[static_cast<std::size_t>(rank)].recording; }
  Patient& patient(int rank) { return patients[static_cast<std::size_t>(rank)]; }

  void communicator(int rank, std::uint64_t id, const std::string& name, int own, int size, int first, int stride) {
    (*this)[rank].communicators.push_back({id, name, own, size, first, stride, 0});
  }
  RecordedCall& collective(int rank, std::uint32_t sequence, Signature what, State state, Time ago,
                           std::uint64_t group = world) {
    RecordedCall& call = add(rank, What::collective, state, ago, group);
    call.sequence = sequence;
    call.call = what;
    call.bytes = 400;
    return call;
  }
  RecordedCall& exchange(int rank, int to, int from, std::uint32_t tag, State state, Time ago) {
    RecordedCall& call = add(rank, What::exchange, state, ago, world);
    call.sequence = tag;
    call.peer = to;
    call.from = from;
    return call;
  }
  /// A thread of the rank waits for its last call.
  void wait(int rank) {
    (*this)[rank].waiters = 1;
    (*this)[rank].waits_for = (*this)[rank].calls.back().number;
  }
  void all_make(std::uint32_t sequence, Time ago) {
    for (const Patient& one : patients) collective(one.recording.rank, sequence, allreduce(), State::done, ago);
  }
  Finding diagnosis() const { return diagnose(patients, now).finding; }

  std::vector<Patient> patients;

 private:
  RecordedCall& add(int rank, What what, State state, Time ago, std::uint64_t group) {
    RecordedCall call;
    call.number = (*this)[rank].calls.size() + 1;
    call.what = what;
    call.state = state;
    call.launched = now - ago;
    if (state != State::running) call.ended = now - ago + 1000;
    call.group = group;
    call.how = "shm/flat";
    (*this)[rank].calls.push_back(call);
    return (*this)[rank].calls.back();
  }
};

void expect(const Finding& found, Kind kind, std::vector<int> culprits, std::vector<std::string> words) {
  EXPECT_EQ(name(found.kind), name(kind)) << found.text;
  EXPECT_EQ(found.culprits, culprits) << found.text;
  for (const std::string& word : words)
    EXPECT_NE(found.text.find(word), std::string::npos) << word << "\n" << found.text;
}

TEST(diagnosis, finds_nothing_in_a_healthy_job) {
  Ranks ranks(4);
  expect(ranks.diagnosis(), Kind::healthy, {}, {"no rank has made a call"});
  ranks.all_make(1, 5 * second);
  ranks.collective(0, 2, allreduce(), State::running, second / 10);
  expect(ranks.diagnosis(), Kind::healthy, {}, {"Nothing is stuck: no call has run for longer than 1.0 s"});
  ranks[0].calls.back().launched = 0;  // its start has just begun
  EXPECT_EQ(ranks.diagnosis().kind, Kind::healthy);
}

TEST(diagnosis, says_where_ranks_are_that_make_no_calls) {
  Ranks ranks(6);
  ranks.all_make(1, 9 * second);
  for (const int rank : {0, 2, 3, 5}) ranks.patient(rank).process = "waits in poll";
  ranks.patient(1).process = "is in MPI_Send";
  expect(ranks.diagnosis(), Kind::outside, {},
         {"The ranks are in no call that tutti knows of. The last one, of rank 0, was call 1 of world", "9.0 s ago",
          "Each of ranks 0, 2, 3, 5 waits in poll.", "Rank 1 is in MPI_Send.", "Rank 4 cannot be looked at."});
  ranks.patient(1).recording.stage = Stage::ended;
  for (int rank = 0; rank < 6; ++rank) ranks.patient(rank).process = "does " + std::to_string(rank);
  expect(ranks.diagnosis(), Kind::outside, {},
         {"Rank 0 does 0. Rank 2 does 2. Rank 3 does 3. Rank 4 does 4. The other ranks do other things."});
  ranks.collective(5, 2, allreduce(), State::running, second / 10);
  EXPECT_EQ(ranks.diagnosis().kind, Kind::healthy);
}

TEST(diagnosis, names_the_rank_that_never_entered_a_call) {
  Ranks ranks(4);
  ranks.all_make(1, 20 * second);
  for (const int rank : {0, 1, 3}) {
    ranks.collective(rank, 2, allreduce(), State::running, rank == 3 ? second / 2 : 12 * second);
    ranks.wait(rank);
  }
  ranks.patient(2).process = "computes at main+0x41 of a.out";
  expect(ranks.diagnosis(), Kind::late, {2},
         {"Rank 2 has not entered call 2 of world (allreduce(sum, f32, count 100), 400 bytes)",
          "ranks 0, 1, 3 have waited", "12.0 s", "its last call was call 1 of world", "20.0 s ago",
          "computes at main+0x41"});
}

TEST(diagnosis, names_every_rank_that_has_not_entered) {
  Ranks ranks(4);
  ranks.collective(0, 1, allreduce(), State::running, 3 * second);
  ranks.wait(0);
  expect(ranks.diagnosis(), Kind::late, {1, 2, 3}, {"it has made no call"});
}

TEST(diagnosis, names_a_process_that_is_gone_and_not_its_victims) {
  Ranks ranks(4);
  ranks.all_make(1, 5 * second);
  for (int rank = 0; rank < 4; ++rank) ranks.collective(rank, 2, allreduce(), State::failed, 2 * second);
  ranks[2].calls.back().state = State::running;
  Cause why;
  why.code = Code::peer_lost;
  why.culprit = 2;
  why.say("rank 2 is gone");
  for (const int rank : {0, 1, 3}) ranks[rank].failure = why;
  for (const int rank : {0, 2}) ranks.patient(rank).life = Life::gone;
  expect(ranks.diagnosis(), Kind::lost, {2},
         {"Rank 2 is gone (process 102 on h1 is gone)", "it ended in call 2 of world"});
}

TEST(diagnosis, tells_calls_that_differ_and_those_in_another_order) {
  Ranks ranks(4);
  ranks.all_make(1, 5 * second);
  for (int rank = 0; rank < 4; ++rank) {
    ranks.collective(rank, 2, allreduce(rank == 3 ? 50 : 100), State::running, 2 * second);
    ranks.wait(rank);
  }
  expect(ranks.diagnosis(), Kind::mismatch, {3},
         {"do not agree on call 2 of world", "count 50", "ranks 0-2", "what differs on rank 3"});
  Ranks others(2);
  others.collective(0, 1, allreduce(), State::running, 2 * second);
  others.collective(0, 2, barrier(), State::running, 2 * second);
  others.collective(1, 1, barrier(), State::running, 2 * second);
  const Finding found = others.diagnosis();
  EXPECT_EQ(found.kind, Kind::mismatch);
  EXPECT_NE(found.text.find("in another order"), std::string::npos) << found.text;
}

TEST(diagnosis, names_a_stopped_process_inside_a_call) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.collective(rank, 1, allreduce(), State::running, 4 * second);
    ranks.wait(rank);
  }
  ranks.patient(1).life = Life::stopped;
  ranks.patient(1).process = "is stopped by a signal";
  expect(ranks.diagnosis(), Kind::stopped, {1}, {"Rank 1 is stopped", "is stopped by a signal", "SIGCONT"});
}

TEST(diagnosis, follows_the_waits_to_the_rank_that_does_not_wait) {
  Ranks ranks(4);
  for (const int rank : {1, 3}) ranks.communicator(rank, 9, "half", rank / 2, 2, 1, 2);
  for (const int rank : {0, 2}) {
    ranks.collective(rank, 1, allreduce(), State::running, 5 * second);
    ranks.wait(rank);
  }
  ranks.collective(3, 1, allreduce(), State::running, 4 * second, 9);
  ranks.wait(3);
  const Finding found = ranks.diagnosis();
  EXPECT_EQ(found.kind, Kind::late);
  EXPECT_EQ(found.culprits.front(), 1) << found.text;
}

TEST(diagnosis, finds_a_circle_of_two_communicators) {
  Ranks ranks(2);
  for (const int rank : {0, 1}) {
    ranks.communicator(rank, 8, "first", rank, 2, 0, 1);
    ranks.communicator(rank, 9, "second", rank, 2, 0, 1);
    ranks.collective(rank, 1, allreduce(), State::running, 3 * second, rank == 0 ? 8 : 9);
    ranks.wait(rank);
  }
  expect(ranks.diagnosis(), Kind::deadlock, {0, 1},
         {"rank 0 has waited for rank 1 for", "in call 1 of first", "has waited for rank 0 for", "in call 1 of second",
          "one order"});
}

TEST(diagnosis, finds_receives_without_sends) {
  Ranks ranks(3);
  ranks.exchange(0, 1, -1, 7, State::done, 9 * second);
  ranks.exchange(1, -1, 0, 7, State::done, 9 * second);
  ranks.exchange(1, -1, 0, 7, State::running, 6 * second);
  ranks.wait(1);
  expect(ranks.diagnosis(), Kind::unmatched, {0}, {"a receive from rank 0 with tag 7", "has not made the send"});
  ranks.exchange(0, 1, -1, 8, State::running, 3 * second);
  expect(ranks.diagnosis(), Kind::unmatched, {0}, {"with tag 8", "the tags differ"});
  ranks.exchange(0, 1, -1, 7, State::done, 2 * second);
  EXPECT_NE(ranks.diagnosis().culprits, (std::vector<int>{0})) << "it has sent what rank 1 needs";
}

TEST(diagnosis, finds_sends_without_receives_and_two_that_receive_first) {
  Ranks ranks(2);
  ranks.exchange(0, 1, -1, 3, State::running, 6 * second);
  ranks.wait(0);
  expect(ranks.diagnosis(), Kind::unmatched, {1}, {"has not made the receive"});
  Ranks both(2);
  for (const int rank : {0, 1}) {
    both.exchange(rank, -1, 1 - rank, 3, State::running, 6 * second);
    both.wait(rank);
  }
  expect(both.diagnosis(), Kind::deadlock, {0, 1}, {"Let one of them send before it receives"});
}

TEST(diagnosis, tells_hosts_between_which_no_data_pass) {
  Ranks ranks(4);
  for (const int rank : {2, 3}) ranks[rank].host = "h2";
  for (int rank = 0; rank < 4; ++rank) {
    ranks.collective(rank, 1, allreduce(), State::running, 6 * second).peer = (rank + 2) % 4;
    ranks.wait(rank);
  }
  expect(ranks.diagnosis(), Kind::no_progress, {0, 1, 2, 3},
         {"no data pass between ranks 0, 1 on h1 and ranks 2, 3 on h2", "look at the network"});
}

TEST(diagnosis, tells_who_has_not_come_to_the_store) {
  Ranks ranks(3);
  ranks.patients.pop_back();
  for (const int rank : {0, 1}) {
    ranks[rank].stage = Stage::connecting;
    ranks[rank].doing = "waits at tcp://h1:1 for the other ranks";
    ranks[rank].staged_at = now - 8 * second;
  }
  expect(ranks.diagnosis(), Kind::connecting, {2}, {"Ranks 0, 1 are not connected", "tcp://h1:1", "8.0 s", "rank 2"});
}

TEST(diagnosis, says_who_comes_last_in_a_job_that_goes_on) {
  Ranks ranks(3);
  for (std::uint32_t call = 1; call <= 100; ++call)
    for (int rank = 0; rank < 3; ++rank)
      ranks.collective(rank, call, allreduce(), State::done,
                       (200 - call) * second - (rank == 1 && call % 4 != 0 ? 30'000'000 : rank * 1000));
  const Job job(ranks.patients, now, usual_patience);
  const std::vector<Lateness> late = latenesses(job);
  EXPECT_EQ(late.front().rank, 1);
  EXPECT_EQ(late.front().last, 75u);
  EXPECT_EQ(late.front().of, 100u);
  EXPECT_NEAR(static_cast<double>(late.front().median), 30e6, 1e5);
  expect(ranks.diagnosis(), Kind::slow, {1}, {"Rank 1 comes last to 75 of its last 100 calls, by 30 ms"});
}

TEST(diagnosis, repeats_a_failure_that_nothing_else_explains) {
  Ranks ranks(2);
  Cause why;
  why.code = Code::timeout;
  why.culprit = 1;
  why.say("the deadline passed after 0.3 s");
  ranks[0].failure = why;
  ranks.collective(0, 1, allreduce(), State::failed, 6 * second);
  expect(ranks.diagnosis(), Kind::failed, {1}, {"the deadline passed after 0.3 s", "it has made no call"});
}

// Four ranks on two hosts, of which the second does not answer: nothing is known of ranks 2 and 3.
struct SilentHost {
  Ranks ranks = Ranks(4);
  std::vector<AskedHost> hosts = {{.name = "h1", .ranks = {0, 1}, .here = true},
                                  {.name = "h2", .ranks = {2, 3}, .answers = false}};

  SilentHost() {
    ranks.all_make(1, 20 * second);
    hosts[1].silent_for = 4 * second;
  }
  Diagnosis diagnosis() {
    const std::vector<Patient> known(ranks.patients.begin(), ranks.patients.begin() + 2);
    return diagnose(known, now, usual_patience, hosts);
  }
};

TEST(diagnosis, names_a_silent_host_whose_ranks_are_waited_for) {
  SilentHost job;
  for (const int rank : {0, 1}) {
    job.ranks.collective(rank, 2, allreduce(), State::running, 12 * second);
    job.ranks.wait(rank);
  }
  expect(job.diagnosis().finding, Kind::silent, {2, 3},
         {"Ranks 2, 3 on h2 cannot be asked: their host does not answer, and was last heard of 4.0 s ago. In call 2 of "
          "world (allreduce(sum, f32, count 100), 400 bytes), ranks 0, 1 have waited for 12.0 s.",
          "Look whether that host runs and can be reached."});
  EXPECT_EQ(job.diagnosis().context, "");
  job.hosts[1].why = "'ssh h2' exited with code 255";
  expect(job.diagnosis().finding, Kind::silent, {2, 3},
         {"the launcher has lost their host: 'ssh h2' exited with code 255."});
}

TEST(diagnosis, names_a_rank_that_is_missing_besides_a_silent_host) {
  SilentHost job;
  job.ranks.collective(0, 2, allreduce(), State::running, 12 * second);
  job.ranks.wait(0);
  expect(job.diagnosis().finding, Kind::silent, {2, 3},
         {"h2 cannot be asked",
          "rank 0 has waited for 12.0 s. Rank 1 has not made it either: process 101 on h1; its last call was call 1"});
}

TEST(diagnosis, names_a_silent_host_in_a_receive_and_after_a_failure) {
  SilentHost job;
  job.ranks.exchange(1, -1, 3, 7, State::running, 5 * second);
  job.ranks.wait(1);
  expect(job.diagnosis().finding, Kind::silent, {3}, {"Ranks 2, 3 on h2 cannot be asked"});
  SilentHost failed;
  Cause why;
  why.code = Code::timeout;
  why.culprit = 2;
  why.say("the deadline passed after 0.3 s");
  failed.ranks[0].failure = why;
  expect(failed.diagnosis().finding, Kind::silent, {2}, {"Ranks 2, 3 on h2 cannot be asked"});
}

TEST(diagnosis, names_the_host_of_a_rank_that_does_not_connect) {
  SilentHost job;
  job.ranks[0].stage = Stage::connecting;
  job.ranks[0].staged_at = now - 9 * second;
  job.ranks[0].doing = "waits for the address of rank 2";
  expect(job.diagnosis().finding, Kind::silent, {2, 3}, {"Ranks 2, 3 on h2 cannot be asked"});
  job.hosts[1].answers = true;
  expect(job.diagnosis().finding, Kind::connecting, {2, 3},
         {"Of ranks 2, 3 nothing runs on h2: look whether they were started"});
}

TEST(diagnosis, names_a_silent_host_while_no_rank_has_started) {
  SilentHost job;
  expect(diagnose({}, now, usual_patience, job.hosts).finding, Kind::silent, {2, 3},
         {"Ranks 2, 3 on h2 cannot be asked"});
}

TEST(diagnosis, tells_besides_of_a_silent_host_that_nobody_waits_for) {
  SilentHost job;
  EXPECT_EQ(job.diagnosis().finding.kind, Kind::outside);
  EXPECT_EQ(job.diagnosis().context,
            "Ranks 2, 3 on h2 cannot be asked: their host does not answer, and was last heard of 4.0 s ago.");
  job.hosts[1].answers = true;
  EXPECT_EQ(job.diagnosis().context, "Nothing is known of ranks 2, 3, which run elsewhere or not at all.");
}

TEST(diagnosis, bears_recordings_that_make_no_sense) {
  Ranks ranks(3);
  ranks[0].communicators[0].size = 3;
  ranks[0].communicators[0].first = -5;
  ranks[1].communicators[0].rank = 99;
  ranks[1].waits_for = 12345;
  ranks[1].waiters = 1;
  ranks[2].communicators.clear();
  ranks.collective(0, 0, {}, State::running, 1000 * second, 77);
  ranks.exchange(1, 500, -2, 0, State::running, 2 * second);
  ranks.exchange(2, -7, 900, 0, State::running, 2 * second);
  ranks.patients.push_back(ranks.patients[0]);
  EXPECT_FALSE(diagnose(ranks.patients, now).paragraph().empty());
  EXPECT_FALSE(diagnose({}, now).paragraph().empty());
}

TEST(diagnosis, words_times) {
  EXPECT_EQ(time_text(12'345'678), "12 ms");
  EXPECT_EQ(time_text(1'234'567), "1.23 ms");
  EXPECT_EQ(time_text(12 * second), "12.0 s");
  EXPECT_EQ(time_text(125 * second), "2 min 5 s");
  EXPECT_EQ(time_text(-5), "0.00 ms");
}

}  // namespace
}  // namespace tutti::doctor
