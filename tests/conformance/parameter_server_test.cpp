// The parameter server over every transport: TorchMPI's scenarios, the order of one worker's calls, sub-ranges, types.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/support/caught.hpp"
#include "tests/support/require.hpp"
#include "tests/support/server_cases.hpp"
#include "tests/support/thinned.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::testing {
namespace {

using Floats = std::vector<float>;

class ParameterServers : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  void run(const std::function<void(Communicator&)>& body) const {
    const std::string transport = std::get<0>(GetParam());
    run_ranks(
        size(),
        [&](int rank) {
          Settings settings = test_settings(transport == "routed" ? "shm,tcp" : transport);
          if (transport == "routed") settings.host_id = rank % 2 == 0 ? "even" : "odd";
          return settings;
        },
        body);
  }
};

bool all_are(const Floats& data, float value) { return std::ranges::count(data, value) == std::ssize(data); }
float number(int value) { return static_cast<float>(value); }

// Repeats a scenario of TorchMPI's test, which has 1000 rounds: TUTTI_TEST_ROUNDS=1000.
void play(Communicator& world, void (*scenario)(Communicator&, ParameterServer&), int rounds) {
  ParameterServer server(world, {});
  for (int round = rounds_or(rounds); round > 0; --round) scenario(world, server);
}
constexpr int rounds = thinned ? 3 : 10;

TEST_P(ParameterServers, DefaultInit) {
  run([](Communicator& world) { play(world, play_default_init, rounds); });
}
TEST_P(ParameterServers, Constant) {
  run([](Communicator& world) { play(world, play_constant, rounds); });
}
TEST_P(ParameterServers, Zero) {
  run([](Communicator& world) { play(world, play_zero, rounds); });
}
TEST_P(ParameterServers, Copy) {
  run([](Communicator& world) { play(world, play_copy, rounds); });
}
TEST_P(ParameterServers, CopyThenAdd) {
  run([](Communicator& world) { play(world, play_copy_then_add, rounds); });
}
TEST_P(ParameterServers, CallsOfOneWorkerTakeEffectInTheirOrder) {
  run([](Communicator& world) { play(world, play_program_order, 3); });
}

TEST_P(ParameterServers, TellsVersionsAndSettings) {
  run([](Communicator& world) {
    ParameterServer server(world, {.settings = {{"steps", "7"}}});
    require(server.settings().at("steps") == "7", "the servers' settings");
    Parameters w = server.open("w", 1000, DType::f32);
    Floats mine(1000, 1.0f + number(world.rank())), got(1000);
    w.push("add", mine).wait();
    world.barrier().wait();
    const Request pull = w.pull(got);
    pull.wait();
    const int p = world.size();
    require(all_are(got, number(p * (p + 1) / 2)), "the sum of all");
    require(pull.versions().size() == static_cast<std::size_t>(p), "all servers took part");
    for (int i = 0; i < p; ++i)
      require(pull.versions()[static_cast<std::size_t>(i)] == ShardVersion{i, 1, static_cast<std::uint64_t>(p)},
              "each shard has had a push of each rank");
    require(pull.version() == static_cast<std::uint64_t>(p) && Request().version() == 0, "the smallest");
    const Request part = w.pull(std::span(got).first(1), 999);
    part.wait();
    require(part.versions().size() == 1 && part.versions()[0].server == p - 1, "who has the last element");
    w.pull(std::span(got).first(0)).wait();
    world.barrier().wait();
  });
}

// A version given by the caller counts, also after load(), and even if its handle of the buffer has read nothing.
TEST_P(ParameterServers, CountsTheVersionThatIsGiven) {
  run([](Communicator& world) {
    const auto p = static_cast<std::size_t>(world.size());
    const ServerRule tell{.apply = [](const ShardView& shard, std::span<const Pushed> pushed) {
      reinterpret_cast<double*>(shard.values.data)[0] = static_cast<double>(pushed[0].staleness);
    }};
    ParameterServer server(world, {.rules = {{"tell", tell}}});
    std::vector<double> none(p), told(p);
    const auto staleness_of = [&](std::uint64_t version) {
      const Parameters fresh = server.open("v", p, DType::f64);  // this handle has not read the buffer
      fresh.push("tell", none, {.meta = {.version = version}}).wait();
      fresh.pull(told).wait();
      return told;
    };
    const auto everywhere = [&](double value) { return std::vector<double>(p, value); };
    if (world.rank() == world.size() - 1) {
      for (int i = 0; i < 3; ++i) server.open("v", p, DType::f64).push("add", none).wait();
      require(staleness_of(1) == everywhere(2), "updates since version 1");
      require(staleness_of(4) == everywhere(0), "none since version 4");
      require(staleness_of(PushMeta::unknown_version) == everywhere(0), "unknown");
      server.load(server.dump());
      require(staleness_of(2) == everywhere(4), "a dump has the versions");
    }
    world.barrier().wait();
  });
}

