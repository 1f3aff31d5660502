// The ledger (record of workers' steps) in dumps: where each worker resumes, and which pushes still wait in a round.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/server/ledger.hpp"
#include "tests/support/worlds.hpp"
#include "tutti/parameter_server.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using What = Ledger::Deal::What;

/// A share of `epochs` epochs with `each` steps.
Ledger::Share share(std::int64_t each, std::int64_t epochs) { return {each * epochs, each}; }

TEST(LedgerDump, CountsARoundOfADumpOnce) {
  Ledger first({{8, 4}, {8, 4}});
  first.gone(1, Parting::died, 2);  // steps 0 and 1 wait in a round, and 2 to 7 are free
  Ledger ledger({{8, 4}, {8, 4}});
  ledger.load(first.save({{1, 2}}));
  EXPECT_EQ(ledger.own_pushed(1), 4) << "it begins with the epoch of which no step has been taken";
  ledger.pushed(1, 2);  // the round closes
  EXPECT_EQ(ledger.own_pushed(1), 4);
  ledger.pushed(1, 1);
  EXPECT_EQ(ledger.own_pushed(1), 5);
  EXPECT_EQ(ledger.ask(0, 8, 0, false).step.number, 2);
  EXPECT_EQ(ledger.ask(0, 9, 0, false).step.number, 3);
}

TEST(LedgerDump, GoesOnAfterTheWaitingPushOfAWorkerThatLives) {
  Ledger first({{8, 4}, {8, 4}});
  first.pushed(1, 1);
  Ledger ledger({{8, 4}, {8, 4}});
  ledger.load(first.save({{1, 2}}));  // steps 1 and 2 wait in a round
  EXPECT_EQ(ledger.own_pushed(1), 3);
  Ledger again({{8, 4}, {8, 4}});
  again.load(ledger.save({{1, 2}}));
  EXPECT_EQ(again.own_pushed(1), 3) << "they still wait";
  again.pushed(1, 2);  // the round closes
  EXPECT_EQ(again.own_pushed(1), 3);
  again.pushed(1, 1);
  EXPECT_EQ(again.own_pushed(1), 4);
  again.gone(1, Parting::died);
  EXPECT_EQ(again.fate(1).own, 4);
  EXPECT_EQ(again.fate(1).missing, 4);
}

TEST(LedgerDump, HasTheWaitingPushOfAWorkerThatJoined) {
  Ledger first({{4, 4}}, true);
  first.comes(1);
  EXPECT_EQ(first.ask(1, 0, 0, true).step.number, 3);
  EXPECT_EQ(first.ask(1, 1, 0, true).step.number, 2);
  Ledger ledger({{4, 4}}, true);
  ledger.load(first.save({{1, 1}}));  // step 3 waits in a round, and step 2 is not pushed
  ledger.comes(1);                    // another newcomer, with the same number
  EXPECT_EQ(ledger.ask(1, 0, 0, true).step.number, 2);
  ledger.pushed(1, 1);  // the round closes
  ledger.gone(1, Parting::died);
  EXPECT_EQ(ledger.fate(0).missing, 1) << "step 2 once more, and step 3 no more";
  EXPECT_EQ(ledger.ask(0, 2, 0, true).step.number, 2);
  EXPECT_EQ(ledger.ask(0, 3, 0, true).what, What::none);
}

TEST(LedgerDump, RefusesMoreStepsOfAnEpochThatOthersEnded) {
  Ledger first({{4, 6}}, true);
  first.claim(0, 0, 2);
  first.comes(1);
  EXPECT_EQ(first.ask(1, 0, 0, true).step.number, 3);
  first.pushed(1, 1);
  Ledger same({{4, 6}}, true), more({{12, 6}}, true);
  same.load(first.save());
  EXPECT_EQ(same.claim(0, 0, 9), 3);
  EXPECT_THROW(more.load(first.save()), Error);
}

