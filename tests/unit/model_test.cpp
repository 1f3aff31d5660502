// The model of networks: replays of schedules whose cost is known, and every algorithm's estimate beside its replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "collectives/model/replay.hpp"
#include "collectives/plan/geometry.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/planned_calls.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {
namespace {

using ::testing::HasSubstr;

// ---- networks -----------------------------------------------------------------------------------

TEST(Network, IsReadAndPrinted) {
  const Network read = parse_network(" between 2us 12.5G 0.3us,within 300ns 10G,  fold 20G");
  EXPECT_DOUBLE_EQ(read[Level::between].latency, 2e-6);
  EXPECT_DOUBLE_EQ(read[Level::between].per_byte, 1 / 12.5e9);
  EXPECT_DOUBLE_EQ(read[Level::between].overhead, 0.3e-6);
  EXPECT_DOUBLE_EQ(read[Level::within].overhead, 75e-9) << "a quarter of the latency";
  EXPECT_DOUBLE_EQ(read.fold_per_byte, 1 / 20e9);
  EXPECT_EQ(read.cores, 0) << "each rank has its own";
  EXPECT_EQ(to_string(parse_network("between 2us 12.5G 0.3us, cores 0.125")),
            "within 400ns 8G 200ns, between 2us 12.5G 300ns, fold 20G, cores 0.125");
  EXPECT_EQ(to_string(read), "within 300ns 10G 75ns, between 2us 12.5G 300ns, fold 20G");
  EXPECT_EQ(to_string(parse_network(to_string(read))), to_string(read));
}

TEST(Network, MayTellOfRacks) {
  const Network read = parse_network("fabric, beyond 5us 50G");
  EXPECT_TRUE(read.tells_racks());
  EXPECT_DOUBLE_EQ(read.beyond().per_byte, 1 / 50e9);
  EXPECT_DOUBLE_EQ(read.beyond().overhead, 1.25e-6);
  EXPECT_EQ(to_string(read), "within 100ns 10G 100ns, between 1us 12.5G 500ns, beyond 5us 50G 1.25us, fold 20G");
  EXPECT_EQ(to_string(parse_network(to_string(read))), to_string(read));
  const Network silent = parse_network("fabric");
  EXPECT_FALSE(silent.tells_racks());
  EXPECT_DOUBLE_EQ(silent.beyond().latency, 1e-6) << "as between hosts";
  EXPECT_DOUBLE_EQ(silent.beyond().per_byte, 0) << "and never full";
}

TEST(Network, IsKnownByName) {
  for (const NamedNetwork& one : named_networks()) EXPECT_EQ(parse_network(one.name), one.network) << one.name;
  EXPECT_EQ(parse_network("fold 1G")[Level::between], default_network()[Level::between]) << "the rest is the default";
}

TEST(Network, RefusesWhatItCannotRead) {
  for (const char* const text :
       {"", "between", "between 2us", "between 2 1G", "between 2us 0G", "between 2us 1X", "far 2us 1G", "beyond 2us",
        "fold", "within -1us 1G", "within nan 1G", "between 2us 1G 1us 1us", "cores", "cores -1", "between 2us 10",
        "cores 1, fabric", "tcp, fabric"})
    EXPECT_THAT(testing::caught([&] { parse_network(text); }).what(), HasSubstr("write for example")) << text;
}

// ---- replays that can be computed by hand -------------------------------------------------------

TEST(Replay, PlaysARing) {
  const Hosts hosts = blocks(1, 4);
  const Outcome played = replay(call_of(Kind::allreduce, "ring", hosts, 1000), plain());
  EXPECT_EQ(played.counts.messages[0], 24u);
  EXPECT_EQ(played.counts.messages[1], 0u);
  EXPECT_EQ(played.counts.bytes[0], 24 * 250 * 4u);
  EXPECT_EQ(played.counts.rounds, 6);
  EXPECT_EQ(played.counts.chain, 6);
  EXPECT_NEAR(played.seconds, 6 * (1 * us + 1000e-9), 1e-12);
}

TEST(Replay, SharesTheLinkOfAHost) {
  // Each of 3 ranks sends 4000 bytes to each rank of the other host. All nine messages share one link.
  const Hosts hosts = blocks(2, 3);
  const Outcome played = replay(call_of(Kind::allgather, "linear", hosts, 1000), plain(), true);
  EXPECT_EQ(played.counts.messages[1], 2 * 9u);
  EXPECT_EQ(played.counts.most_from_host, 9 * 4000u);
  EXPECT_NEAR(played.seconds, 10 * us + 9 * 4000 * 2e-9, 1e-12);
}

TEST(Replay, PipelinesLanes) {
  const Hosts hosts = blocks(1, 4);
  Collective call = call_of(Kind::broadcast, "chain", hosts, 8000);
  call.lanes = {8, 1000};
  // The first lane passes three links; each of the other seven lanes adds the time of one message.
  EXPECT_NEAR(replay(call, plain()).seconds, 3 * (1 * us + 4000e-9) + 7 * 4000e-9, 1e-12);
  call.max_lanes = 1;
  EXPECT_GT(replay(call, plain()).seconds, 3 * (1 * us + 4000e-9) + 7 * 4000e-9);
}

// A rank near the top of one tree is far down in the other, whose late lanes must not delay those of the first.
TEST(Replay, PlaysLanesOfOneWayWhileThoseOfAnotherAreLate) {
  const Hosts hosts = blocks(64, 1);
  Collective call = call_of(Kind::broadcast, "double_tree", hosts, 1 << 18);
  call.lanes = {64, 1 << 12};
  const Network& fabric = parse_network("fabric");
  call.max_lanes = 64;
  const double all_at_once = replay(call, fabric).seconds;
  call.max_lanes = 4;
  EXPECT_LT(replay(call, fabric).seconds, 1.2 * all_at_once);
}

TEST(Replay, CountsWhatProcessorsDo) {
  const Hosts hosts = blocks(1, 2);
  Network network = plain();
  network[Level::within].overhead = 2 * us;
  network.fold_per_byte = 1e-9;
  // The time is the sum of sending, latency, bytes, receiving and folding.
  const Outcome played = replay(call_of(Kind::reduce, "binomial", hosts, 1000), network);
  EXPECT_NEAR(played.seconds, 2 * us + 1 * us + 4 * us + 2 * us + 4 * us, 1e-12);
  EXPECT_EQ(played.counts.folded, 4000u);
}

TEST(Replay, TellsOfEveryMessageInItsOrder) {
  const Hosts hosts = blocks(2, 2);
  std::vector<Message> seen;
  replay(call_of(Kind::broadcast, "hierarchical", hosts, 10), plain(), false,
         [&](const Message& message) { seen.push_back(message); });
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].to, 1) << "within the host, while the other message is on its way";
  EXPECT_EQ(seen[1].to, 2);
  EXPECT_EQ(seen[1].level, Level::between);
  EXPECT_NEAR(seen[1].end, 10 * us + 80e-9, 1e-12);
  EXPECT_EQ(seen[2].to, 3);
  EXPECT_GE(seen[2].begin, seen[1].end);
}

