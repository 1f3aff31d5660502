// Sub-masters between workers and a top master. Ranks are threads, and values are doubles.
#include "engine/server/submaster_exchange.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

#include "engine/server/exchanges.hpp"
#include "engine/server/master_rules.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

using Values = std::vector<double>;
using tutti::testing::run_ranks;
using tutti::testing::test_settings;

constexpr double exact = 1e-12;

void expect_near(const Values& found, const Values& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], exact) << "element " << i;
}

ConstBuffer read_only(const Values& values) { return {values.data(), values.size(), DType::f64}; }

Values pulled(const Parameters& kept) {
  Values found(kept.count());
  kept.pull(Buffer(found.data(), found.size(), DType::f64)).wait();
  return found;
}

/// Rank 0 is the top master. With G groups, rank g of 1 to G is a sub-master, whose only worker is rank G + g.
class Rank {
 public:
  Rank(Communicator& world, int groups, const SubmasterNumbers& numbers, const Values& begin)
      : group(world.rank() > groups ? world.rank() - groups : world.rank()),
        is_top(world.rank() == 0),
        is_worker(world.rank() > groups) {
    std::vector<int> submasters(static_cast<std::size_t>(groups)), all(2 * submasters.size());
    std::iota(submasters.begin(), submasters.end(), 1);
    std::iota(all.begin(), all.end(), 1);
    members = std::make_shared<TopMembers>(submasters, submasters.size());
    top = std::make_shared<ParameterServer>(
        world, ParameterServer::Options{
                   .servers = {0}, .workers = all, .rules = top_rules(numbers, 1, members), .timeout = no_deadline});
    if (!is_top) {
      const int worker = groups + group;
      const auto progress = std::make_shared<GroupProgress>(std::vector<int>{worker});
      servers = std::make_shared<ParameterServer>(
          world, ParameterServer::Options{.servers = {group},
                                          .workers = {worker, group},
                                          .rules = {{first_rule_name(), first_rule()},
                                                    {step_rule_name(0), with_progress(delta_rule({}), progress)},
                                                    {over_rule_name(), over_rule(progress)}},
                                          .timeout = no_deadline});
      if (!is_worker)
        submaster = std::make_unique<SubmasterExchange>(numbers, SubmasterExchange::Place{top, servers, progress},
                                                        std::vector<BufferSpec>{{begin.size(), DType::f64}});
    }
    if (submaster && group == 1) submaster->bring({read_only(begin)});
    world.barrier().wait();
    if (submaster) submaster->begin();
    world.barrier().wait();
    if (!is_worker) return;
    top_connection = std::make_unique<TopConnection>(top, group - 1);
    of_top = top_connection->open(0, begin.size(), DType::f64);
    of_group = servers->open("centre/0", begin.size(), DType::f64);
  }

  /// Subtracts `delta` from the group's parameters.
  void push(const Values& delta) const { of_group->push(step_rule_name(0), read_only(delta)).wait(); }
  /// On a worker: tells its sub-master that it has finished.
  void over() const { of_group->push(over_rule_name()).wait(); }

  const int group;  // from 1
  const bool is_top, is_worker;
  std::shared_ptr<TopMembers> members;
  std::shared_ptr<ParameterServer> top, servers;
  std::unique_ptr<SubmasterExchange> submaster;
  std::unique_ptr<TopConnection> top_connection;
  std::optional<Parameters> of_top, of_group;
};

void play(int groups, const SubmasterNumbers& numbers, const Values& begin, const std::function<void(Rank&)>& body) {
  run_ranks(1 + 2 * groups, test_settings("shm"), [&](Communicator& world) {
    Rank rank(world, groups, numbers, begin);
    body(rank);
  });
}

/// One turn of a script: a push of a group's worker, or an exchange of its submaster.
struct Turn {
  int group;
  Values pushed;  ///< by the worker; empty: the submaster exchanges
};

/// Plays the script on all ranks, and compares the top's and the groups' parameters with `wanted` after each turn.
void play_script(const SubmasterNumbers& numbers, const Values& begin, const std::vector<Turn>& script,
                 const std::vector<std::vector<Values>>& wanted) {
  ASSERT_EQ(script.size(), wanted.size());
  std::barrier turn(5);
  play(2, numbers, begin, [&](Rank& rank) {
    for (std::size_t i = 0; i < script.size(); ++i) {
      if (rank.group == script[i].group && rank.submaster && script[i].pushed.empty()) rank.submaster->exchange();
      if (rank.group == script[i].group && rank.is_worker && !script[i].pushed.empty()) rank.push(script[i].pushed);
      turn.arrive_and_wait();
      if (rank.is_worker) {
        SCOPED_TRACE("turn " + std::to_string(i));
        expect_near(pulled(*rank.of_top), wanted[i][0]);
        expect_near(pulled(*rank.of_group), wanted[i][static_cast<std::size_t>(rank.group)]);
      }
      turn.arrive_and_wait();
    }
  });
}

