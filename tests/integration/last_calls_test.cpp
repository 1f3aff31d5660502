// A rank takes part in calls and then ends without a goodbye: the others still get the data that it sent before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <vector>

#include "tests/support/joined.hpp"
#include "tests/support/processes.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t count = 100;  // so few that all transports send them at once

std::vector<float> numbers(float first) {
  std::vector<float> made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

/// Waits until a process is in a state, given by its letter in /proc: 'T' is stopped, 'Z' is dead.
void wait_for_state(pid_t pid, char wanted) {
  for (int i = 0; i < 3000; ++i, ::usleep(10'000)) {
    std::string text;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
    const std::size_t end = text.rfind(')');
    if (end != std::string::npos && text.size() > end + 2 && text[end + 2] == wanted) return;
  }
  ADD_FAILURE() << "process " << pid << " does not come to the state " << wanted;
}

/// Returns once this rank knows that `peer` is lost.
std::string hear_of_the_loss_of(int peer, Communicator& other) {
  std::vector<float> never(count);
  try {
    other.recv(never, peer, 99).wait();
  } catch (const Error& error) {
    return error.code() == Code::peer_lost && error.culprit() == peer ? "" : error.what();
  }
  return "a message came that nobody sent";
}

std::string failure_of(const Work& work) {
  try {
    work.wait();
    return "";
  } catch (const Error& error) {
    return std::string(name(error.code())) + " " + std::to_string(error.culprit());
  }
}

class LastCalls : public ::testing::TestWithParam<const char*> {};

std::string wrong_broadcast(Communicator& world) {
  std::vector<float> all(count);
  if (const std::string said = failure_of(world.broadcast(all, 1)); said != "") return "broadcast: " + said;
  return all == numbers(40) ? "" : "broadcast: wrong numbers";
}

/// Receives rank 1's messages to rank 0 and its data of collectives in another order than they were sent.
std::string wrong_at_first(Communicator& world) {
  std::vector<float> got(count), all(3 * count);
  if (const std::string said = failure_of(world.gather(numbers(60), all, 0)); said != "") return "gather: " + said;
  if (std::vector<float>(all.begin() + count, all.begin() + 2 * count) != numbers(30)) return "gather: wrong numbers";
  for (const float first : {10.0f, 20.0f}) {
    if (const std::string said = failure_of(world.recv(got, 1, 5)); said != "") return "recv: " + said;
    if (got != numbers(first)) return "recv: wrong numbers";
  }
  if (failure_of(world.send(got, 1, 5)) != "peer_lost 1") return "a message to the lost rank is taken";
  return wrong_broadcast(world);
}

// The other ranks learn that rank 1 has ended before they make their calls.
TEST_P(LastCalls, AreTakenLate) {
  const TemporaryFolder folder;
  Fleet fleet(3, [&](int rank) -> std::string {
    const Bootstrap bootstrap = bootstrap_in(folder.path(), rank, 3, GetParam());
    auto world = Communicator::connect(bootstrap);
    auto other = world.dup();
    world.barrier().wait();
    if (rank != 0) world.gather(numbers(rank == 1 ? 30 : 50), Buffer(), 0).wait();
    if (rank == 1) {
      for (const float first : {10.0f, 20.0f}) world.send(numbers(first), 0, 5).wait();
      auto all = numbers(40);
      world.broadcast(all, 1).wait();
      // Otherwise rank 2 could learn of the end before its gather, which would then be refused.
      bootstrap.store->wait("given", deadline_in(Seconds(30)));
      ::_exit(0);
    }
    if (rank == 2) bootstrap.store->set("given", "1");
    if (rank == 0) bootstrap.store->wait("given", deadline_in(Seconds(30)));
    std::string wrong = hear_of_the_loss_of(1, other);
    if (wrong.empty()) wrong = rank == 0 ? wrong_at_first(world) : wrong_broadcast(world);
    if (!wrong.empty()) return "rank " + std::to_string(rank) + ": " + wrong;
    std::vector<float> got(count);
    for (int i = 0; i < 2; ++i)
      if (failure_of(world.recv(got, 1, 5)) != "peer_lost 1") return "a message came that nobody sent";
    return failure_of(world.barrier()) == "peer_lost 1" ? "" : "the communicator goes on";
  });
  for (const int rank : {1, 0, 2}) EXPECT_EQ(fleet.answer(rank), "");
}

// Rank 0's broadcast to the rank that has ended fails, and so do all later calls of the communicator.
TEST_P(LastCalls, EndWithOneThatGives) {
  const TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    auto world = Communicator::connect(bootstrap_in(folder.path(), rank, 2, GetParam()));
    auto other = world.dup();
    auto all = numbers(40);
    world.barrier().wait();
    if (rank == 1) {
      world.gather(all, Buffer(), 0).wait();
      world.broadcast(all, 1).wait();
      ::_exit(0);
    }
    if (const std::string wrong = hear_of_the_loss_of(1, other); !wrong.empty()) return wrong;
    if (failure_of(world.broadcast(all, 0)) != "peer_lost 1") return "a call that gives succeeds";
    std::vector<float> both(2 * count);
    return failure_of(world.gather(all, both, 0)) == "peer_lost 1" ? "" : "the communicator goes on";
  });
  for (const int rank : {1, 0}) EXPECT_EQ(fleet.answer(rank), "");
}

