// BackendConformance: every collective, dtype and operator, over every transport, against a
// sequential reference; results bitwise equal across ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>

#include "collectives/algorithm.hpp"
#include "collectives/tutti.hpp"
#include "tests/support/played.hpp"
#include "tests/support/worlds.hpp"
#include "transports/modules.hpp"

namespace tutti::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool thinned = true;  // every memory access costs ten times as much there
#else
constexpr bool thinned = false;
#endif

bool has_v(Kind kind) { return kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast; }

// kind x dtype x op in full; counts, roots and places are drawn from the seed.
std::vector<Case> cases(int p, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::size_t>(p);
  const std::size_t counts[] = {0, 1, n - 1, n, n + 1, 1000, 4099, 9001};
  std::vector<Case> all;
  for (int k = 0; k < static_cast<int>(Kind::barrier); ++k)
    for (int d = 0; d < dtype_count; ++d)
      for (int o = 0; o < op_count; ++o) {
        const auto kind = static_cast<Kind>(k);
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<Op>(o);
        if (folds(kind) ? !supports(op, dtype) : o > 0) continue;
        for (int repeat = thinned ? static_cast<int>(random() % 2) : 0; repeat < 2; repeat += thinned ? 2 : 1)
          all.push_back({kind,
                         dtype,
                         {op, op == Op::premul_sum ? 0.5 : 1.0},
                         counts[random() % (thinned ? 7 : 8)],
                         static_cast<int>(random() % n),
                         repeat == 1,
                         has_v(kind) && random() % 3 == 0,
                         random()});
      }
  return all;
}

class BackendConformance : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  // By rank, for the names that are several hosts with shm inside and tcp between; else empty.
  std::vector<int> hosts() const {
    const std::string name = std::get<0>(GetParam());
    std::vector<int> host;
    for (int rank = 0; rank < size(); ++rank) {
      if (name == "routed") host.push_back(rank % 2);
      if (name == "three_hosts") host.push_back(rank % 3);
      if (name == "lopsided") host.push_back(rank == size() - 1 ? 1 : 0);
    }
    return host;
  }
  // A name that is neither hosts nor a transport is a backend, beside our own plans over inproc.
  Settings settings_of(int rank) const {
    const std::string name = std::get<0>(GetParam());
    const std::vector<int> host = hosts();
    Settings settings = test_settings(!host.empty() ? "shm,tcp" : is_backend() ? "inproc" : name);
    if (!host.empty()) settings.host_id = "host " + std::to_string(host[static_cast<std::size_t>(rank)]);
    if (is_backend()) settings.backend = name;
    settings.lane_bytes = 16 << 10;  // so that lanes are at work at the sizes here
    return settings;
  }
  void SetUp() override {
    const std::vector<std::string> needed =
        hosts().empty() ? std::vector<std::string>{std::get<0>(GetParam())} : std::vector<std::string>{"shm", "tcp"};
    for (const std::string& one : needed)
      if (const Found found = find_provider(one, test_settings("inproc")); !found.reason.empty())
        GTEST_SKIP() << one << ": " << found.reason;
  }
  bool is_backend() const {
    const std::string name = std::get<0>(GetParam());
    return hosts().empty() && std::ranges::none_of(providers(), [&](const Provider* one) { return one->name == name; });
  }
  // What a call may name here: our algorithms that fit, or the backend's own.
  std::vector<std::string> targets(Kind kind) const {
    std::vector<std::string> names;
    if (is_backend()) {
      const std::string backend = std::get<0>(GetParam());
      const auto own = find_provider(backend, test_settings("inproc")).provider->algorithms(kind);
      for (const std::string_view one : own) names.push_back(backend + (one.empty() ? "" : "/") + std::string(one));
      return names;
    }
    for (const Algorithm* one : catalog())
      if (one->kind == kind && (!one->fits || one->fits({.size = size(), .count = 1, .host = hosts()})))
        names.emplace_back(one->name);
    return names;
  }
  static void SetUpTestSuite() {
    std::printf("counts, roots and places are drawn from seed %llu (TUTTI_TEST_SEED)\n",
                static_cast<unsigned long long>(seed()));
  }
  int size() const { return std::get<1>(GetParam()); }
  static std::uint64_t seed() {
    const char* text = std::getenv("TUTTI_TEST_SEED");
    return text ? std::strtoull(text, nullptr, 10) : 20240607;
  }
};

TEST_P(BackendConformance, EveryKindDtypeAndOperator) {
  const auto all = cases(size(), seed());
  std::vector<std::vector<std::uint64_t>> sums(all.size(),
                                               std::vector<std::uint64_t>(static_cast<std::size_t>(size())));
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); },
      [&](Communicator& world) {
        // Up to five in flight, waited for in an order of the rank's own.
        std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
        for (std::size_t first = 0; first < all.size();) {
          const std::size_t batch = std::min<std::size_t>(1 + first % 5, all.size() - first);
          std::vector<std::unique_ptr<Played>> played;
          std::vector<Work> works;
          std::vector<std::size_t> order(batch);
          std::iota(order.begin(), order.end(), std::size_t{0});
          for (std::size_t i = 0; i < batch; ++i) {
            played.push_back(std::make_unique<Played>(world, all[first + i]));
            works.push_back(played.back()->launch());
          }
          std::shuffle(order.begin(), order.end(), random);
          for (const std::size_t i : order) {
            works[i].wait();
            auto& sum = sums[first + i][static_cast<std::size_t>(world.rank())];
            if (const std::string bad = played[i]->check(sum); !bad.empty())
              throw std::runtime_error(all[first + i].text() + ": " + bad);
          }
          first += batch;
        }
      });
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const std::uint64_t sum : sums[i]) ASSERT_EQ(sum, sums[i][0]) << "ranks differ: " << all[i].text();
}

