// BackendConformance: tests what tutti/provider/backend.hpp promises on every backend: our own plans, staging, and
// those of providers, over fakes of devices and their libraries.
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "tests/support/backend_world.hpp"
#include "transports/causes.hpp"
#include "transports/core/layout.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

class BackendConformance : public EveryBackend {};

Data floats(std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + count * sizeof(float)};
}

Collective allreduce_of(const OnDevice& in, const OnDevice& out) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = in.buffer(DType::f32);
  call.out = out.buffer(DType::f32);
  return call;
}
Collective allreduce_of(const OnDevice& data) { return allreduce_of(data, data); }

bool have_ended(const std::vector<Report*>& reports) {
  return std::ranges::all_of(reports, [](const Report* one) { return one->ends > 0 || !one->troubles.empty(); });
}

void expect_good_ends(BackendRank& rank, const std::vector<Report*>& reports) {
  EXPECT_TRUE(rank.until([&] { return have_ended(reports); })) << "no end after a minute";
  for (const Report* one : reports) {
    EXPECT_TRUE(one->ends == 1 && one->outcome.ok()) << one->outcome.text();
    for (const Status& why : one->troubles) ADD_FAILURE() << why.text();
  }
}

// Up to 8 ranks play every element type. More ranks play only three types, because all would take too long.
bool plays(DType dtype, const BackendRank& rank) {
  return rank.size() <= 8 || dtype == DType::i8 || dtype == DType::bf16 || dtype == DType::f64;
}

// Plays every allowed pair of operator and dtype, with counts that are no multiples of the ranks, in place and not, by
// every algorithm in turn. The inputs must stay unchanged, and all ranks must have the same bits.
TEST_P(BackendConformance, reductions_are_right) {
  run_all([](BackendWorld& world, BackendRank& rank) {
    const auto n = static_cast<std::size_t>(rank.size());
    const std::size_t counts[] = {0, 1, n - 1, n + 1, 2 * n + 3, 1000, thinned ? 2 * n : 9001};
    InTurn self(world.sort(), rank, world.place());
    std::vector<std::uint64_t> sums;
    std::size_t turn = 0;
    for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
      for (int o = 0; o < op_count; ++o)
        for (int d = 0; d < dtype_count; ++d, ++turn) {
          const auto op = static_cast<Op>(o);
          const auto dtype = static_cast<DType>(d);
          if (!supports(op, dtype) || !plays(dtype, rank)) continue;
          const bool variable = kind == Kind::reduce_scatter && turn % 5 == 0;
          const int before = self.played(kind);
          const auto sum = Folded(self, {kind, dtype, {op, 0.5}, counts[turn % 7], turn / 3 % 2 == 0, variable}).play();
          EXPECT_TRUE(self.played(kind) > before || variable || world.sort().may_refuse(kind, op, dtype))
              << name(kind) << " of " << name(dtype) << " by " << name(op) << " is refused";
          if (kind == Kind::allreduce) sums.push_back(sum);
        }
    self.expect_played({Kind::allreduce, Kind::reduce, Kind::reduce_scatter});
    world.expect_alike(rank, "the bits of sums", sums);
  });
}

TEST_P(BackendConformance, every_algorithm_takes_awkward_counts) {
  run_all([](BackendWorld& world, BackendRank& rank) {
    InTurn self(world.sort(), rank, world.place());
    for (const Kind kind : {Kind::allreduce, Kind::reduce, Kind::reduce_scatter})
      for (const std::string_view algorithm : world.sort().algorithms(kind)) {
        self.insist(algorithm);
        for (std::size_t count = 0; count < (thinned ? 4u : 14u); ++count)
          Folded(self, {kind, DType::f32, avg, count, count % 2 == 0, false}).play();
      }
  });
}