TEST(LedgerDump, GoesOnFromADump) {
  Ledger first({share(3, 3), share(3, 3), share(3, 3)});
  first.pushed(0, 4);
  first.pushed(1, 1);
  first.gone(1, Parting::died);
  EXPECT_EQ(first.ask(0, 4, 0, false).step.number, 1);
  first.pushed(0, 1);
  EXPECT_EQ(first.ask(2, 3, 0, false).step.number, 2);  // this step is not pushed
  Ledger second({share(3, 3), share(3, 3), share(3, 3)});
  second.load(first.save());
  EXPECT_EQ(second.own_pushed(0), 4);
  EXPECT_EQ(second.own_pushed(2), 0);
  EXPECT_EQ(second.own_pushed(1), 3) << "of its first epoch some has been taken; the rest is there for all";
  const Ledger::Deal deal = second.ask(2, 3, 0, false);
  EXPECT_EQ(deal.step.worker, 1);
  EXPECT_EQ(deal.step.number, 2);
  EXPECT_EQ(second.ask(0, 5, 2, false).what, What::none);
  Ledger other({share(3, 3)});
  EXPECT_THROW(other.load(first.save()), Error);
}

/// One worker's view of the master, rank 0. There are two workers, and a round consists of two pushes.
struct Seat {
  ParameterServer& servers;
  Communicator& workers;
  std::optional<Parameters> w = {}, ledger = {};
  std::vector<double> sent = {};

  void open() {
    w = servers.open("w", 1, DType::f64);
    ledger = servers.open("ledger", question_size, DType::f64);
    workers.barrier().wait();
  }
  Request push(double value, std::uint64_t steps) {
    sent = {value};
    return w->push("step", sent, {.meta = {.steps = steps}});
  }
  double value() const {
    std::vector<double> got(1);
    w->pull(got).wait();
    return got[0];
  }
  double own_pushed() const {
    std::vector<double> question(question_size), answer(question_size);
    question[0] = static_cast<double>(LedgerQuestion::place);
    ledger->push_pull("deal", question, answer).wait();
    return answer[2];
  }
};

void run_masters(const std::function<void(Seat& seat)>& body) {
  tutti::testing::run_ranks(3, tutti::testing::test_settings("shm"), [&](Communicator& world) {
    const ServerRule add{.apply =
                             [](const ShardView& shard, std::span<const Pushed> pushed) {
                               for (const Pushed& one : pushed)
                                 reinterpret_cast<double*>(shard.values.data)[0] +=
                                     reinterpret_cast<const double*>(one.data.data)[0];
                             },
                         .quorum = 2};
    ParameterServer::Options options{.servers = {0}, .workers = {1, 2}};
    const WorkerRanks ranks{options.workers, world.size()};
    const auto ledger = std::make_shared<Ledger>(std::vector<Ledger::Share>(2, share(8, 1)));
    options.rules = {{"step", with_ledger(add, ledger, ranks)}, {"deal", deal_rule(ledger, ranks)}};
    ParameterServer servers(world, options);
    std::optional<Communicator> workers = world.split(world.rank() == 0 ? 0 : 1, world.rank());
    if (world.rank() == 0) return servers.serve();
    Seat seat{servers, *workers};
    body(seat);
  });
}

// The second worker has pushed two steps, which wait in a round while the master is dumped. In the run that resumes
// from the dump they are applied once, and the worker continues after them.
TEST(LedgerDump, HasThePushOfALiveWorkerAppliedOnce) {
  std::vector<std::byte> dump;
  run_masters([&](Seat& seat) {
    seat.open();
    const bool is_second = seat.workers.rank() == 1;
    Request waits;
    if (is_second) {
      waits = seat.push(3, 2);
      EXPECT_EQ(seat.value(), 0) << "the push has come, and waits";
    }
    seat.workers.barrier().wait();
    if (!is_second) {
      dump = seat.servers.dump();
      seat.push(10, 2).wait();
    }
    waits.wait();
    EXPECT_EQ(seat.value(), 13);
  });
  run_masters([&](Seat& seat) {
    const bool is_second = seat.workers.rank() == 1;
    if (!is_second) seat.servers.load(dump);
    seat.workers.barrier().wait();
    seat.open();
    EXPECT_EQ(seat.own_pushed(), is_second ? 2 : 0) << "where the worker begins";
    seat.workers.barrier().wait();
    if (!is_second) seat.push(10, 2).wait();
    seat.workers.barrier().wait();
    EXPECT_EQ(seat.value(), 13) << "the push of the dump, once, and the new one";
    EXPECT_EQ(seat.own_pushed(), 2);
    seat.push(100, 6).wait();
    EXPECT_EQ(seat.value(), 213);
    EXPECT_EQ(seat.own_pushed(), 8) << "the whole share";
  });
}

}  // namespace
}  // namespace tutti::engine