// What the selector does not choose here is played as well. What a backend refuses it must refuse before it sends
// anything: then the next call is right. On more layouts of hosts, too.
class AlgorithmConformance : public BackendConformance {};

TEST_P(AlgorithmConformance, EveryAlgorithm) {
  std::atomic<int> played = 0, arrived = 0;
  const auto play = [&](Communicator& world, const Case& c) {
    if (c.variable && !has_v(c.kind)) return;
    Played one(world, c);
    try {
      one.launch().wait();
    } catch (const Error& error) {
      const bool no_v_form = c.variable && error.code() == Code::invalid;
      if (error.code() != Code::unsupported && !no_v_form) throw;
      return;
    }
    ++played;
    std::uint64_t sum = 0;
    if (const std::string bad = one.check(sum); !bad.empty())
      throw std::runtime_error(c.text() + " by " + c.algorithm + ": " + bad);
    const auto mine = static_cast<std::int64_t>(sum >> 1);
    if (c.kind == Kind::allreduce && world.allreduce(mine, max).wait() != mine)
      throw std::runtime_error(c.text() + " by " + c.algorithm + ": the ranks' results differ");
  };
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); },
      [&](Communicator& world) {
        int expected = 0;
        for (const std::string& target : targets(Kind::barrier)) {
          ++arrived;
          world.barrier({.algorithm = target}).wait();
          if (arrived < (expected += world.size())) throw std::runtime_error(target + ": a barrier lets go too early");
        }
        for (int k = 0; k < static_cast<int>(Kind::barrier); ++k) {
          const auto kind = static_cast<Kind>(k);
          for (const std::string& target : targets(kind))
            for (const std::size_t count : {std::size_t{7}, std::size_t{9001}})
              for (const int form : {0, 1, 2, 3})  // in place, of the v-form
                play(world, {kind, DType::f32, folds(kind) ? avg : sum, count, world.size() - 1, form % 2 == 1,
                             form > 1, count, target});
        }
      });
  EXPECT_GT(played, 0);
}

TEST_P(BackendConformance, ScalarsPointToPointAndGroups) {
  run_ranks(
      size(), [&](int rank) { return settings_of(rank); },
      [&](Communicator& world) {
        const int p = world.size(), me = world.rank();
        const auto require = [&](bool right, const char* what) {
          if (!right) throw std::runtime_error(what);
        };
        require(world.allreduce(me + 1).wait() == p * (p + 1) / 2, "scalar sum");
        require(world.allreduce(1.0f + static_cast<float>(me), max).wait() == static_cast<float>(p), "scalar max");
        require(world.broadcast(std::int64_t{me} * 7, p - 1).wait() == 7 * (p - 1), "scalar broadcast");
        world.barrier().wait();

        for (int by : {1, -1, 0, 2 * p + 1}) {
          std::vector<std::int32_t> data(5000, me);
          world.shift(data, data, by).wait();
          require(data[4999] == ((me - by) % p + p) % p, "shift in place");
        }
        std::vector<float> mine(100, static_cast<float>(me)), self(100);
        Work to = world.send(mine, me, 3), from = world.recv(self, me, 3);
        from.wait();
        to.wait();
        require(self == mine, "to oneself");

        auto half = world.split(me % 2, -me);  // reversed order
        require(half->size() == (p + 1 - me % 2) / 2, "size of a split");
        require(half->world_rank(half->rank()) == me, "rank in a split");
        require(
            half->allreduce(me).wait() ==
                [&] {
                  int s = 0;
                  for (int r = me % 2; r < p; r += 2) s += r;
                  return s;
                }(),
            "sum in a split");
        auto none = world.split(me == 0 ? 0 : -1);
        require(none.has_value() == (me == 0), "a negative colour joins none");
        std::vector<int> listed;
        for (int r = p - 1; r >= 0; r -= 2) listed.push_back(r);
        if (auto some = world.subgroup(listed)) {
          require(some->world_rank(0) == p - 1, "order of a subgroup");
          some->barrier().wait();
        }
      });
}

TEST_P(BackendConformance, SameBitsInEveryRun) {
  std::vector<std::uint64_t> sums;
  for (int run = 0; run < 2; ++run) {
    std::uint64_t sum = 0;
    run_ranks(
        size(), [&](int rank) { return settings_of(rank); },
        [&](Communicator& world) {
          for (const std::size_t count : {3u, 1000u, 70001u}) {
            auto data = random_data(DType::f32, count, static_cast<std::uint64_t>(world.rank()) + count);
            world.allreduce(Buffer(data.data(), count, DType::f32), avg).wait();
            if (world.rank() == 0) sum = checksum(data.data(), data.size(), sum);
          }
        });
    sums.push_back(sum);
  }
  EXPECT_EQ(sums[0], sums[1]);
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& param) {
  return std::string(std::get<0>(param.param)) + "_" + std::to_string(std::get<1>(param.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, BackendConformance,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed", "gloo"),
                                            ::testing::Values(1, 2, 3, 4, 5, 8)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Everywhere, AlgorithmConformance,
                         ::testing::Combine(::testing::Values("inproc", "shm", "tcp", "routed", "three_hosts",
                                                              "lopsided", "gloo"),
                                            ::testing::Values(1, 2, 3, 4, 5, 8)),
                         test_name);

}  // namespace
}  // namespace tutti::testing