// ---- racks --------------------------------------------------------------------------------------

TEST(Replay, SharesTheLinkOfARack) {
  const Hosts hosts = in_racks(2, 2, 1);
  Network network = plain();
  network[Level::beyond] = {20 * us, 4e-9, 0};
  // Two ranks of the other rack send 4000 bytes each: 16 us each on the racks' link, 8 us on a host's link.
  const Outcome played = replay(call_of(Kind::gather, "linear", hosts, 1000), network);
  EXPECT_EQ(played.counts.messages[1], 1u);
  EXPECT_EQ(played.counts.messages[2], 2u);
  EXPECT_EQ(played.counts.bytes[2], 8000u);
  EXPECT_EQ(played.counts.most_from_rack, 8000u);
  EXPECT_EQ(played.counts.most_from_host, 4000u);
  EXPECT_NEAR(played.seconds, 2 * 16 * us + 20 * us, 1e-12);
}

TEST(Replay, TakesRacksForHostsWhereNothingIsToldOfThem) {
  for (const char* const algorithm : {"ring", "recursive_doubling", "halving_doubling"}) {
    const Hosts racks = in_racks(3, 2, 2), hosts = blocks(6, 2);
    const Outcome with = replay(call_of(Kind::allreduce, algorithm, racks, 960), plain());
    const Outcome without = replay(call_of(Kind::allreduce, algorithm, hosts, 960), plain(), true);
    EXPECT_DOUBLE_EQ(with.seconds, without.seconds) << algorithm;
    EXPECT_EQ(with.counts.bytes[1] + with.counts.bytes[2], without.counts.bytes[1]);
    EXPECT_GT(with.counts.bytes[2], 0u);
  }
}