TEST(Elastic, MovesTopAndGroupsInAScriptedOrder) {
  const std::vector<Turn> script{{1, {-4, 0}}, {2, {0, -8}}, {1, {}}, {2, {}}, {1, {-1, -1}}, {1, {}}, {2, {}}};
  std::vector<std::vector<Values>> wanted;
  std::vector<Values> now{{1, 2}, {1, 2}, {1, 2}};
  for (const auto& [group, pushed] : script) {
    Values &top = now[0], &own = now[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < 2; ++i) {
      const double d = .3 * (own[i] - top[i]), sum = now[0][i] + now[1][i] + now[2][i];
      if (pushed.empty()) {
        top[i] += d;
        own[i] -= d;
        EXPECT_NEAR(now[0][i] + now[1][i] + now[2][i], sum, exact);
      } else {
        own[i] -= pushed[i];
      }
    }
    wanted.push_back(now);
  }
  expect_near(wanted[2][0], {2.2, 2});  // the first exchanges, computed by hand
  expect_near(wanted[2][1], {3.8, 2});
  expect_near(wanted[3][0], {1.84, 4.4});
  expect_near(wanted[3][2], {1.36, 7.6});
  play_script({.kind = SubmasterNumbers::Kind::elastic, .elastic = .3, .elastic_here = .3}, {1, 2}, script, wanted);
}

TEST(Deltas, MoveTopAndGroupsInAScriptedOrder) {
  const std::vector<Turn> script{{1, {4}}, {2, {1}}, {1, {}}, {2, {}}, {1, {}}, {2, {2}}, {2, {}}, {1, {}}};
  // Each line has the parameters of the top and of the two groups.
  play_script({}, {10}, script,
              {{{10}, {6}, {10}},
               {{10}, {6}, {9}},
               {{6}, {6}, {9}},
               {{5}, {6}, {5}},
               {{5}, {5}, {5}},
               {{5}, {5}, {3}},
               {{3}, {5}, {3}},
               {{3}, {3}, {3}}});
  play_script({.rate = .5}, {10}, script,
              {{{10}, {6}, {10}},
               {{10}, {6}, {9}},
               {{8}, {8}, {9}},
               {{7.5}, {8}, {7.5}},
               {{7.5}, {7.5}, {7.5}},
               {{7.5}, {7.5}, {5.5}},
               {{6.5}, {7.5}, {6.5}},
               {{6.5}, {6.5}, {6.5}}});
}

// Pushes during an exchange of the submaster are not lost. Values are whole numbers, so sums are exact in any order.
TEST(Deltas, AreAllAtTheTopInTheEnd) {
  constexpr int pushes = 300;
  std::vector<ExchangeReport> reports(2);
  play(2, {.every = 3}, {0, 100, 7}, [&](Rank& rank) {
    if (rank.is_top) return rank.members->wait();
    if (rank.submaster) {
      rank.submaster->run();
      reports[static_cast<std::size_t>(rank.group - 1)] = rank.submaster->report();
      return;
    }
    for (int i = 0; i < pushes; ++i) rank.push({-1, 1.0 * i, 0});
    rank.over();
    EXPECT_EQ(rank.top_connection->end(), 0);
    const double sum = 2 * pushes * (pushes - 1) / 2;
    EXPECT_EQ(pulled(*rank.of_top), (Values{2 * pushes, 100 - sum, 7}));
  });
  for (const ExchangeReport& report : reports) {
    EXPECT_GE(report.exchanges, 2U);
    EXPECT_LE(report.exchanges, pushes / 3 + 1U);
    EXPECT_EQ(report.sent, report.exchanges * 3 * sizeof(double));
    EXPECT_EQ(report.got, report.sent);
    std::uint64_t counted = 0;
    for (const auto& [staleness, times] : report.staleness) counted += times;
    EXPECT_EQ(counted, report.exchanges);
  }
}

TEST(Elastic, KeepsTheSumWhileWorkersPush) {
  constexpr int pushes = 200;
  std::vector<double> groups(2);
  double top = 0;
  play(2, {.kind = SubmasterNumbers::Kind::elastic, .elastic = .25, .elastic_here = .25}, {1}, [&](Rank& rank) {
    if (rank.is_top) return rank.members->wait();
    if (rank.submaster) return rank.submaster->run();
    for (int i = 0; i < pushes; ++i) rank.push({-1.0 * rank.group});
    rank.over();
    (void)rank.top_connection->end();
    groups[static_cast<std::size_t>(rank.group - 1)] = pulled(*rank.of_group)[0];
    if (rank.group == 1) top = pulled(*rank.of_top)[0];
  });
  EXPECT_NEAR(top + groups[0] + groups[1], 3 + pushes * 3, 1e-9);
}

