// The flight recorder: what it keeps, what it costs, and that its memory outlives the rank.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "collectives/doctor/recording.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/worlds.hpp"
#include "transports/core/recorder.hpp"

namespace tutti {
namespace {

using doctor::RecordedCall;
using doctor::Recording;
using testing::run_ranks;
using testing::test_settings;

std::unique_ptr<Recorder> make(int rank = 0, int size = 4) { return Recorder::make("on", {rank, size, -1, "a job"}); }

Recording read(const Recorder& recorder) {
  const std::vector<Recording> all = doctor::read_recordings(recorder.file());
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? Recording() : all.front();
}

RecordEntry entry(std::uint32_t sequence, std::uint64_t group = 1) {
  RecordEntry one;
  one.group = group;
  one.call = 42;
  one.bytes = 4096;
  one.sequence = sequence;
  return one;
}

TEST(recorder, keeps_who_records_and_the_calls_in_order) {
  const auto recorder = make(2);
  recorder->set_stage(Stage::running);
  Record* const first = recorder->begin(entry(1));
  Recorder::arrived(*first);
  Recorder::ended(*first, true);
  Recorder::ended_at_once(*recorder->begin(entry(2)));
  Record* const failed = recorder->begin(entry(3));
  Recorder::ended(*failed, false);
  recorder->begin(entry(4));
  recorder->looked();
  const Recording all = read(*recorder);
  EXPECT_EQ(all.rank, 2);
  EXPECT_EQ(all.size, 4);
  EXPECT_EQ(all.pid, getpid());
  EXPECT_EQ(all.job, "a job");
  EXPECT_EQ(all.stage, Stage::running);
  ASSERT_EQ(all.calls.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(all.calls[i].sequence, i + 1);
  EXPECT_EQ(all.calls[0].state, RecordedCall::State::done);
  EXPECT_LE(all.calls[0].launched, all.calls[0].first);
  EXPECT_LE(all.calls[0].first, all.calls[0].ended + 1000);
  EXPECT_EQ(all.calls[1].state, RecordedCall::State::done);
  EXPECT_EQ(all.calls[1].ended, 0) << "it ended within its start";
  EXPECT_EQ(all.calls[2].state, RecordedCall::State::failed);
  EXPECT_EQ(all.calls[3].state, RecordedCall::State::running);
  EXPECT_GE(all.calls[3].launched, all.calls[2].ended) << "although its start has not returned";
  EXPECT_EQ(all.calls[3].bytes, 4096u);
  EXPECT_EQ(all.calls[3].call.bits, 42u);
}

TEST(recorder, notes_the_time_of_a_start_when_the_rank_waits_or_the_call_ends) {
  const auto recorder = make();
  RecordEntry later = entry(1);
  later.is_stamped = false;
  Record* const waits = recorder->begin(later);
  Recorder::ended_at_once(*recorder->begin(later));
  Recorder::ended(*recorder->begin(later), false);
  Recording all = read(*recorder);
  ASSERT_EQ(all.calls.size(), 3u);
  EXPECT_EQ(all.calls[0].launched, 0);
  EXPECT_NE(all.calls[1].launched, 0);
  EXPECT_NE(all.calls[2].launched, 0);
  EXPECT_GE(all.calls[2].ended, all.calls[2].launched);
  Recorder::stamp(waits);
  all = read(*recorder);
  const doctor::Time stamped = all.calls[0].launched;
  EXPECT_NE(stamped, 0);
  Recorder::stamp(waits);
  EXPECT_EQ(read(*recorder).calls[0].launched, stamped);
}

TEST(recorder, keeps_the_newest_calls_and_all_that_run) {
  const auto recorder = make();
  constexpr std::uint32_t ring = RecordedRank::records_in_ring;
  recorder->begin(entry(1));
  for (std::uint32_t i = 2; i <= 3 * ring; ++i) Recorder::ended_at_once(*recorder->begin(entry(i)));
  const Recording all = read(*recorder);
  ASSERT_EQ(all.calls.size(), ring);
  EXPECT_EQ(all.calls.front().sequence, 1u) << "it still runs";
  EXPECT_EQ(all.calls.front().state, RecordedCall::State::running);
  EXPECT_EQ(all.calls.back().sequence, 3 * ring);
  EXPECT_EQ(all.lost, 0u);
}

TEST(recorder, counts_the_calls_that_it_has_no_record_for) {
  const auto recorder = make();
  for (std::uint32_t i = 1; i <= RecordedRank::records_in_ring; ++i) ASSERT_NE(recorder->begin(entry(i)), nullptr);
  EXPECT_EQ(recorder->begin(entry(1)), nullptr);
  EXPECT_EQ(read(*recorder).lost, 1u);
}

TEST(recorder, keeps_communicators_texts_waits_and_the_first_failure) {
  const auto recorder = make();
  const int world = recorder->add_group({1, 3, 8, 0, 1}, "world");
  const int other = recorder->add_group({77, 1, 4, 1, 2}, "a name that is much longer than its field is");
  recorder->name_group(other, "grads");
  RecordEntry named = entry(9, 77);
  named.label = recorder->text("MPI_Allreduce");
  named.how = recorder->text("shm/flat");
  EXPECT_EQ(recorder->text("MPI_Allreduce"), named.label);
  recorder->begin_wait(recorder->begin(named));
  Cause first, second;
  first.code = Code::peer_lost;
  first.culprit = 5;
  first.say("rank 5 is gone");
  recorder->failed(first);
  recorder->failed(second);
  Recording all = read(*recorder);
  ASSERT_EQ(all.communicators.size(), 2u);
  ASSERT_NE(all.communicator(77), nullptr);
  EXPECT_EQ(all.communicator(77)->name, "grads");
  EXPECT_EQ(all.communicator(77)->stride, 2);
  ASSERT_EQ(all.calls.size(), 1u);
  EXPECT_EQ(all.calls[0].label, "MPI_Allreduce");
  EXPECT_EQ(all.calls[0].how, "shm/flat");
  EXPECT_EQ(all.waiters, 1u);
  EXPECT_EQ(all.waits_for, all.calls[0].number);
  ASSERT_TRUE(all.failure.has_value());
  EXPECT_EQ(all.failure->culprit, 5);
  recorder->end_wait();
  recorder->drop_group(world);
  all = read(*recorder);
  EXPECT_EQ(all.waiters, 0u);
  EXPECT_EQ(all.communicator(1), nullptr);
}

TEST(recorder, has_memory_that_outlives_its_process_and_that_one_process_claims) {
  const Descriptor file = make_recorder_file(2, {}, "job");
  ASSERT_LE(sizeof(RecordedRank), 1u << 20);
  const int inherited = ::dup(file.fd());  // no Descriptor, which a forked child closes
  ::setenv(recorder_variable, std::to_string(inherited).c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = Recorder::make("on", {1, 2, 1, "job"});
    recorder->begin(entry(17));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto other = Recorder::make("on", {1, 2, 1, "job"});  // for example a program that the rank has started
  ::unsetenv(recorder_variable);
  ::close(inherited);
  other->begin(entry(18));
  const std::vector<Recording> all = doctor::read_recordings(file.fd());
  ASSERT_EQ(all.size(), 1u) << "nobody claimed slot 0";
  EXPECT_EQ(all[0].rank, 1);
  EXPECT_EQ(all[0].pid, child);
  ASSERT_EQ(all[0].calls.size(), 1u);
  EXPECT_EQ(all[0].calls[0].sequence, 17u);
  EXPECT_EQ(all[0].calls[0].state, RecordedCall::State::running);
}

TEST(recorder, has_a_place_that_the_process_after_a_dead_one_gets) {
  const Descriptor file = make_recorder_file(2, {}, "job");
  const int inherited = ::dup(file.fd());
  ::setenv(recorder_variable, std::to_string(inherited).c_str(), 1);
  for (const std::uint32_t sequence : {17, 18}) {  // two processes, one after the other, make one call each
    EXPECT_TRUE(clear_recorder_slot(file.fd(), 1));
    EXPECT_TRUE(doctor::read_recordings(file.fd()).empty()) << "what the first one has recorded";
    const pid_t child = ::fork();
    if (child == 0) {
      Recorder::make("on", {1, 2, 1, "job"})->begin(entry(sequence));
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
    const std::vector<Recording> all = doctor::read_recordings(file.fd());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].pid, child);
    ASSERT_EQ(all[0].calls.size(), 1u);
    EXPECT_EQ(all[0].calls[0].sequence, sequence);
  }
  ::unsetenv(recorder_variable);
  ::close(inherited);
}

TEST(recorder, writes_files_that_stay_or_nothing) {
  const testing::TemporaryFolder folder;
  { Recorder::make(folder.path(), {0, 1, -1, "tcp://h:1/job"})->begin(entry(3)); }
  std::size_t files = 0;
  for (const auto& one : std::filesystem::directory_iterator(folder.path())) {
    const Descriptor file(::open(one.path().c_str(), O_RDONLY | O_CLOEXEC));
    const std::vector<Recording> all = doctor::read_recordings(file.fd());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].stage, Stage::ended);
    EXPECT_EQ(all[0].calls.size(), 1u);
    ++files;
  }
  EXPECT_EQ(files, 1u);
  EXPECT_EQ(Recorder::make("off", {}), nullptr);
  EXPECT_THROW(Recorder::make(folder.path() + "/none", {}), Error);
}

TEST(recorder, reads_no_memory_that_is_not_a_recorder) {
  const Descriptor file(::memfd_create("other", MFD_CLOEXEC));
  EXPECT_TRUE(doctor::read_recordings(file.fd()).empty());
  ASSERT_EQ(::ftruncate(file.fd(), recorded_slot_bytes + 5), 0);
  EXPECT_TRUE(doctor::read_recordings(file.fd()).empty());
}

// Records of a call that a reader finds half written are left out, and numbers that stand for nothing do no harm.
TEST(recorder, reads_damaged_memory_without_harm) {
  const auto recorder = make();
  for (std::uint32_t i = 1; i < 100; ++i) recorder->begin(entry(i));
  std::uint64_t state = 12345;
  for (int round = 0; round < 200; ++round) {
    void* const memory = ::mmap(nullptr, sizeof(RecordedRank), PROT_READ | PROT_WRITE, MAP_SHARED, recorder->file(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const bytes = static_cast<unsigned char*>(memory);
    for (int i = 0; i < 50; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::size_t at = 64 + (state >> 33) % (sizeof(RecordedRank) - 64);
      bytes[at] = static_cast<unsigned char>(state >> 24);
    }
    ::munmap(memory, sizeof(RecordedRank));
    EXPECT_LE(doctor::read_recordings(recorder->file()).size(), 1u);
  }
}

// ---- what it costs ------------------------------------------------------------------------------

#ifdef __x86_64__
struct Steps {
  long instructions = 0, system_calls = 0;
  bool known = false;
};

// Counts the instructions of `work` between two SIGSTOPs, by single steps of a child.
template <class Work>
Steps steps_of(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    work();
    ::raise(SIGTRAP);
    ::_exit(0);
  }
  Steps steps;
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return steps;
  steps.known = true;
  for (;; ++steps.instructions) {
    user_regs_struct at{};
    ::ptrace(PTRACE_GETREGS, child, nullptr, &at);
    const long word = ::ptrace(PTRACE_PEEKTEXT, child, at.rip, nullptr);
    if ((word & 0xffff) == 0x050f) ++steps.system_calls;
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) break;
  }
  return steps;
}

TEST(recorder, costs_few_instructions_and_no_system_call_per_call) {
  if (testing::thinned) GTEST_SKIP() << "a sanitizer's own instructions would be counted";
  // The recorder's memory is not mapped in the child, so it has one of its own.
  const auto record = [](int calls) {
    return [calls] {
      const auto recorder = Recorder::make("on", {0, 1, -1, "job"});
      for (int i = 0; i < calls; ++i) {
        Record* const one = recorder->begin(entry(static_cast<std::uint32_t>(i)));
        Recorder::ended(*one, true);
      }
    };
  };
  const Steps none = steps_of(record(1)), many = steps_of(record(101));
  if (!none.known) GTEST_SKIP() << "this process may not trace a child";
  EXPECT_EQ(many.system_calls, none.system_calls);
  EXPECT_LE((many.instructions - none.instructions) / 100, 90);
}
#endif

// ---- a communicator's calls ---------------------------------------------------------------------

TEST(recorder, records_the_calls_of_a_job) {
  const testing::TemporaryFolder folder;
  Settings settings = test_settings("inproc");
  settings.recorder = folder.path();
  run_ranks(3, settings, [](Communicator& world) {
    std::vector<float> data(1000);
    world.allreduce(data).wait();
    Communicator half = *world.split(world.rank() / 2);
    half.set_name("half");
    CallOptions named;
    named.label = "my_broadcast";
    half.broadcast(data, 0, named).wait();
    if (world.rank() == 0) world.send(data, 2, 7).wait();
    if (world.rank() == 2) world.recv(data, 0, 7).wait();
  });
  std::vector<Recording> all;
  for (const auto& one : std::filesystem::directory_iterator(folder.path())) {
    const Descriptor file(::open(one.path().c_str(), O_RDONLY | O_CLOEXEC));
    for (Recording& recording : doctor::read_recordings(file.fd())) all.push_back(std::move(recording));
  }
  ASSERT_EQ(all.size(), 3u);
  for (const Recording& rank : all) {
    ASSERT_GE(rank.calls.size(), 3u);
    EXPECT_EQ(rank.stage, Stage::ended);
    const RecordedCall& allreduce = rank.calls[0];
    EXPECT_EQ(describe(allreduce.call), "allreduce(sum, f32, count 1000)");
    EXPECT_EQ(allreduce.sequence, 1u);
    EXPECT_EQ(allreduce.bytes, 4000u);
    EXPECT_EQ(allreduce.group, 1u);
    EXPECT_TRUE(allreduce.how.starts_with("planned/")) << allreduce.how;
    EXPECT_NE(allreduce.first, 0) << "the plans tell when the first data arrive";
    const auto labelled = std::ranges::find(rank.calls, "my_broadcast", &RecordedCall::label);
    ASSERT_NE(labelled, rank.calls.end());
    EXPECT_NE(labelled->group, 1u);
    for (const RecordedCall& call : rank.calls) EXPECT_EQ(call.state, RecordedCall::State::done);
    const RecordedCall& last = rank.calls.back();
    if (rank.rank == 1) continue;
    EXPECT_EQ(last.what, RecordedCall::What::exchange);
    EXPECT_EQ(last.sequence, 7u);
    EXPECT_EQ(last.peer, rank.rank == 0 ? 2 : -1);
    EXPECT_EQ(last.from, rank.rank == 0 ? -1 : 0);
  }
}

TEST(recorder, records_messages_where_that_is_asked_for) {
  const testing::TemporaryFolder folder;
  Settings settings = test_settings("inproc");
  settings.recorder = folder.path();
  settings.record = "messages";
  run_ranks(2, settings, [](Communicator& world) {
    std::vector<float> data(1000);
    CallOptions ring;
    ring.algorithm = "ring";
    world.allreduce(data, sum, ring).wait();
  });
  for (const auto& one : std::filesystem::directory_iterator(folder.path())) {
    const Descriptor file(::open(one.path().c_str(), O_RDONLY | O_CLOEXEC));
    const std::vector<Recording> all = doctor::read_recordings(file.fd());
    ASSERT_EQ(all.size(), 1u);
    std::size_t sent = 0;
    for (const RecordedCall& call : all[0].calls) sent += call.what == RecordedCall::What::sent ? call.bytes : 0;
    EXPECT_EQ(sent, 4000u) << "two rounds of half of the data";
  }
}

}  // namespace
}  // namespace tutti