TEST(Estimate, IsNearTheReplayWhereThereAreRacks) {
  for (const char* const beyond : {"beyond 1us 200G 0.5us", "beyond 5us 12.5G 1us", "beyond 20us 2G 1us"})
    for (const Algorithm* const algorithm : catalog()) {
      if (!algorithm->racks || algorithm->crossing == nullptr) continue;
      for (const auto& [racks, count, ranks] : {std::tuple{2, 2, 1}, {4, 4, 2}, {8, 8, 1}, {3, 5, 4}})
        for (const std::size_t elements : {2u, 1u << 14, 1u << 18}) {
          const Network network = parse_network(std::string("fabric, ") + beyond);
          const Hosts hosts = in_racks(racks, count, ranks);
          Collective call = call_of(algorithm->kind, algorithm->name, hosts, elements);
          if (algorithm->kind == Kind::allgather || algorithm->kind == Kind::reduce_scatter)
            call.shape.count = std::max<std::size_t>(1, elements / static_cast<std::size_t>(call.shape.size));
          if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
          const auto [guessed, played] = times_of(call, network);
          EXPECT_LT(std::abs(std::log2(guessed / played)), 1)
              << name(algorithm->kind) << " " << algorithm->name << " on " << racks << " racks of " << count
              << " hosts of " << ranks << ", " << elements << " elements, " << beyond << ": " << guessed * 1e6
              << " us, played " << played * 1e6;
          EXPECT_GE(played, lower_bound(algorithm->kind, call.shape, 4, network).seconds * 0.999)
              << name(algorithm->kind) << " " << algorithm->name << ", " << racks << " racks, " << beyond;
        }
    }
}

const Hosts* without_racks = nullptr;

/// Plans hierarchical halving with the hosts, but without the racks.
const Algorithm blind{
    .kind = Kind::allreduce,
    .name = "blind",
    .idea = "",
    .plan =
        [](const Shape& s) {
          Shape known = s;
          known.hosts = without_racks;
          return find_algorithm(Kind::allreduce, "hierarchical_halving")->plan(known);
        },
    .cost = nullptr,
};

// A rack's link is as fast as one host's link, and eight hosts share it.
TEST(Choice, GoesByRacksWhereTheirLinksAreNarrow) {
  const Network network = parse_network("fabric, beyond 5us 12.5G 1us");
  const Hosts hosts = blocks(64, 1), racks = in_racks(8, 8, 1);
  without_racks = &hosts;
  const Shape shape{.size = 64, .count = 1 << 20, .hosts = &racks};
  const Candidate best = rank_algorithms(Kind::allreduce, shape, 4, network).front();
  EXPECT_EQ(best.algorithm->name, "hierarchical_halving");
  const Collective call{best.algorithm, shape, 4, best.lanes, best.at_once};
  Collective unaware = call;
  unaware.algorithm = &blind;
  const Outcome by_racks = replay(call, network), by_hosts = replay(unaware, network);
  EXPECT_EQ(by_racks.counts.most_from_rack, 2u * (4 << 20) * 7 / 8);
  EXPECT_EQ(by_hosts.counts.bytes[1] + by_hosts.counts.bytes[2], by_racks.counts.bytes[1] + by_racks.counts.bytes[2]);
  EXPECT_GT(by_hosts.counts.most_from_rack, 7 * by_racks.counts.most_from_rack);
  EXPECT_LT(by_racks.seconds, 2 * lower_bound(Kind::allreduce, shape, 4, network).seconds);
  EXPECT_GT(by_hosts.seconds, 4 * by_racks.seconds);
}

// ---- one host for all ---------------------------------------------------------------------------

TEST(Replay, OfOneHostSaysWhatThatOfAllHostsDoes) {
  const Network& network = named_networks()[0].network;
  for (const Algorithm* const algorithm : catalog()) {
    if (!algorithm->alike) continue;
    for (const auto& [count, ranks] : {std::pair{2, 4}, {5, 3}, {8, 1}, {4, 8}, {16, 8}}) {
      const Hosts hosts = blocks(count, ranks);
      const auto elements = static_cast<std::size_t>(960 * count * ranks);
      const Collective call = call_of(algorithm->kind, algorithm->name, hosts, elements);
      if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
      const Outcome one = replay(call, network), all = replay(call, network, true);
      const std::string what = std::string(name(algorithm->kind)) + " " + std::string(algorithm->name) + " on " +
                               std::to_string(count) + " hosts of " + std::to_string(ranks);
      EXPECT_TRUE(one.by_alike) << what;
      EXPECT_FALSE(all.by_alike) << what;
      EXPECT_EQ(one.stuck, "") << what;
      EXPECT_NEAR(one.seconds / all.seconds, 1, 0.02) << what;
      for (const int level : {0, 1}) {
        EXPECT_EQ(one.counts.messages[level], all.counts.messages[level]) << what;
        EXPECT_EQ(one.counts.bytes[level], all.counts.bytes[level]) << what;
      }
      EXPECT_EQ(one.counts.folded, all.counts.folded) << what;
    }
  }
}