// A rule with a quorum of 2 has one push that waits for a second one. A dump has that push, and load() applies it once.
TEST_P(ParameterServers, DumpsWhatWaitsInARound) {
  if (size() == 1) GTEST_SKIP() << "two ranks at least";
  run([](Communicator& world) {
    ServerRule pair = standard_rules().at("add");
    pair.quorum = 2;
    PushMeta waited, loaded;
    pair.save = [&](std::span<const Pushed> waiting) {
      require(waiting.size() == 1 && *reinterpret_cast<const float*>(waiting[0].data.data) == 5, "what waits");
      const auto meta = std::as_bytes(std::span(&(waited = waiting[0].meta), 1));
      return std::vector<std::byte>(meta.begin(), meta.end());
    };
    pair.load = [&](std::span<const std::byte> saved) { std::memcpy(&loaded, saved.data(), sizeof loaded); };
    ParameterServer server(world, {.servers = {0}, .rules = {{"pair", pair}}});
    Parameters w = server.open("w", 1, DType::f32);
    const auto value = [&] {
      Floats got(1);
      w.pull(got).wait();
      return got[0];
    };
    world.barrier().wait();
    Request waits;
    const Floats five{5};
    const int last = world.size() - 1;
    if (world.rank() == last) {
      waits = w.push("pair", five, {.meta = {.steps = 7}});
      require(value() == 0 && !waits.done(), "it has come, and waits for another worker's push");
    }
    world.barrier().wait();
    if (world.rank() == 0) {
      const std::vector<std::byte> dump = server.dump();
      w.push("pair", five).wait();  // completes the round, so that no push waits
      server.load(dump);
      require(waited.worker == last && loaded.worker == last && loaded.steps == 7, "whose it is");
    }
    waits.wait();
    world.barrier().wait();
    w = server.open("w", 1, DType::f32);
    world.barrier().wait();
    if (world.rank() == 0) w.push("pair", Floats{10}).wait();
    require(world.rank() != 0 || value() == 15, "the push of the dump, once, and the new one");
    world.barrier().wait();
  });
}

// Every rank is either a server or a worker.
TEST_P(ParameterServers, ServersOfTheirOwn) {
  if (size() == 1) GTEST_SKIP() << "two ranks at least";
  run([](Communicator& world) {
    const bool many = world.size() > 2;
    const std::vector<int> servers = many ? std::vector<int>{1, 3} : std::vector<int>{1};
    const std::vector<int> workers = many ? std::vector<int>{0, 2, 4} : std::vector<int>{0};
    ParameterServer server(world, {.servers = servers, .workers = workers, .timeout = no_deadline});
    require(server.is_server() == (world.rank() % 2 == 1) && server.is_worker() != server.is_server(), "the roles");
    if (server.is_server()) {
      require(caught([&] { (void)server.open("w", 1, DType::f32); }).code() == Code::invalid, "not for servers");
      return server.serve();
    }
    OpenOptions options;
    if (many) options.shares = {0, 5};
    Parameters w = server.open("w", 5, DType::f64, options);
    std::vector<double> data{1, 2, 3, 4, 5}, got(5);
    w.push_pull("add", data, got).wait();
    require(got[4] >= 5 && got[4] <= 5 * static_cast<double>(workers.size()), "some have pushed");
    Parameters none = server.open("none", 0, DType::f32);
    none.push("zero").wait();
  });
}

