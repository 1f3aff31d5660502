// The check of plans: it finds no defect in any algorithm, and finds each kind of defect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/model/replay.hpp"
#include "collectives/plan/geometry.hpp"
#include "tests/support/thinned.hpp"
#include "tutti/topology.hpp"

namespace tutti::model {
namespace {

using ::testing::HasSubstr;
using testing::thinned;

Hosts blocks(int hosts, int ranks) {
  std::vector<int> host;
  for (int rank = 0; rank < hosts * ranks; ++rank) host.push_back(rank / ranks);
  return {host, hosts * ranks};
}

Collective call_of(const Algorithm& algorithm, const Hosts& hosts, std::size_t count) {
  const Shape shape{.size = static_cast<int>(hosts.host().size()), .count = count, .hosts = &hosts};
  return {&algorithm, shape, 4, {1, count}};
}

TEST(Check, FindsNothingWrongWithAnyAlgorithm) {
  const std::vector<int> uneven = {0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 0, 2};
  for (const Hosts& hosts : {Hosts(uneven, 13), blocks(4, 4), blocks(1, 6), blocks(7, 1)})
    for (const Algorithm* const algorithm : catalog()) {
      Collective call = call_of(*algorithm, hosts, 40);
      if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
      if (algorithm->lanes) call.lanes = {4, 12};
      EXPECT_EQ(check(call), "") << name(algorithm->kind) << " " << algorithm->name << " on " << hosts.count();
    }
}

TEST(Check, FindsNothingWrongOnManyRanks) {
  for (const Hosts& hosts : {blocks(32, 8), blocks(thinned ? 40 : 128, 8)})
    for (const Algorithm* const algorithm : catalog()) {
      Collective call = call_of(*algorithm, hosts, 4);
      if (algorithm->fits != nullptr && !algorithm->fits(call.shape)) continue;
      const std::size_t messages = tally(algorithm->plan(call.shape)).messages;
      if (hosts.count() > 32 && messages > 300) continue;  // per rank, so a million in all
      if (algorithm->lanes) call.lanes = {2, 2};
      EXPECT_EQ(check(call), "") << name(algorithm->kind) << " " << algorithm->name << " on " << hosts.count();
    }
}

Schedule one_round(std::initializer_list<Step> steps) {
  Schedule plan;
  plan.round(steps);
  return plan;
}

std::string defect(Schedule (*plan)(const Shape&), Kind kind = Kind::allreduce) {
  const Algorithm broken{.kind = kind, .name = "broken", .idea = "", .plan = plan, .cost = nullptr};
  const std::string found = check({&broken, {.size = 2, .count = 1}, 4, {1, 1}});
  EXPECT_EQ(check({&broken, {.size = 2, .count = 3}, 4, {3, 1}}), found) << "in equal lanes";
  return found;
}

TEST(Check, FindsWhatIsWrong) {
  EXPECT_THAT(defect([](const Shape&) {
                return one_round({copy(out({0, 1}), in({0, 1}))});
              }),
              HasSubstr("not every contribution exactly once"));
  EXPECT_THAT(defect([](const Shape& s) {
                return one_round({recv_reduce(1 - s.rank, out({0, 1}), in({0, 1}))});
              }),
              HasSubstr("waits for ever"));
  EXPECT_THAT(defect([](const Shape& s) {
                return one_round({send(1 - s.rank, in({0, 1})), send(1 - s.rank, in({0, 1})),
                                  recv_reduce(1 - s.rank, out({0, 1}), in({0, 1}))});
              }),
              HasSubstr("waits for ever"));
  EXPECT_THAT(defect([](const Shape& s) {  // both send first, which needs buffered messages
                Schedule plan = one_round({send(1 - s.rank, in({0, 1}))});
                plan.round({recv_reduce(1 - s.rank, out({0, 1}), in({0, 1}))});
                return plan;
              }),
              HasSubstr("deadlock where messages wait for their receives"));
  EXPECT_THAT(defect([](const Shape& s) {
                return one_round({send(1 - s.rank, in({0, 1})), recv_reduce(1 - s.rank, in({0, 1}), in({0, 1}))});
              }),
              HasSubstr("has written to in[0]"));
  EXPECT_THAT(defect([](const Shape&) {
                return one_round({copy(out({0, 2}), in({0, 2}))});
              }),
              HasSubstr("outside its memory"));
  EXPECT_THAT(defect([](const Shape& s) { return s.rank == 0 ? one_round({notify(1)}) : one_round({await(0)}); },
                     Kind::barrier),
              HasSubstr("without having heard of rank 1"));
}

}  // namespace
}  // namespace tutti::model