TEST(Replay, OfOneHostIsNotTakenWhereHostsDiffer) {
  const std::vector<int> in_turns = {0, 1, 0, 1}, unequal = {0, 0, 0, 1};
  for (const auto& host : {in_turns, unequal}) {
    const Hosts hosts(host, 4);
    EXPECT_FALSE(replay(call_of(Kind::allreduce, "ring", hosts, 100), plain()).by_alike);
  }
}

// ---- estimates ----------------------------------------------------------------------------------

TEST(Estimate, IsNearTheReplayOfEveryAlgorithmThatUsesTheHosts) {
  const Network& fabric = parse_network("fabric");
  for (const Algorithm* const algorithm : catalog()) {
    if (algorithm->expense == nullptr || algorithm->crossing == nullptr) continue;
    for (const auto& [count, ranks] : {std::pair{2, 2}, {16, 1}, {13, 3}, {24, 4}})
      for (const std::size_t elements : {2u, 1u << 14, 1u << 17}) {
        const Hosts hosts = blocks(count, ranks);
        Collective call = call_of(algorithm->kind, algorithm->name, hosts, elements);
        const bool has_blocks = algorithm->kind != Kind::allreduce && algorithm->kind != Kind::broadcast &&
                                algorithm->kind != Kind::reduce && algorithm->kind != Kind::barrier;
        if (has_blocks)
          call.shape.count = std::max<std::size_t>(1, elements / static_cast<std::size_t>(call.shape.size));
        if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
        const auto [guessed, played] = times_of(call, fabric);
        EXPECT_LT(std::abs(std::log2(guessed / played)), 1)
            << name(algorithm->kind) << " " << algorithm->name << " on " << count << " hosts of " << ranks << ", "
            << elements << " elements: " << guessed * 1e6 << " us, played " << played * 1e6;
      }
  }
}

TEST(Estimate, IsNeverBelowTheBound) {
  const Network& fabric = parse_network("fabric");
  for (const Kind kind : {Kind::allreduce, Kind::broadcast, Kind::reduce, Kind::allgather, Kind::reduce_scatter,
                          Kind::alltoall, Kind::gather, Kind::scatter})
    for (const Hosts& hosts : {blocks(1, 8), blocks(16, 1), blocks(5, 3), uneven(1, 20), uneven(20, 1)})
      for (const std::size_t elements : {2u, 1u << 10, 1u << 14}) {
        const Shape shape{.size = size_of_all(hosts), .count = elements, .root = 5, .hosts = &hosts};
        const Bound bound = lower_bound(kind, shape, 4, fabric);
        for (const Candidate& one : rank_algorithms(kind, shape, 4, fabric)) {
          const Outcome played = replay({one.algorithm, shape, 4, one.lanes, one.at_once}, fabric, true);
          EXPECT_EQ(played.stuck, "");
          EXPECT_GE(played.seconds, bound.seconds * 0.999)
              << name(kind) << " " << one.algorithm->name << " on " << hosts.count() << " hosts, " << elements;
        }
      }
}

TEST(Estimate, TakesPiecesThatAPipelineWants) {
  const Hosts hosts = blocks(16, 1);
  const Network& fabric = parse_network("fabric");
  const Shape shape{.size = 16, .count = 1 << 18, .hosts = &hosts};
  const Algorithm& chain = *find_algorithm(Kind::broadcast, "hierarchical_chain");
  EXPECT_LT(best_piece(chain, shape, 4, fabric), std::size_t{256} << 10);
  EXPECT_EQ(best_piece(*find_algorithm(Kind::allreduce, "direct"), {.size = 2, .count = 2}, 4, fabric), 1u << 20);
}

}  // namespace
}  // namespace tutti::model