enum class Leaving { exits, aborts };

/// Rank 0 has pending calls and is stopped. It sees the data that has come only after rank 1 has left.
void pending_calls_get_their_data(const char* transport, Leaving how) {
  constexpr std::size_t calls = 4;
  const std::string failure = how == Leaving::exits ? "peer_lost 1" : "aborted 1";
  const TemporaryFolder folder;
  Fleet fleet(2, [&](int rank) -> std::string {
    const Bootstrap bootstrap = bootstrap_in(folder.path(), rank, 2, transport);
    auto world = Communicator::connect(bootstrap);
    std::vector<std::vector<float>> all(calls, std::vector<float>(2 * count));
    const auto given = numbers(static_cast<float>(rank));
    world.barrier().wait();
    if (rank == 1) {
      bootstrap.store->wait("stopped", deadline_in(Seconds(30)));
      for (std::size_t i = 0; i < calls; ++i) world.gather(given, Buffer(), 0).wait();
      if (how == Leaving::exits) ::_exit(0);
      world.abort("enough");
      return failure_of(world.barrier()) == failure ? "" : "the communicator goes on on rank 1";
    }
    std::vector<Work> pending;
    for (auto& one : all) pending.push_back(world.gather(given, one, 0));
    bootstrap.store->set("launched", "1");
    ::raise(SIGSTOP);
    ::usleep(200'000);  // the background thread learns of the end before wait()
    for (std::size_t i = 0; i < calls; ++i) {
      if (const std::string said = failure_of(pending[i]); said != "") return std::to_string(i) + ": " + said;
      const std::vector<float> others(all[i].begin() + count, all[i].end());
      if (others != numbers(1)) return "wrong numbers";
    }
    return failure_of(world.barrier()) == failure ? "" : "the communicator goes on";
  });
  const auto store = make_file_store(folder.path());
  store->wait("launched", deadline_in(Seconds(30)));
  wait_for_state(fleet.pid(0), 'T');
  store->set("stopped", "1");
  wait_for_state(fleet.pid(1), 'Z');
  fleet.kill(0, SIGCONT);
  EXPECT_EQ(fleet.answer(1), "");
  EXPECT_EQ(fleet.answer(0), "");
}

TEST_P(LastCalls, ArePendingWhenTheOtherEnds) { pending_calls_get_their_data(GetParam(), Leaving::exits); }
TEST_P(LastCalls, ArePendingWhenTheOtherAborts) { pending_calls_get_their_data(GetParam(), Leaving::aborts); }

INSTANTIATE_TEST_SUITE_P(Transports, LastCalls, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace tutti::testing