TEST_P(BackendConformance, blocks_come_to_their_places) {
  run_all([](BackendWorld& world, BackendRank& rank) {
    InTurn self(world.sort(), rank, world.place());
    for (const DType dtype : {DType::i8, DType::i16, DType::bf16, DType::f64})
      for (const std::size_t count : {0u, 1u, 7u, thinned ? 70u : 9001u})
        for (const bool variable : {false, true}) {
          if (rank.size() > 8 && dtype != DType::bf16) continue;
          Moves moves(self, dtype, count, variable);
          moves.everything_but_barrier();
          moves.barrier();
        }
    self.expect_played({Kind::broadcast, Kind::allgather, Kind::gather, Kind::scatter, Kind::alltoall});
  });
}

// Each buffer has a margin before and after it. A call must not write to the margins or to the input, and must write
// nothing on a rank that gets no result.
TEST_P(BackendConformance, nothing_else_is_written) {
  run_all([](BackendWorld& world, BackendRank& rank) {
    constexpr std::size_t margin = 64;
    const int root = rank.size() - 1;
    InTurn self(world.sort(), rank, world.place());
    for (int k = 0; k < static_cast<int>(Kind::barrier); ++k)
      for (const std::size_t count : {1u, 9u, thinned ? 90u : 5000u}) {
        const auto kind = static_cast<Kind>(k);
        const bool gives = kind != Kind::scatter || rank.rank() == root;
        const bool gets = (kind != Kind::reduce && kind != Kind::gather) || rank.rank() == root;
        const std::size_t given = gives ? 4 * count * blocks_in(kind, rank.size()) : 0;
        const std::size_t gotten = gets ? 4 * count * blocks_out(kind, rank.size()) : 0;
        const Data before = pattern(2 * margin + std::max({given, gotten, 4 * count}), count);
        const OnDevice from(world.place(), before), into(world.place(), before);
        Collective call;
        call.kind = kind;
        call.out = into.part(margin, gotten, DType::i32);
        call.in = kind == Kind::broadcast ? call.out : from.part(margin, given, DType::i32);
        const bool has_root =
            kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
        call.root = has_root ? root : 0;
        self.play(call);
        EXPECT_EQ(from.read(), before) << name(kind) << " of " << count;
        Data after = into.read();
        std::ranges::copy(ConstBytes(before).subspan(margin, gotten), after.begin() + margin);
        EXPECT_EQ(after, before) << name(kind) << " of " << count;
      }
  });
}