TEST(Submasters, ExchangeAfterSoManyUpdatesAndOnceMore) {
  for (const std::uint64_t every : {1, 4, 100}) {
    std::uint64_t exchanges = 0;
    play(1, {.every = every}, {0}, [&](Rank& rank) {
      if (rank.is_top) return rank.members->wait();
      if (rank.submaster) {
        rank.submaster->run();
        exchanges = rank.submaster->report().exchanges;
        return;
      }
      for (std::uint64_t i = 1; i <= 12; ++i) {
        rank.push({-1});
        const double wanted = static_cast<double>(i / every * every);
        while (pulled(*rank.of_top)[0] < wanted) std::this_thread::yield();
        EXPECT_EQ(pulled(*rank.of_top)[0], wanted);
      }
      rank.over();
      EXPECT_EQ(rank.top_connection->end(), 0);
      EXPECT_EQ(pulled(*rank.of_top)[0], 12);
    });
    EXPECT_EQ(exchanges, 12 / every + 1);
  }
}

TEST(End, WaitsForAllGroupsAndNamesTheFirstWorkerThatIsThere) {
  std::barrier both(2);
  play(2, {}, {0}, [&](Rank& rank) {
    if (rank.is_top) return rank.members->wait();
    if (rank.submaster) return rank.submaster->run();
    if (rank.group == 1) {  // leaves without over() and end(), as if it had died
      rank.push({-5});
      both.arrive_and_wait();
      rank.top_connection.reset();
      rank.of_top.reset();
      rank.top.reset();
      rank.of_group.reset();
      rank.servers.reset();
      return;
    }
    both.arrive_and_wait();
    rank.push({-1});
    rank.over();
    EXPECT_EQ(rank.top_connection->end(), 1);
    EXPECT_EQ(rank.top_connection->end(), 1) << "asked again";
    EXPECT_EQ(pulled(*rank.of_top), (Values{6}));
  });
}

TEST(End, NamesNoWorkerThatHasDiedWhileItWaited) {
  const auto members = std::make_shared<TopMembers>(std::vector<int>{1}, 3);
  ServerRule end;
  for (auto& [_, rule] : top_rules({}, 1, members))
    if (rule.quorum > 1) end = rule;
  std::vector<double> workers{0, 1, 2}, answers(3);
  std::vector<Pushed> pushed;
  for (std::size_t i = 0; i < workers.size(); ++i)
    pushed.push_back({.data = {&workers[i], 1, DType::f64},
                      .meta = {.worker = 2 + static_cast<int>(i)},
                      .staleness = 0,
                      .answer = {&answers[i], 1, DType::f64}});
  end.apply({}, pushed);
  EXPECT_EQ(answers, (std::vector<double>{0, 0, 0}));
  end.parted(2, Parting::died, 1);
  end.parted(1, Parting::left, 0);
  end.apply({}, pushed);
  EXPECT_EQ(answers, (std::vector<double>{1, 1, 1}));
}

TEST(Members, TellOfASubMasterThatDied) {
  TopMembers members({1, 2}, 3);
  members.parted(4, Parting::died);  // a worker
  members.parted(1, Parting::left);
  members.parted(2, Parting::silent);
  try {
    members.wait();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_lost);
    EXPECT_EQ(error.culprit(), 2);
    EXPECT_STREQ(error.what(), "rank 2, which kept the parameters of a group, is silent");
  }
}

TEST(Progress, IsOfTheGroupsWorkersAlone) {
  int gone = 0;
  const auto progress = std::make_shared<GroupProgress>(std::vector<int>{3, 4});
  ServerRule rule = standard_rules().at("zero");
  rule.parted = [&](int, Parting, std::uint64_t) { ++gone; };
  rule = with_progress(rule, progress);
  rule.parted(1, Parting::left, 0);  // the submaster
  EXPECT_EQ(gone, 0);
  rule.parted(3, Parting::died, 0);
  EXPECT_EQ(gone, 1);
  progress->updated();
  EXPECT_EQ(progress->wait(1).updates, 1U);
  EXPECT_FALSE(progress->wait(1).is_over);
  const std::vector<Pushed> pushed{{.data = {}, .meta = {.worker = 4}, .staleness = 0, .answer = {}}};
  over_rule(progress).apply({}, pushed);
  EXPECT_TRUE(progress->wait(100).is_over);
}

}  // namespace
}  // namespace tutti::engine
