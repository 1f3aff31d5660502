// Masters and their workers. Ranks are threads; the first ones are masters.
#include "engine/server/masters.hpp"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <set>

#include "engine/server/make_server.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/explain.hpp"
#include "tests/engine/play.hpp"
#include "tests/engine/runs.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::engine {
namespace {

using Words = std::vector<std::string>;
using tutti::testing::run_ranks;
using tutti::testing::test_settings;

/// A worker with scripted steps.
struct Script {
  Communicator& world;
  int worker;
  ServerWorker& strategy;
  std::vector<nn::NamedTensor> parameters;
  std::shared_ptr<ParameterServer> servers;
  std::size_t step = 0;

  at::Tensor& x() { return parameters[0].second; }
  void set(const Values& values) {
    const at::NoGradGuard no_grad;
    x().copy_(vector_of(values));
  }
  /// Does one step, in which `change` takes the place of the optimizer; it may set gradients, too.
  void one_step(const std::function<void()>& change, double rate = 1, std::size_t samples = 1) {
    strategy.begin_step(
        {.step = step++, .learning_rate = rate, .count = samples, .global_count = samples, .pieces = 1});
    strategy.begin_piece(0, samples);
    (x().sum() * 0).backward();  // makes gradients for the allreduce over the worker's ranks
    strategy.end_piece(0);
    strategy.end_backward();
    change();
    strategy.end_step();
  }
  void move_by(const Values& values, std::size_t samples = 1) {
    one_step([&] { set(values_of(x() + vector_of(values))); }, 1, samples);
  }
  Values centre() {
    strategy.settle();
    const Values found = values_of(x());
    return found;
  }
};

/// Runs masters and workers of one parameter with the initial value `begin`.
void play_masters(int masters, int workers, const Words& words, const Values& begin,
                  const std::function<void(Script&)>& body, const char* transport = "shm") {
  run_ranks(masters + workers, test_settings(transport), [&](Communicator& world) {
    Words all = words;
    all.push_back("strategy.masters=" + std::to_string(masters));
    const Config config = play_config(all);
    std::vector<nn::NamedTensor> parameters{{"w", vector_of(begin).set_requires_grad(true)}};
    const Roles roles = roles_of(config, world.size());
    ParameterServer::Options options;
    options.servers = roles.masters;
    for (const auto& one : roles.workers) options.workers.push_back(one[0]);
    const auto ledger = std::make_shared<Ledger>(std::vector<Ledger::Share>(static_cast<std::size_t>(workers)));
    options.rules = master_rules(config, parameters, ledger, {options.workers, world.size()});
    auto servers = std::make_shared<ParameterServer>(world, options);
    const int worker = world.rank() - masters;
    if (worker < 0) return servers->serve();
    const int ranks[] = {world.rank()};
    const auto optimizer = make_optimizer("sgd", {{.parameters = parameters}}, {{"lr", "1"}});
    const auto strategy = make_worker(config, workers,
                                      {.world = world.group(ranks, "worker"),
                                       .tensor_device = std::make_shared<nn::TensorDevice>(),
                                       .parameters = parameters,
                                       .buffers = {},
                                       .optimizer = *optimizer},
                                      {servers, world.store(), worker == 0});
    Script script{world, worker, *strategy, parameters, servers};
    body(script);
  });
}

TEST(Elastic, MovesWorkerAndCentreAlikeForTenRounds) {
  play_masters(1, 1, {"strategy=easgd", "strategy.every=1", "strategy.elastic_force=0", "strategy.elastic=0.3"}, {2, 2},
               [](Script& script) {
                 double gap = 8;
                 script.set({10, 2});
                 for (int i = 0; i < 10; ++i) {
                   script.one_step([] {});
                   gap *= 1 - 2 * .3;
                   const Values x = values_of(script.x()), centre = script.centre();
                   expect_near({x[0] - centre[0], x[0] + centre[0], x[1], centre[1]}, {gap, 12, 2, 2});
                 }
               });
}

TEST(Elastic, IsDividedByTheWorkersAndMayDifferOnTheirSide) {
  play_masters(1, 2, {"strategy=easgd", "strategy.every=1", "strategy.elastic_here=0.25"}, {0}, [](Script& script) {
    if (script.worker != 0) return;
    EXPECT_DOUBLE_EQ(script.strategy.numbers().elastic, .45);
    script.set({1});
    script.one_step([] {});
    expect_near(values_of(script.x()), {.75});
    expect_near(script.centre(), {.45});
    script.strategy.set("elastic", .1);
    script.strategy.set("elastic_here", .1);
    EXPECT_THROW(script.strategy.set("speed", 1), Error);
    script.one_step([] {});
    expect_near(values_of(script.x()), {.75 - .1 * .3});
    expect_near(script.centre(), {.45 + .1 * .3});
  });
}

TEST(Looking, ChangesNothingAtTheWorker) {
  play_masters(1, 1, {"strategy=easgd"}, {1, 2}, [](Script& script) {
    script.set({5, 6});
    EXPECT_EQ(script.centre(), (Values{1, 2}));
    script.one_step([&] { EXPECT_EQ(values_of(script.x()), (Values{5, 6})); });
  });
}

TEST(Deltas, AddUpWhateverTheOrder) {
  std::barrier all(3);
  play_masters(1, 3, {"strategy=asgd", "strategy.every=2"}, {0, 100}, [&](Script& script) {
    const double own = script.worker + 1;
    for (int i = 0; i < 10; ++i) script.move_by({own, -1});
    all.arrive_and_wait();
    EXPECT_EQ(script.centre(), (Values{60, 70}));
  });
  play_masters(1, 1, {"strategy=asgd", "strategy.every=2"}, {0}, [](Script& script) {
    for (int i = 1; i <= 5; ++i) script.move_by({1.0 * i});
    EXPECT_EQ(script.centre(), (Values{10})) << "two exchanges of two steps; the fifth step is not there yet";
    EXPECT_EQ(script.strategy.report().exchanges, 2U);
    EXPECT_EQ(script.strategy.report().sent, 2 * sizeof(double));
    EXPECT_EQ(script.strategy.report().staleness, (std::map<std::uint64_t, std::uint64_t>{{0, 2}}));
  });
}

TEST(Deltas, ArriveInAScriptedOrderAndKnowHowOldTheyAre) {
  for (const auto& [stale, wanted] :
       std::map<std::string, double>{{"take", 21}, {"damp", 1 + 2. / 2 + 4. / 3 + 7. * 2}}) {
    std::barrier turn(3);
    play_masters(1, 3, {"strategy=asgd", "strategy.stale=" + stale}, {0}, [&, total = wanted](Script& script) {
      turn.arrive_and_wait();  // all have received the initial centre
      for (int who = 0; who < 3; ++who) {
        if (who == script.worker) script.move_by({std::pow(2, who)});
        turn.arrive_and_wait();
      }
      for (int again = 0; again < 2; ++again) {  // the last worker has all updates and is not stale
        if (script.worker == 2) script.move_by({7});
        turn.arrive_and_wait();
      }
      expect_near(script.centre(), {total});
      const std::map<std::uint64_t, std::uint64_t> ages[] = {{{0, 1}}, {{1, 1}}, {{0, 2}, {2, 1}}};
      EXPECT_EQ(script.strategy.report().staleness, ages[script.worker]);
      turn.arrive_and_wait();
    });
  }
}

TEST(Prefetch, IsExactlySoManyStepsAhead) {
  for (const int ahead : {1, 2, 3})
    play_masters(1, 1, {"strategy=downpour", "strategy.every=4", "strategy.prefetch=" + std::to_string(ahead)}, {0},
                 [&](Script& script) {
                   const Parameters centre = script.servers->open("centre/0", 1, DType::f64);
                   const double one[] = {1};
                   for (int step = 1; step <= 12; ++step) {
                     script.one_step([] {}, 0);
                     if (step % 4 == 0) expect_near(values_of(script.x()), {1.0 * (step - ahead - 1)});
                     centre.push("add", ConstBuffer(one, 1, DType::f64)).wait();  // another worker's update
                   }
                 });
}

TEST(Gem, TakesThreeStepsByTheFormula) {
  play_masters(1, 1, {"strategy=gem", "strategy.outer_lr=0.5", "strategy.kappa=2"}, {4}, [](Script& script) {
    double centre = 4, momentum = 0, previous = 0, x = 4;
    for (const double moved : {-1.0, 2.0, -.25}) {
      script.move_by({moved});
      const double d = .5 * moved;
      momentum = .9 * momentum + d;
      const double part =
          std::clamp((2 * std::abs(momentum) - std::abs(centre - previous)) / std::abs(d + 1e-12), 0., 5.);
      previous = centre;
      centre += part * d;
      x = centre;
      expect_near(values_of(script.x()), {x});
      expect_near(script.centre(), {centre});
    }
    EXPECT_NE(centre, 4);
  });
}

TEST(Quorum, WaitsForItsMembersAndWeighsBySamples) {
  std::barrier turn(2);
  play_masters(1, 2,
               {"strategy=decoupled-diloco", "strategy.every=1", "strategy.quorum=2", "strategy.delay=0",
                "strategy.apply=blocking", "strategy.alpha=0", "strategy.outer=sgd", "strategy.outer_lr=1",
                "strategy.outer_momentum=0"},
               {0, 0}, [&](Script& script) {
                 turn.arrive_and_wait();
                 if (script.worker == 0)
                   script.move_by({-1, 0}, 100);
                 else
                   script.move_by({0, -2}, 300);
                 // The weights are 100^2 / 1 and 300^2 / 1.
                 expect_near(values_of(script.x()), {-.1, -1.8});
                 expect_near(script.centre(), {-.1, -1.8});
                 turn.arrive_and_wait();
               });
}

TEST(Lattice, OfAQuorumOfAllIsDiLoCo) {
  const auto gradient = [](int rank, int step) { return std::sin(rank + 1.3 * step) + .1; };
  Play diloco{.ranks = 3,
              .words = {"strategy=diloco", "strategy.every=4"},
              .begin = {{"w", vector_of({1})}},
              .steps = 12,
              .lr = .1,
              .gradient = [&](int rank, std::size_t step, const std::string&, const at::Tensor&) {
                return vector_of({gradient(rank, static_cast<int>(step))});
              }};
  const Values wanted = played(diloco)[0].settled;
  for (const std::string merge : {"mean", "tokens"})
    play_masters(1, 3,
                 {"strategy=decoupled-diloco", "strategy.every=4", "strategy.members=all", "strategy.delay=0",
                  "strategy.apply=blocking", "strategy.alpha=0", "strategy.merge=" + merge},
                 {1}, [&](Script& script) {
                   for (int step = 0; step < 12; ++step) script.move_by({-.1 * gradient(script.worker, step)});
                   expect_near(values_of(script.x()), wanted);
                 });
}

TEST(Shards, KeepWhatOneMasterKeeps) {
  for (const int masters : {1, 2, 3})
    play_masters(masters, 1, {"strategy=asgd", "strategy.outer=nesterov", "strategy.outer_momentum=0.9"},
                 {0, 10, 20, 30, 40}, [](Script& script) {
                   script.move_by({-1, -1, -1, -1, -1});
                   expect_near(script.centre(), {-1.9, 8.1, 18.1, 28.1, 38.1});
                 });
}

/// Bytes sent by all sockets of this process, which has all ranks.
std::uint64_t sent_over_tcp() {
  std::uint64_t sum = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
      sum += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
  }
  return sum;
}