TEST_P(BackendConformance, the_same_bits_every_time) {
  run(3, [](BackendWorld& world, BackendRank& rank) {
    InTurn self(world.sort(), rank, world.place());
    for (const std::size_t count : {3u, 1000u, 70'001u}) {
      std::set<std::uint64_t> sums;
      for (int time = 0; time < 3; ++time) {
        const OnDevice in(world.place(), random_data(DType::f32, count, static_cast<std::uint64_t>(rank.rank())));
        const OnDevice out(world.place(), in.size());
        Collective call = allreduce_of(in, out);
        call.op = avg;
        rank.play(call);
        sums.insert(checksum(out.read().data(), out.size()));
      }
      EXPECT_EQ(sums.size(), 1u) << count;
    }
  });
}

TEST_P(BackendConformance, a_barrier_lets_nobody_go_too_early) {
  if (GetParam().algorithms(Kind::barrier).empty()) GTEST_SKIP() << GetParam() << " has none";
  run_all([](BackendWorld& world, BackendRank& rank) {
    Collective call;
    if (!rank.backend->supports(call, {}).ok()) return;  // device memory only; a barrier has no memory
    for (const std::string_view algorithm : world.sort().algorithms(Kind::barrier)) {
      if (!rank.backend->supports(call, algorithm).ok()) continue;
      const std::string here = "barrier/" + std::string(algorithm);
      world.come(here);
      rank.play(call, algorithm);
      EXPECT_EQ(world.came(here), rank.size()) << algorithm;
    }
  });
}

TEST_P(BackendConformance, calls_under_way_all_end) {
  run(4, [](BackendWorld& world, BackendRank& rank) {
    std::vector<OnDevice> data;
    std::vector<Report*> reports;
    for (std::size_t i = 0; i < 40; ++i)
      data.emplace_back(world.place(), floats(i % 4 == 0 ? 200'000 : i % 7 == 0 ? 0 : 100, 1.0f));
    for (std::size_t i = 0; i < data.size(); ++i) {
      Collective call = allreduce_of(data[i]);
      if (i % 5 == 4) {
        call.kind = Kind::broadcast;
        call.root = static_cast<int>(i) % rank.size();
      }
      reports.push_back(&rank.start(call));
    }
    expect_good_ends(rank, reports);
    for (std::size_t i = 0; i < data.size(); ++i)
      EXPECT_EQ(data[i].read(), floats(data[i].size() / sizeof(float), i % 5 == 4 ? 1.0f : 4.0f)) << i;
  });
}

TEST_P(BackendConformance, two_groups_at_once) {
  run(3, [](BackendWorld& world, BackendRank& rank) {
    const std::unique_ptr<BackendRank> other = world.make(9, true);
    std::vector<OnDevice> data;
    std::vector<Report*> reports;
    for (int i = 0; i < 20; ++i) data.emplace_back(world.place(), floats(30'000, static_cast<float>(i)));
    for (std::size_t i = 0; i < data.size(); ++i)
      reports.push_back(&(i % 2 == 0 ? rank : *other).start(allreduce_of(data[i])));
    for (const Deadline late = deadline_in(Seconds(60)); !have_ended(reports) && Clock::now() < late;) {
      bool moved = rank.progress();
      moved |= other->progress();
      if (!moved) std::this_thread::yield();
    }
    expect_good_ends(rank, reports);
    for (std::size_t i = 0; i < data.size(); ++i)
      EXPECT_EQ(data[i].read(), floats(30'000, 3.0f * static_cast<float>(i))) << i;
    world.meet(*other);
  });
}

// Values that a rank writes after its call has ended are not read by the others, and are not overwritten later.
TEST_P(BackendConformance, buffers_are_the_callers_when_a_call_has_ended) {
  run(3, [](BackendWorld& world, BackendRank& rank) {
    for (const std::size_t count : {1u, 100u, 200'000u}) {
      OnDevice in(world.place(), floats(count, 1.0f)), out(world.place(), in.size());
      rank.play(allreduce_of(in, out));
      in.write(floats(count, 100.0f));
      EXPECT_EQ(out.read(), floats(count, 3.0f)) << count;
      out.write(floats(count, 50.0f));
      world.meet(rank);
      EXPECT_EQ(in.read(), floats(count, 100.0f)) << count;
      EXPECT_EQ(out.read(), floats(count, 50.0f)) << count;
    }
  });
}

TEST_P(BackendConformance, a_call_comes_after_the_callers_stream) {
  if (!GetParam().is_for_devices()) GTEST_SKIP() << "the host's memory has no streams";
  for (const std::size_t count : {100u, 200'000u})
    run(2, [count](BackendWorld& world, BackendRank& rank) {
      FakeAccelerator& gpus = use_fake_gpus();
      const OnDevice in(world.place(), floats(count, 0.0f)), out(world.place(), in.size());
      const Owned<Stream> stream(gpus, gpus.make_stream(world.place()));
      const Owned<Event> ready(gpus, gpus.make_event(world.place()));
      if (rank.rank() == 1) gpus.delay(*stream, 50ms);
      gpus.run(*stream, [seen = gpus.seen(in.data()), count] {
        const Data ones = floats(count, 1.0f);
        std::memcpy(seen, ones.data(), ones.size());
      });
      gpus.record(*ready, *stream);
      expect_good_ends(rank, {&rank.start(allreduce_of(in, out), {}, *ready)});
      EXPECT_EQ(out.read(), floats(count, 2.0f));
    });
}

// Rank 2 never makes the calls of the other ranks, which therefore cannot end before cancel().
TEST_P(BackendConformance, cancel_ends_everything_with_its_cause) {
  if (process_world().there()) GTEST_SKIP() << "what a launcher started must end well, without calls under way";
  run(3, [](BackendWorld& world, BackendRank& rank) {
    const Status why = Status::failure(Code::timeout, "too late, said the test");
    OnDevice large(world.place(), floats(1 << 18, 1.0f)), small(world.place(), floats(10, 1.0f));
    std::vector<Report*> reports;
    if (rank.rank() != 2) {
      reports = {&rank.start(allreduce_of(large)), &rank.start(allreduce_of(small))};
      for (const Deadline until = deadline_in(Seconds(0.03)); Clock::now() < until;) rank.progress();
    }
    for (const Report* one : reports) {
      EXPECT_EQ(one->ends, 0);
      EXPECT_FALSE(one->where().empty());
      EXPECT_EQ(one->where().find('\n'), std::string::npos);
    }
    world.meet(rank);
    rank.backend->cancel(why);
    EXPECT_TRUE(
        rank.until([&] { return std::ranges::all_of(reports, [](const Report* one) { return one->ends > 0; }); }));
    for (const Report* one : reports)
      EXPECT_TRUE(one->outcome.code() == why.code() && one->outcome.text() == why.text()) << one->outcome.text();
    large.write(floats(1 << 18, 5.0f));
    small.write(floats(10, 6.0f));
    world.meet(rank);
    rank.backend->cancel(Status::failure(Code::aborted, "once more"));
    for (const Deadline until = deadline_in(Seconds(0.03)); Clock::now() < until;) rank.progress();
    for (const Report* one : reports) EXPECT_EQ(one->ends, 1);
    if (std::ranges::any_of(reports, &Report::is_abandoned)) return;  // the device may still write to them
    EXPECT_EQ(large.read(), floats(1 << 18, 5.0f));
    EXPECT_EQ(small.read(), floats(10, 6.0f));
  });
}

TEST_P(BackendConformance, cancel_without_calls_is_quiet) {
  run_all([](BackendWorld& world, BackendRank& rank) {
    const OnDevice data(world.place(), floats(100, 1.0f));
    rank.play(allreduce_of(data));
    world.meet(rank);
    for (int i = 0; i < 2; ++i) rank.backend->cancel(Status::failure(Code::aborted, "enough"));
    for (int i = 0; i < 100; ++i) rank.progress();
  });
}

TEST_P(BackendConformance, refusals_are_one_line_and_the_same_on_all_ranks) {
  run(2, [](BackendWorld& world, BackendRank& rank) {
    std::string all;
    const auto ask = [&](const Collective& call, std::string_view algorithm) {
      const Status able = rank.backend->supports(call, algorithm);
      if (able.ok()) return true;
      EXPECT_TRUE(able.code() == Code::unsupported || able.code() == Code::invalid) << able.text();
      EXPECT_FALSE(able.text().empty());
      EXPECT_EQ(able.text().find('\n'), std::string_view::npos) << able.text();
      all += std::string(able.text()) + "\n";
      return false;
    };
    const OnDevice here(world.place(), 800), elsewhere(world.place() == on_host ? 0 : on_host, 800);
    for (int k = 0; k < kind_count; ++k) {
      Collective call = allreduce_of(here);
      call.kind = static_cast<Kind>(k);
      EXPECT_FALSE(ask(call, "no such way")) << name(call.kind);
      const auto known = world.sort().algorithms(call.kind);
      const bool has_any = !known.empty();
      const std::string words(check_algorithm_name(GetParam().name, "no such way", call.kind, known).text());
      EXPECT_TRUE(!has_any || call.kind == Kind::send || rank.backend->supports(call, "no such way").text() == words);
      EXPECT_TRUE(!ask(call, {}) || has_any || world.sort().provider == nullptr) << name(call.kind);
      for (int d = 0; d < dtype_count; ++d)
        for (int o = 0; o < op_count; ++o) {
          call.in.dtype = call.out.dtype = static_cast<DType>(d);
          call.op = {static_cast<Op>(o), 0.5};
          ask(call, {});
        }
    }
    EXPECT_TRUE(ask(allreduce_of(here), {}));
    EXPECT_FALSE(ask(allreduce_of(elsewhere), {})) << "it is for memory elsewhere";
    const auto* const bytes = reinterpret_cast<const std::byte*>(all.data());
    world.expect_alike(rank, "refusals", {checksum(bytes, all.size())});
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendConformance, ::testing::ValuesIn(backend_sorts(with_fake_nccl())),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace tutti::testing
