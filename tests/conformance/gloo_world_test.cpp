// Gloo as a backend of communicators: which calls it gets, groups, and ranks that disagree or leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <filesystem>
#include <map>

#include "tests/support/caught.hpp"
#include "tests/support/comes_true.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class GlooWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Found found = find_provider("gloo", settings); !found.reason.empty()) GTEST_SKIP() << found.reason;
    settings.backend = "gloo";
  }
  Settings settings = test_settings("inproc");
};

Collective shaped(Kind kind, DType dtype, Op op, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const bool blocked_in = kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall;
  const bool blocked_out = kind == Kind::allgather || kind == Kind::gather || kind == Kind::alltoall;
  static std::byte in[800], out[800];  // their contents are never used
  Collective call;
  call.kind = kind;
  call.op.op = op;
  call.in = ConstBuffer(in, kind == Kind::barrier ? 0 : blocked_in ? 10 * n : 10, dtype);
  call.out = Buffer(out, kind == Kind::barrier ? 0 : blocked_out ? 10 * n : 10, dtype);
  return call;
}

TEST_F(GlooWorld, TakesEverythingThatItClaims) {
  run_ranks(3, settings, [&](Communicator& world) {
    std::map<bool, int> taken;
    for (int k = 0; k < static_cast<int>(Kind::send); ++k)
      for (int d = 0; d < dtype_count; ++d)
        for (int o = 0; o < op_count; ++o) {
          if (!supports(static_cast<Op>(o), static_cast<DType>(d))) continue;
          const auto kind = static_cast<Kind>(k);
          const std::string why = world.explain(shaped(kind, static_cast<DType>(d), static_cast<Op>(o), world.size()));
          const bool by_gloo = why.starts_with("gloo");
          if (by_gloo == (kind == Kind::reduce_scatter)) throw std::runtime_error(why);
          ++taken[by_gloo];
        }
    if (taken[true] != 8 * 80 || taken[false] != 80)
      throw std::runtime_error(std::to_string(taken[true]) + " calls by gloo, " + std::to_string(taken[false]) +
                               " by others");
  });
}

TEST_F(GlooWorld, RulesAndCallsNameItsAlgorithms) {
  settings.backend = "";
  settings.select = "allreduce: ..1K=gloo/bcube, ..64K=gloo/halving_doubling; broadcast: ..=gloo";
  run_ranks(5, settings, [](Communicator& world) {
    for (const std::size_t count : {10u, 2000u, 100'000u}) {
      std::vector<std::int32_t> data(count, world.rank() + 1);
      const std::string why = world.explain({Kind::allreduce, ConstBuffer(data), Buffer(data), sum});
      EXPECT_THAT(why, StartsWith(count == 10 ? "gloo/bcube" : count == 2000 ? "gloo/halving_doubling" : "planned/"));
      world.allreduce(data).wait();
      EXPECT_EQ(data, std::vector<std::int32_t>(count, 15));
      world.allreduce(data, max, {.algorithm = "gloo/ring"}).wait();
      world.allreduce(data, min, {.algorithm = "gloo"}).wait();
      world.broadcast(data, 3).wait();
      EXPECT_EQ(data, std::vector<std::int32_t>(count, 15));
    }
    std::vector<float> one(5, 1.0f), block(1);
    EXPECT_EQ(caught([&] { world.allreduce(one, sum, {.algorithm = "gloo/tree"}).wait(); }).code(), Code::invalid);
    EXPECT_EQ(caught([&] { world.reduce_scatter(one, block, sum, {.algorithm = "gloo"}).wait(); }).code(),
              Code::unsupported);
  });
}

TEST_F(GlooWorld, IsMadeOnDemand) {
  settings.backend = "";
  run_ranks(3, settings, [](Communicator& world) {
    std::vector<float> data(100, 1.0f);
    EXPECT_THAT(caught([&] { world.allreduce(data, sum, {.algorithm = "gloo/bcube"}).wait(); }).what(),
                HasSubstr("use_backend(\"gloo\")"));
    world.use_backend("gloo");
    world.allreduce(data, sum, {.algorithm = "gloo/bcube"}).wait();
    EXPECT_EQ(data, std::vector<float>(100, 3.0f));
  });
}

TEST_F(GlooWorld, ManyCallsOfSeveralGroupsAtOnce) {
  run_ranks(4, settings, [](Communicator& world) {
    auto pair = world.split(world.rank() / 2), across = world.split(world.rank() % 2);
    std::vector<std::vector<std::int64_t>> all(30, std::vector<std::int64_t>(500, world.rank() + 1));
    std::vector<Work> works;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Communicator& group = i % 3 == 0 ? world : i % 3 == 1 ? *pair : *across;
      works.push_back(group.allreduce(all[i]));
    }
    for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
    const std::int64_t me = world.rank() + 1, beside = world.rank() / 2 ? 7 : 3, other = world.rank() % 2 ? 6 : 4;
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i].front(), i % 3 == 0 ? 10 : i % 3 == 1 ? beside : other) << i << " at " << me;
  });
}

std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_F(GlooWorld, GroupsThatAreDroppedLeaveNothing) {
  std::barrier together(3);
  run_ranks(3, settings, [&](Communicator& world) {
    const auto turn = [&] {
      auto group = world.split(0, -world.rank());
      group->allreduce(1.0f).wait();
      group.reset();
      world.barrier().wait();
      world.barrier().wait();  // what was dropped while the context was locked is freed by now
    };
    turn();
    together.arrive_and_wait();
    const std::size_t descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
    together.arrive_and_wait();
    for (int i = 0; i < 10; ++i) turn();
    together.arrive_and_wait();
    // Dropped objects are freed the next time a context makes progress, up to a second later.
    const auto gone = [&] {
      return entries_of("/proc/self/fd") <= descriptors + 3 * 8 && entries_of("/proc/self/task") <= threads + 3 * 2;
    };
    EXPECT_TRUE(comes_true(gone)) << entries_of("/proc/self/fd") << " descriptors, " << descriptors << " before; "
                                  << entries_of("/proc/self/task") << " threads, " << threads << " before";
    together.arrive_and_wait();
  });
}

TEST_F(GlooWorld, RanksThatDisagreeAreTold) {
  run_ranks(3, settings, [](Communicator& world) {
    std::vector<float> data(world.rank() == 1 ? 5000 : 10, 1.0f);
    const Error error = caught([&] { world.allreduce(data).wait(); });
    EXPECT_EQ(error.code(), Code::mismatch) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("count 5000"));
  });
}

TEST_F(GlooWorld, AbortEndsWhatWaits) {
  run_ranks(3, settings, [](Communicator& world) {
    std::vector<float> data(1 << 20, 1.0f);
    if (world.rank() == 2) {
      world.allreduce(data).wait();
      return world.abort("enough of it");
    }
    const Error error = caught([&] {
      while (true) world.allreduce(data).wait();
    });
    EXPECT_EQ(error.code(), Code::aborted) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("enough of it"));
  });
}

TEST_F(GlooWorld, ADeadlineNamesWhoIsMissing) {
  settings.timeout = 0.6;
  std::barrier together(3);
  run_ranks(3, settings, [&](Communicator& world) {
    if (world.rank() != 1) {
      std::vector<float> data(10);
      const Error error = caught([&] { world.allreduce(data).wait(); });
      EXPECT_EQ(error.code(), Code::timeout) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("rank 1"));
    }
    together.arrive_and_wait();
  });
}

}  // namespace
}  // namespace tutti::testing