// A rule with a quorum of all ranks, and scalars.
TEST_P(ParameterServers, RulesOfTheUser) {
  run([](Communicator& world) {
    const int p = world.size();
    const ServerRule mean{.apply =
                              [](const ShardView& shard, std::span<const Pushed> pushed) {
                                for (std::size_t i = 0; i < shard.values.count; ++i) {
                                  float sum = 0;
                                  for (const Pushed& one : pushed)
                                    sum += reinterpret_cast<const float*>(one.data.data)[i];
                                  reinterpret_cast<float*>(shard.values.data)[i] =
                                      sum / number(static_cast<int>(pushed.size()));
                                }
                                ++shard.scalars[0];
                              },
                          .scalars = 1,
                          .quorum = p};
    ParameterServer server(world, {.rules = {{"mean", mean}}});
    Parameters w = server.open("w", 70'000, DType::f32);
    world.barrier().wait();  // once all ranks have opened it, each round waits for all
    for (int round = 0; round < 5; ++round) {
      Floats data(w.count(), number(world.rank() + round));
      const Request request = w.push_pull("mean", data, data);  // `into` is the same memory as the data
      request.wait();
      require(all_are(data, number(p - 1) / 2 + number(round)), "the mean of all");
      require(request.version() == static_cast<std::uint64_t>(round + 1), "one update for each round");
    }
  });
}

TEST_P(ParameterServers, BoundedStalenessIsLockstep) {
  run([](Communicator& world) {
    const int p = world.size();
    ParameterServer server(world, {.servers = {0}});
    Parameters w = server.open("w", 3, DType::f32, {.staleness = 0});
    world.barrier().wait();
    Floats one(3, 1), got(3);
    for (int round = 1; round <= 20; ++round) {
      w.push_pull("add", one, got).wait();
      require(got[0] >= number(round * p) && got[0] <= number(round * p + p - 1), "nobody is two rounds ahead");
    }
    server.leave();  // a server may leave at any time: the others do not wait for it
    require(caught([&] { w.pull(got).wait(); }).code() == Code::invalid, "it has left");
    require(server.join().empty(), "no settings");
    w = server.open("w", 3, DType::f32, {.staleness = 0});
    world.barrier().wait();
    w.pull(got).wait();
    require(all_are(got, number(20 * p)), "its values are still there");
  });
}

// Each error leaves the server running.
TEST_P(ParameterServers, TellsWhatIsWrong) {
  run([](Communicator& world) {
    ParameterServer server(world, {});
    Parameters w = server.open("w", 40'000, DType::f32);
    Floats data(40'000, 1), got(40'000);
    const auto told = [&](const auto& call, const std::string& words) {
      const std::string what = caught(call).what();
      require(what.find(words) != std::string::npos && what.find('\n') == std::string::npos, what);
    };
    told([&] { w.push("subtract", data).wait(); }, "push 'subtract' to 'w' at rank 0: the servers have no rule");
    told([&] { w.push_pull("subtract", data, got).wait(); }, "no rule of this name");
    told([&] { w.push("add").wait(); }, "carries 0 bytes");
    told([&] { (void)w.push("add", data, {.offset = 1}); }, "[1, 40001) is not within its 40000 elements");
    told([&] { (void)w.pull(std::span(got).first(2), ~std::size_t{0}); }, "is not within");
    std::vector<double> wide(10);
    std::vector<int> whole(10);
    told([&] { (void)w.pull(wide); }, "the values are f32");
    told([&] { (void)w.push("add", whole); }, "the data are i32");
    told([&] { (void)w.push_pull("add", data, std::span(got).first(3)); }, "room for 3 values");
    told([&] { (void)server.open("w", 3, DType::f32); }, "another worker opened it as 40000 elements of f32");
    told([&] { (void)server.open("i", 3, DType::i32); }, "f16, bf16, f32 or f64");
    told([&] { (void)server.open("s", 3, DType::f32, {.shares = std::vector<std::size_t>(9)}); }, "9 shares");
    told([&] { ParameterServer(world, {.servers = {0, 0}}); }, "listed twice");
    world.barrier().wait();
    w.push_pull("add", data, got).wait();
    require(got[7] >= 1, "it goes on");
    w.free();
    told([&] { w.pull(got).wait(); }, "it is not open");
    world.barrier().wait();
    require(server.open("w", 3, DType::f64).count() == 3, "all have freed it");
  });
}

TEST_P(ParameterServers, WaitsForWhicheverIsDone) {
  run([](Communicator& world) {
    const ServerRule both{.apply = [](const ShardView&, std::span<const Pushed>) {}, .quorum = world.size()};
    ParameterServer server(world, {.rules = {{"both", both}}});
    Parameters w = server.open("w", 100'000, DType::f32), v = server.open("v", 10, DType::f32);
    world.barrier().wait();
    Floats data(w.count()), small(10), got(w.count());
    std::vector<Request> requests;
    if (world.rank() == 0) {
      if (world.size() > 1) requests.push_back(w.push("both", data));
      requests.push_back(v.push_pull("add", small, small));
      const auto first = wait_any(requests, Seconds(60));
      require(first && *first == requests.size() - 1, "who waits for the others is not first");
      if (world.size() > 1) require(!requests[0].wait_for(Seconds(0.01)), "still waiting");
    }
    world.barrier().wait();
    if (world.rank() > 0) requests.push_back(w.push_pull("both", data, got));
    for (const Request& one : requests) one.wait();
    require(!wait_any(std::span<const Request>(), Seconds(1)), "nothing to wait for");
  });
}

TEST_P(ParameterServers, MakesAndFreesThousandsOfBuffers) {
  const std::string transport = std::get<0>(GetParam());
  const bool in_full = size() == 2 && transport == "shm" && !thinned;  // fewer in other cases, to save time
  const int count = in_full ? 10'000 : 300;
  run([count](Communicator& world) {
    ParameterServer server(world, {});
    Floats data(10, 1), got(10);
    for (int i = 0; i < count; ++i) {
      Parameters one = server.open("buffer " + std::to_string(i), 10, DType::f32);
      if (i % 50 == 0) {
        one.push_pull("add", data, got).wait();
        require(got[9] >= 1 && got[9] <= number(world.size()), "a new one begins with zeroes");
      }
      one.free();
    }
  });
}

// A dump contains each push at all servers or at none, even though all ranks push while it is made.
TEST_P(ParameterServers, DumpsAConsistentCut) {
  run([](Communicator& world) {
    const int p = world.size(), me = world.rank();
    const ServerRule count{.apply =
                               [](const ShardView& shard, std::span<const Pushed>) {
                                 ++shard.scalars[0];
                                 reinterpret_cast<float*>(shard.slots[0].data)[0] += 2;
                                 reinterpret_cast<double*>(shard.values.data)[0] = shard.scalars[0];
                               },
                           .slots = 1,
                           .scalars = 1};
    const ServerRule never{.apply = [](const ShardView&, std::span<const Pushed>) {}, .quorum = 99};
    ParameterServer server(world, {.rules = {{"count", count}, {"never", never}}});
    const std::string own = "own " + std::to_string(me);
    Parameters mine = server.open(own, 30'000, DType::f32);  // only this rank pushes to it
    Parameters counted = server.open("counted", static_cast<std::size_t>(p), DType::f64);
    Floats one(30'000, 1), got(30'000);
    const std::vector<double> none(static_cast<std::size_t>(p));
    counted.push("count", none).wait();
    world.barrier().wait();
    std::vector<Request> under_way;
    for (int i = 0; i < 10; ++i) under_way.push_back(mine.push("add", one));
    std::vector<std::byte> dump;
    if (me == p - 1) dump = server.dump();
    for (int i = 0; i < 10; ++i) under_way.push_back(mine.push("add", one));
    for (const Request& request : under_way) request.wait();
    world.barrier().wait();
    if (me == p - 1) server.load(dump);
    world.barrier().wait();
    require(caught([&] { mine.pull(got).wait(); }).code() == Code::invalid, "to be opened again");
    mine = server.open(own, 30'000, DType::f32);
    counted = server.open("counted", static_cast<std::size_t>(p), DType::f64);
    const Request pull = mine.pull(got);
    pull.wait();
    require(std::ranges::count(got, got[0]) == std::ssize(got), "the same pushes in all shards");
    require(me == p - 1 ? got[0] == 10 : got[0] >= 0 && got[0] <= 20,
            "those of a worker before its dump, no later ones");
    for (const ShardVersion& one_shard : pull.versions())
      require(one_shard.epoch == 2 && one_shard.version == static_cast<std::uint64_t>(got[0]), "versions, a new epoch");
    world.barrier().wait();
    counted.push("count", none).wait();
    world.barrier().wait();
    std::vector<double> counts(static_cast<std::size_t>(p));
    counted.pull(counts).wait();
    require(std::ranges::count(counts, 2.0 * p) == p, "what rules keep goes on");
    const std::string what = caught([&] { server.load(std::vector<std::byte>(16)); }).what();
    require(what.find("this is not a dump") != std::string::npos, what);
    world.barrier().wait();
  });
}

// Several threads per rank push to a buffer of their own and to one that all threads share.
TEST_P(ParameterServers, ManyThreads) {
  run([](Communicator& world) {
    ParameterServer server(world, {});
    Parameters all = server.open("all", 3000, DType::f64);
    constexpr int each = 20, threads = 3;
    std::vector<std::jthread> running;
    for (int t = 0; t < threads; ++t)
      running.emplace_back([&, t] {
        Parameters own = server.open("thread " + std::to_string(t), 20'000, DType::f32);
        const std::vector<double> one(3000, 1);
        const Floats mine(20'000, 1);
        Floats got(20'000);
        for (int i = 0; i < each; ++i) {
          all.push("add", one).wait();
          own.push_pull("add", mine, got).wait();
        }
      });
    running.clear();
    world.barrier().wait();
    std::vector<double> got(3000);
    all.pull(got).wait();
    require(std::ranges::count(got, each * threads * world.size()) == 3000, "every push counts once");
    world.barrier().wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ParameterServers,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed"),
                                            ::testing::Values(1, 2, 5)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" + std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace tutti::testing
