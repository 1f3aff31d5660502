// The model if there are more ranks than processors: replays, estimates beside them, and the choice of an algorithm.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "tests/support/planned_calls.hpp"

namespace tutti::model {
namespace {

// Four ranks share two processors; each sends one message and receives one.
TEST(Replay, SharesTheProcessorsOfAHost) {
  Network network = plain();
  network[Level::within] = {1 * us, 0, 2 * us};
  const Hosts hosts = blocks(1, 4);
  const Collective call = call_of(Kind::allgather, "ring", hosts, 1);
  EXPECT_NEAR(replay(call, network).seconds, 3 * 5 * us, 1e-12) << "2 us, 1 us on its way, and 2 us, each round";
  network.cores = 2;
  EXPECT_GE(replay(call, network).seconds, 3 * 4 * 4 * us / 2 - 1e-12) << "12 messages of 4 us on two processors";
  network.cores = 4;
  EXPECT_NEAR(replay(call, network).seconds, 3 * 5 * us, 1e-12);
}

// A machine with two processors stands for 16 hosts.
TEST(Replay, SharesTheProcessorsOfAMachineThatPlaysManyHosts) {
  const Network network = parse_network("between 27us 24M 12us, cores 0.125");
  const Hosts hosts = blocks(16, 1);
  const Outcome played = replay(call_of(Kind::allgather, "recursive_doubling", hosts, 2), network);
  EXPECT_FALSE(played.by_alike);
  EXPECT_GE(played.seconds, 64 * 24 * us / 2);
  EXPECT_LE(played.seconds, 64 * 24 * us / 2 + 4 * 51 * us);
}

TEST(Estimate, IsNearTheReplayWhereProcessorsAreShared) {
  for (const auto& [count, ranks, cores] : {std::tuple{16, 1, "0.125"}, {8, 2, "0.25"}, {2, 16, "4"}, {5, 3, "1"}})
    for (const Algorithm* const algorithm : catalog())
      for (const std::size_t elements : {2u, 1u << 12}) {
        const Network network = parse_network(std::string("between 27us 120M 12us, cores ") + cores);
        const Hosts hosts = blocks(count, ranks);
        Collective call = call_of(algorithm->kind, algorithm->name, hosts, elements);
        if (algorithm->expense == nullptr || (ranks > 1 && algorithm->crossing == nullptr)) continue;
        if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
        const auto [guessed, played] = times_of(call, network);
        EXPECT_LT(std::abs(std::log2(guessed / played)), 1)
            << name(algorithm->kind) << " " << algorithm->name << ", " << count << " hosts of " << ranks << ", "
            << elements << " elements: " << guessed * 1e6 << " us, played " << played * 1e6;
      }
}

// If each message takes processor time from other ranks, the total number of messages matters.
TEST(Choice, HasFewMessagesWhereProcessorsAreShared) {
  const Hosts hosts = blocks(16, 1);
  const Shape shape{.size = 16, .count = 2, .hosts = &hosts};
  const auto messages = [&](const std::string& network) {
    const Candidate best = rank_algorithms(Kind::allreduce, shape, 4, parse_network(network)).front();
    return replay({best.algorithm, shape, 4, best.lanes}, parse_network(network)).counts.messages[1];
  };
  EXPECT_EQ(messages("between 27us 24M 12us, cores 0.125"), 30u) << "up a tree and down";
  EXPECT_GE(messages("between 27us 24M 12us"), 64u) << "in few rounds";
}

// The estimate looks at some ranks only, which must not all have the same position in a tree or host.
TEST(Estimate, KnowsTheWorkOfManyRanks) {
  const Network network = parse_network("within 0.3us 10G 5us, between 5us 10G 5us, cores 0.0625");
  for (const int count : {256, 1000, 1024})
    for (const char* const name : {"binomial", "hierarchical", "multiport"}) {
      const Hosts hosts = blocks(count / 8, 8);
      const Collective call = call_of(Kind::broadcast, name, hosts, 2);
      const double cores = std::max(1.0, 0.0625 * hosts.count());
      const double work = (count - 1) * 2 * 5 * us / cores;
      Network alone = network;
      alone.cores = 0;
      const double first = *estimate(*call.algorithm, call.shape, 4, call.lanes, alone);
      const double whole = *estimate(*call.algorithm, call.shape, 4, call.lanes, network);
      EXPECT_NEAR((whole - first / 3) / work, 1, 0.35) << name << " on " << count << " ranks";
    }
}

}  // namespace
}  // namespace tutti::model
