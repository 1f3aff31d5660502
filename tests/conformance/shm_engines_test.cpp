// The engines (algorithms) of shm: correct results, bitwise the same from all engines and for all kinds of buffers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "tests/support/arenas.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/played.hpp"
#include "tests/support/worlds.hpp"
#include "transports/core/process.hpp"
#include "tutti.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::testing {
namespace {

constexpr std::uint64_t nobody = 0, everybody = ~std::uint64_t{0};

std::vector<std::string> engines(Kind kind) {
  std::vector<std::string> names;
  for (const std::string_view one : find_provider("shm", test_settings("shm")).provider->algorithms(kind))
    if (!one.empty()) names.push_back("shm/" + std::string(one));
  return names;
}

// The ranks with shared buffers, for each case. Only the two engines named here depend on shared buffers.
std::vector<std::uint64_t> buffers_for(const std::string& engine) {
  if (engine == "shm/zero_copy" || engine == "shm/cma") return {everybody, everybody ^ 1u};
  return {nobody};
}

bool refused(const std::exception& error) {
  return std::string(error.what()).find("takes at most") != std::string::npos;
}

// Plays a call and returns 1, with its checksum; 0 if the engine refuses the size.
int play_one(Communicator& world, const Case& c, std::uint64_t& sum) {
  Played one(world, c);
  try {
    one.launch().wait();
  } catch (const Error& error) {
    if (error.code() != Code::unsupported || !refused(error)) throw;
    return 0;
  }
  sum = 0;
  if (const std::string bad = one.check(sum); !bad.empty())
    throw std::runtime_error(c.text() + " by " + c.algorithm + ": " + bad);
  return 1;
}

class ShmEngines : public ::testing::TestWithParam<int> {};

// Plays a call by every engine that accepts it, and returns their number.
int give_the_same_bits(Communicator& world, Kind kind, DType dtype, std::size_t count, int root, std::uint64_t seed) {
  int played = 0;
  std::map<std::uint64_t, std::string> sums;
  for (const std::string& engine : engines(kind))
    for (const std::uint64_t shared : buffers_for(engine))
      for (const bool in_place : {false, true}) {
        std::uint64_t sum = 0;
        const Case c{kind, dtype, folds(kind) ? avg : tutti::sum, count, root, in_place, false, seed, engine, shared};
        if (play_one(world, c, sum) == 0) continue;
        ++played;
        sums.emplace(sum, c.text() + " by " + engine);
      }
  if (sums.size() > 1) throw std::runtime_error("other bits: " + sums.begin()->second + ", " + sums.rbegin()->second);
  return played;
}

TEST_P(ShmEngines, GiveTheSameBits) {
  const int p = GetParam();
  const std::size_t counts[] = {0, 1, static_cast<std::size_t>(p) - 1, 13, 97, 280, 4099, 9001, 300'007};
  run_ranks(p, test_settings("shm"), [&](Communicator& world) {
    for (int k = 0; k < static_cast<int>(Kind::barrier); ++k) {
      const auto kind = static_cast<Kind>(k);
      int played = 0;
      for (std::size_t i = 0; i < std::size(counts); ++i) {
        if (counts[i] > 100'000 && p > (thinned ? 2 : 4)) continue;
        const DType dtype = i % 3 == 0 ? DType::bf16 : i % 3 == 1 ? DType::f64 : DType::f32;
        played += give_the_same_bits(world, kind, dtype, counts[i], static_cast<int>(i) % p, 77 + i);
      }
      if (played < 12) throw std::runtime_error(std::string(name(kind)) + ": hardly anything was played");
    }
  });
}

// Calls larger than the caches, whose results are written with non-temporal stores.
TEST(ShmLarge, GivesTheSameBits) {
  constexpr std::size_t ranks = 3, each = (std::size_t{72} << 20) / ranks / sizeof(double);  // elements of all buffers
  run_ranks(static_cast<int>(ranks), test_settings("shm"), [&](Communicator& world) {
    for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall}) {
      if (thinned && kind != Kind::allreduce) continue;
      const bool in_blocks = kind == Kind::allgather || kind == Kind::reduce_scatter || kind == Kind::alltoall;
      if (give_the_same_bits(world, kind, DType::f64, each / (in_blocks ? ranks : 2) + 5, 1, 7) < 4)
        throw std::runtime_error(std::string(name(kind)) + ": hardly anything was played");
    }
  });
}

// Calls of many sizes in flight on two communicators, waited for in different orders. shm makes all but the v-forms.
void mix(const Settings& settings, int p) {
  run_ranks(p, settings, [&](Communicator& world) {
    Communicator other = world.dup();
    for (std::size_t round = 0; round < (thinned ? 6 : 30); ++round) {
      std::vector<std::unique_ptr<Played>> played;
      std::vector<Work> works;
      for (std::size_t i = 0; i < 9; ++i) {
        const auto kind = static_cast<Kind>((round + i) % static_cast<std::size_t>(Kind::barrier));
        const std::size_t pieces = i == 7 ? 9 : 1;  // calls of many or few rounds use different parts of the slots
        const std::size_t count = 1 + pieces * ((round * 7919 + i * i * 2711) % (thinned ? 9'000 : 40'000));
        const bool variable = i == 4 && kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast;
        const Case c{kind,       DType::i32, tutti::sum,     count, static_cast<int>(i) % p,
                     i % 2 == 0, variable,   round * 10 + i, {},    i % 3 == 0 ? everybody : nobody};
        played.push_back(std::make_unique<Played>(i % 2 == 0 ? world : other, c));
        works.push_back(played.back()->launch());
      }
      for (std::size_t i = 0; i < works.size(); ++i) {
        const std::size_t which = (i * 4 + static_cast<std::size_t>(world.rank())) % works.size();
        works[which].wait();
        std::uint64_t sum = 0;
        if (const std::string bad = played[which]->check(sum); !bad.empty()) throw std::runtime_error(bad);
      }
    }
  });
}

TEST_P(ShmEngines, DoNotMix) { mix(test_settings("shm"), GetParam()); }

// Many small calls of one kind in a row with one late rank. Ranks that only send could otherwise run far ahead of it.
TEST_P(ShmEngines, WaitForWhoIsLate) {
  run_ranks(GetParam(), test_settings("shm"), [](Communicator& world) {
    const int p = world.size();
    std::uint64_t seed = 0;
    for (const char* const engine : {"shm/ll", "shm/one_shot", "shm/two_copy", "shm/cma"})
      for (const Kind kind : {Kind::reduce, Kind::gather, Kind::broadcast, Kind::scatter})
        for (int late = 0; late < p; ++late) {
          if (std::ranges::count(engines(kind), engine) == 0) continue;
          const bool takes_alone = kind == Kind::reduce || kind == Kind::gather;
          const int root = takes_alone ? late : (late + 1) % p;
          if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          for (int i = 0; i < 20; ++i, ++seed) {
            const Case c{kind, DType::i32, tutti::sum, 1 + seed % 17, root, i % 2 == 0, false, seed, engine, nobody};
            std::uint64_t sum = 0;
            (void)play_one(world, c, sum);
          }
        }
  });
}

// Many calls in flight with TUTTI_VERIFY=full, where ranks first agree on each call by messages.
TEST(ShmCalls, DoNotMixWhereEachIsVerified) {
  Settings settings = test_settings("shm");
  settings.verify = "full";
  mix(settings, 3);
}

// A direct call needs no slots, which are allocated at the first use.
TEST(ShmDirect, StagesNothing) {
  constexpr int p = 3;
  std::array<std::size_t, 2> before{}, after{};
  for (const bool allocated : {false, true})
    run_ranks(p, test_settings("shm"), [&](Communicator& world) {
      constexpr std::size_t count = 100'000;
      auto in = world.allocate<float>(p * count), out = world.allocate<float>(p * count);
      std::vector<float> ordinary_in(p * count), ordinary_out(p * count);
      const std::span<float> from = allocated ? std::span<float>(in) : ordinary_in;
      const std::span<float> into = allocated ? std::span<float>(out) : ordinary_out;
      const auto one = from.first(count), part = into.first(count);
      const auto look = [&](std::array<std::size_t, 2>& seen) {
        world.barrier().wait();
        if (world.rank() == 0) seen[allocated] = segment_bytes();
        world.barrier().wait();
      };
      look(before);
      world.broadcast(part, 1).wait();
      world.allreduce(std::span<const float>(one), part, tutti::sum).wait();
      world.reduce(std::span<const float>(one), part, tutti::sum, 1).wait();
      world.reduce_scatter(std::span<const float>(from), part, tutti::sum).wait();
      world.allgather(std::span<const float>(one), into).wait();
      world.gather(std::span<const float>(one), into, 1).wait();
      world.scatter(std::span<const float>(from), part, 1).wait();
      world.alltoall(std::span<const float>(from), into).wait();
      look(after);
    });
  EXPECT_GT(after[false], before[false]) << "ordinary memory goes through slots";
  EXPECT_EQ(after[true], before[true]);
}

TEST(ShmCma, StagesNothingOfOrdinaryMemory) {
  constexpr int p = 3;
  std::array<std::size_t, 3> seen{};
  run_ranks(p, test_settings("shm"), [&](Communicator& world) {
    constexpr std::size_t count = 100'000;
    std::vector<float> in(p * count), out(count);
    const auto look = [&](std::size_t which) {
      world.barrier().wait();
      if (world.rank() == 0) seen[which] = segment_bytes();
      world.barrier().wait();
    };
    look(0);
    for (const char* const algorithm : {"", "shm/cma"})
      world.scatter(std::span<const float>(in), std::span<float>(out), 1, {.algorithm = algorithm}).wait();
    look(1);
    world.scatter(std::span<const float>(in), std::span<float>(out), 1, {.algorithm = "shm/two_copy"}).wait();
    look(2);
  });
  if (std::uint64_t mark = 1, got = 0;
      read_memory_of(::getpid(), reinterpret_cast<std::uintptr_t>(&mark), &got, sizeof got) != 0)
    GTEST_SKIP() << "the kernel allows no process_vm_readv here";
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_GT(seen[2], seen[1]) << "rounds go through slots";
}

// Out of place, other ranks do not write a small result into its owner's buffer; see ShmCall::keeps_buffers().
TEST(ShmDirect, IsForSmallAllreducesInPlace) {
  constexpr int p = 3;
  constexpr std::size_t count = 20'000;
  std::array<std::size_t, 4> seen{};
  run_ranks(p, test_settings("shm"), [&](Communicator& world) {
    auto in = world.allocate<float>(count), out = world.allocate<float>(count);
    const auto fill = [&] { std::ranges::fill(in, static_cast<float>(world.rank() + 1)); };
    const auto expect_sum = [](std::span<const float> result, const char* what) {
      if (std::ranges::any_of(result, [](float sum) { return sum != 1 + 2 + 3; })) throw std::runtime_error(what);
    };
    const auto look = [&](std::size_t& bytes) {
      world.barrier().wait();
      if (world.rank() == 0) bytes = segment_bytes();
      world.barrier().wait();
    };
    const std::span<const float> from(in);
    look(seen[0]);
    fill();
    world.allreduce(in).wait();
    expect_sum(in, "in place");
    look(seen[1]);
    fill();
    world.allreduce(from, out, tutti::sum, {.algorithm = "shm/zero_copy"}).wait();
    expect_sum(out, "into another buffer, direct");
    look(seen[2]);
    fill();
    world.allreduce(from, out).wait();
    expect_sum(out, "into another buffer");
    look(seen[3]);
    for (const char* const engine : {"", "shm/zero_copy"}) {
      const std::span<float> into = world.rank() == 0 ? std::span<float>(in) : std::span<float>(out);
      fill();
      world.allreduce(from, into, tutti::sum, {.algorithm = engine}).wait();
      expect_sum(into, "in place on one rank");
    }
  });
  EXPECT_EQ(seen[1], seen[0]) << "in place";
  EXPECT_EQ(seen[2], seen[0]) << "insisted on";
  EXPECT_GT(seen[3], seen[0]) << "through slots";
}

TEST(ShmMemory, IsGivenBack) {
  run_ranks(2, test_settings("shm"), [](Communicator& world) {
    for (int i = 0; i < 50; ++i) {
      auto memory = world.allocate<std::uint8_t>(std::size_t{16} << 20);
      if (memory[0] != 0 || memory[memory.size() - 1] != 0) throw std::runtime_error("not zeroed");
      memory[memory.size() - 1] = 1;
    }
    try {
      (void)world.allocate<std::uint8_t>(std::size_t{1} << 50);
    } catch (const Error& error) {
      if (error.code() == Code::resource) return;
    }
    throw std::runtime_error("a petabyte was given");
  });
}

TEST(ShmMemory, OutlivesTheJob) {
  std::vector<std::optional<Allocation<int>>> kept(2);
  run_ranks(2, test_settings("shm"), [&](Communicator& world) {
    kept[static_cast<std::size_t>(world.rank())] = world.allocate<int>(1000);
    world.allreduce(*kept[static_cast<std::size_t>(world.rank())]).wait();
  });
  for (auto& one : kept) (*one)[999] = 7;
}

INSTANTIATE_TEST_SUITE_P(Ranks, ShmEngines,
                         ::testing::ValuesIn(thinned ? std::vector{2, 3, 5} : std::vector{2, 3, 4, 8}));

}  // namespace
}  // namespace tutti::testing