TEST(Bytes, OnTheWireAreThoseOfTheFormula) {
  constexpr int workers = 2, exchanges = 5;
  const Values begin(100'000, 1);
  for (const std::string preset : {"downpour", "asgd", "easgd", "gem", "decoupled-diloco"})
    for (const int masters : {1, 2}) {
      if (preset == "decoupled-diloco" && masters == 2) continue;
      Words words{"strategy=" + preset, "strategy.every=2"};
      if (preset == "decoupled-diloco")
        words.insert(words.end(), {"strategy.delay=0", "strategy.apply=blocking", "strategy.alpha=0"});
      std::barrier all(workers);
      std::atomic<std::uint64_t> before = 0, after = 0;
      play_masters(
          masters, workers, words, begin,
          [&](Script& script) {
            all.arrive_and_wait();
            if (script.worker == 0) before = sent_over_tcp();
            all.arrive_and_wait();
            for (int step = 0; step < 2 * exchanges; ++step) script.one_step([] {}, 0.1);
            script.strategy.settle();  // pulls the parameters once more, after all pushes
            all.arrive_and_wait();
            if (script.worker == 0) after = sent_over_tcp();
            EXPECT_EQ(script.strategy.report().exchanges, exchanges);
            EXPECT_EQ(script.strategy.report().sent, exchanges * begin.size() * sizeof(double));
            all.arrive_and_wait();
          },
          "tcp");
      const StrategyCost cost =
          strategy_cost(play_config(words), {{"w", vector_of(begin).set_requires_grad(true)}}, {}, workers + masters);
      const std::uint64_t wanted = workers * (2 * exchanges + 1) * cost.round_bytes;
      EXPECT_EQ(cost.round_bytes, begin.size() * sizeof(double));
      EXPECT_GE(after - before, wanted) << preset;
      EXPECT_LE(static_cast<double>(after - before), 1.005 * static_cast<double>(wanted)) << preset;
    }
}

TEST(Roles, AreDealtOutByRank) {
  const auto roles = [](const Words& words, int ranks) { return roles_of(play_config(words), ranks); };
  EXPECT_EQ(roles({"strategy=easgd"}, 2).masters, (std::vector{0, 1}));
  EXPECT_EQ(roles({"strategy=easgd"}, 2).workers, (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(roles({"strategy=decoupled-diloco"}, 3).masters, (std::vector{0}));
  EXPECT_NE(failure([&] {
              (void)roles({"strategy=decoupled-diloco", "masters=2"}, 4);
            }).find("strategy.masters=1"),
            std::string::npos);
  EXPECT_EQ(roles({"strategy=easgd", "masters=1"}, 3).workers, (std::vector<std::vector<int>>{{1}, {2}}));
  EXPECT_EQ(roles({"strategy=dp-easgd", "masters=2"}, 6).workers, (std::vector<std::vector<int>>{{2, 3}, {4, 5}}));
  EXPECT_NE(failure([&] {
              (void)roles({"strategy=easgd", "masters=2"}, 2);
            }).find("nobody is left to work"),
            std::string::npos);
  EXPECT_NE(failure([&] {
              (void)roles({"strategy=dp-easgd", "masters=1"}, 4);
            }).find("start 5 ranks"),
            std::string::npos);
}

TEST(Words, OfOtherTrainersMeanTheSame) {
  const Config config = play_config({"mode=sgd", "masters=1", "sync-every=5"});
  EXPECT_TRUE(has_masters(config));
  EXPECT_EQ(config.strategy.name, "downpour");
  EXPECT_EQ(axes_of(config).members, Axes::Members::any);
  EXPECT_EQ(axes_of(play_config({"mode=sgd", "masters=1", "synchronous=true"})).members, Axes::Members::all);
  const Config words = play_config(
      {"mode=easgd", "elastic-force=0.8", "worker-optimizer=momentum", "elastic-lr=0.3", "elastic-momentum=0.8"});
  EXPECT_EQ(words.optimizer.name, "momentum");
  EXPECT_EQ(words.optimizer.options.at("lr") + words.optimizer.options.at("momentum"), "0.30.8");
  EXPECT_FALSE(has_masters(play_config({"sync_rule=BSP"})));
  EXPECT_TRUE(has_masters(play_config({"sync_rule=EASGD", "avg_freq=4", "server_alpha=0.9", "worker_alpha=0.5"})));
  for (const char* wrong : {"strategy.codec=int8", "strategy.fragments=2", "strategy.outer=sgd", "strategy.prefetch=2",
                            "strategy.stale=old", "strategy.apply=late", "elastic-force=0.8", "worker_alpha=0.5",
                            "strategy.quorum=2", "strategy.kappa=3", "strategy.most_stale=2", "strategy.outer_lr=0.5"})
    EXPECT_THROW((void)has_masters(play_config({"strategy=downpour", wrong})), Error) << wrong;
}

}  // namespace
}  // namespace tutti::engine
