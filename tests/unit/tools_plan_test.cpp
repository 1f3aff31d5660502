// `tutti plan`: counts without replay, the choice, the verdict on a wrong plan, texts and pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/plan/geometry.hpp"
#include "tests/support/refusal.hpp"
#include "tools/plan/counting.hpp"
#include "tools/plan/pictures.hpp"
#include "tools/plan/request.hpp"
#include "tools/plan/row.hpp"
#include "tools/plan/sweep.hpp"
#include "tools/plan/text.hpp"
#include "tools/plan/verdict.hpp"
#include "tools/plot/axis.hpp"
#include "tools/plot/svg.hpp"

namespace tutti::planning {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Parses a command line such as "allreduce --ranks 4".
Request request_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return parse_request(words);
}

void expect_equal(const model::Counts& counted, const model::Counts& replayed) {
  for (int level = 0; level < model::levels; ++level) {
    EXPECT_EQ(counted.messages[level], replayed.messages[level]);
    EXPECT_EQ(counted.bytes[level], replayed.bytes[level]);
  }
  EXPECT_EQ(counted.most_from_host, replayed.most_from_host);
  EXPECT_EQ(counted.most_from_rack, replayed.most_from_rack);
  EXPECT_EQ(counted.most_from_rank, replayed.most_from_rank);
  EXPECT_EQ(counted.most_messages, replayed.most_messages);
  EXPECT_EQ(counted.folded, replayed.folded);
  EXPECT_EQ(counted.copied, replayed.copied);
  EXPECT_EQ(counted.rounds, replayed.rounds);
  EXPECT_EQ(counted.scratch, replayed.scratch);
}

class Counting : public ::testing::TestWithParam<const char*> {};

TEST_P(Counting, FindsWhatTheReplayDoes) {
  for (const Algorithm* algorithm : catalog())
    for (const char* lanes : {"1", "3"}) {
      SCOPED_TRACE(std::string(name(algorithm->kind)) + " " + std::string(algorithm->name) + " in lanes: " + lanes);
      const Request request = request_of(std::string(name(algorithm->kind)) + " --lanes " + lanes + GetParam());
      if (algorithm->fits != nullptr && !algorithm->fits(request.shape)) continue;
      const Row row = row_of(request, *algorithm);
      const Counted counted = count(row.call, 1'000'000);
      const model::Outcome played = model::replay(row.call, request.network);
      EXPECT_TRUE(counted.whole);
      EXPECT_EQ(counted.by_alike, played.by_alike);
      expect_equal(counted.counts, played.counts);
    }
}
INSTANTIATE_TEST_SUITE_P(Layouts, Counting,
                         ::testing::Values(" --bytes 4000 --ranks 16", " --bytes 12K --ranks 16 --hosts 4",
                                           " --bytes 4000 --ranks 16 --hosts 4 --layout turns",
                                           " --bytes 4000 --layout 5,1,3,2,1", " --bytes 4000 --ranks 1",
                                           " --bytes 4000 --ranks 16 --hosts 8 --racks 3"));

TEST(Counting, StopsWhereThereIsTooMuch) {
  const Request request = request_of("allreduce --ranks 1000 --lanes 1");
  const Counted counted = count(row_of(request, *find_algorithm(Kind::allreduce, "ring")).call, 10'000);
  EXPECT_FALSE(counted.whole);
  EXPECT_GE(counted.played, 5'000U);
  EXPECT_LT(counted.played, 20'000U);
}

TEST(Choice, IsTheFirstOfTheModel) {
  const Request request = request_of("broadcast --ranks 64 --hosts 8 --net fabric");
  const auto best = model::rank_algorithms(Kind::broadcast, request.shape, 4, request.network, request.limits).front();
  const Ranking ranking = rank_all(request);
  EXPECT_EQ(ranking.chosen().algorithm, best.algorithm);
  EXPECT_EQ(ranking.chosen().call.lanes, best.lanes);
  EXPECT_EQ(std::ranges::count(ranking.rows, true, &Row::chosen), 1);
}

TEST(Choice, ReplaysNoMoreThanIsAllowed) {
  const Request request = request_of("allreduce --ranks 16 --lanes 1 --algorithm ring");
  Row row = row_of(request, *find_algorithm(Kind::allreduce, "ring"));  // has 480 messages
  weigh(row, request, 479);
  EXPECT_FALSE(row.replay);
  EXPECT_THAT(why_not_replayed(row), HasSubstr("480 messages; --whole"));
  weigh(row, request, 480);
  EXPECT_TRUE(row.replay);
}

TEST(Verdict, FindsAWrongPlan) {
  static const Algorithm nobody_sends{
      .kind = Kind::broadcast,
      .name = "nobody_sends",
      .idea = "all but the root wait",
      .plan =
          [](const Shape& s) {
            Schedule plan;
            if (s.rank != s.root) plan.round({recv(s.root, out(Range{0, s.count}))});
            return plan;
          },
      .cost = [](const Shape&) { return Cost{}; },
  };
  const Request request = request_of("broadcast --ranks 3 --check");
  Row row = row_of(request, nobody_sends);
  weigh(row, request);
  const Verdict verdict = verdict_of(row, request);
  EXPECT_EQ(verdict.outcome, Verdict::Outcome::wrong);
  EXPECT_THAT(verdict.text, StartsWith("WRONG: "));
}

TEST(Verdict, SaysWhatItHasNotChecked) {
  const auto verdict_on = [](const std::string& line) {
    const Request request = request_of(line);
    Row row = rank_all(request).chosen();
    weigh(row, request);
    return verdict_of(row, request);
  };
  EXPECT_EQ(verdict_on("allreduce --ranks 8 --bytes 4K").text, "right: each contribution once, no deadlock");
  EXPECT_THAT(verdict_on("allgather --ranks 8 --bytes 256M --lanes 2").text, HasSubstr("elements (--whole: with all)"));
  const Verdict skipped = verdict_on("broadcast --ranks 2000 --bytes 4");
  EXPECT_EQ(skipped.outcome, Verdict::Outcome::skipped);
  EXPECT_EQ(skipped.text, "skipped: 2,000 ranks; --check does it");
  EXPECT_EQ(verdict_on("broadcast --ranks 2000 --bytes 4 --check").outcome, Verdict::Outcome::right);
}

TEST(Layout, PutsRanksOnHosts) {
  const auto hosts = [](const std::string& flags) {
    const Request request = request_of("barrier " + flags);
    const auto of = request.hosts->host();
    return std::vector<int>(of.begin(), of.end());
  };
  EXPECT_THAT(hosts("--ranks 5 --hosts 2"), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(hosts("--ranks 5 --hosts 2 --layout turns"), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(hosts("--layout 1,3"), ElementsAre(0, 1, 1, 1));
}

TEST(Layout, PutsHostsInRacks) {
  const auto racks = [](const std::string& flags) {
    const Request request = request_of("barrier " + flags);
    if (request.hosts->above() == nullptr) return std::vector<int>();
    const auto of = request.hosts->above()->host();
    return std::vector<int>(of.begin(), of.end());
  };
  EXPECT_THAT(racks("--ranks 10 --hosts 5 --racks 2"), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(racks("--ranks 8 --hosts 4 --racks 2 --layout turns"), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(racks("--layout 1,3,2 --racks 3"), ElementsAre(0, 1, 2));
  EXPECT_THAT(racks("--ranks 8 --hosts 4 --racks 1"), ElementsAre());
  EXPECT_THAT(testing::refusal([] { request_of("barrier --ranks 8 --hosts 4 --racks 5"); }),
              HasSubstr("--racks 5 are more than --hosts 4"));
}

TEST(Sweeps, KeepRanksOrHosts) {
  const Sweep ranks = sweep(request_of("barrier --ranks 12 --hosts 3 --sweep ranks"));
  EXPECT_THAT(ranks.values, ElementsAre(2, 4, 8, 12));
  const Sweep hosts = sweep(request_of("barrier --ranks 12 --hosts 3 --sweep hosts"));
  EXPECT_THAT(hosts.values, ElementsAre(1, 2, 3));
  const Sweep bytes = sweep(request_of("allreduce --ranks 12 --hosts 3 --sweep bytes"));
  EXPECT_EQ(bytes.values.front(), 8U);
  EXPECT_EQ(bytes.values.back(), std::size_t{256} << 20);
  EXPECT_EQ(bytes.chosen.size(), bytes.values.size());
  for (std::size_t i = 0; i < bytes.values.size(); ++i)
    for (const Sweep::Line& line : bytes.lines) {
      if (!line.cells[i].seconds || line.cells[i].replayed) continue;
      EXPECT_LE(*bytes.lines[bytes.chosen[i]].cells[i].seconds, *line.cells[i].seconds);
    }
}

TEST(Pictures, SayWhenThereIsTooMuchToDraw) {
  const auto refusal = [](const std::string& line) {
    return testing::refusal([&] {
      const Request request = request_of(line);
      Row row = rank_all(request).chosen();
      weigh(row, request);
      space_time(request, row);
    });
  };
  EXPECT_THAT(refusal("barrier --ranks 65"), HasSubstr("at most 64 ranks, not 65"));
  EXPECT_THAT(refusal("alltoall --ranks 64 --lanes 2"), HasSubstr("at most 4,000 messages"));
  EXPECT_EQ(refusal("barrier --ranks 1"), "nothing was thrown");
}

TEST(Text, IsShort) {
  EXPECT_EQ(time_text(0), "0 us");
  EXPECT_EQ(time_text(1.234e-6), "1.23 us");
  EXPECT_EQ(time_text(0.9996e-3), "1 ms");
  EXPECT_EQ(time_text(12.3), "12.3 s");
  EXPECT_EQ(time_text(4321), "4321 s");
  EXPECT_EQ(bytes_text(8), "8 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(std::size_t{64} << 20), "64 MiB");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(131070), "131,070");
  EXPECT_EQ(ratio_text(1.125), "1.12");
  EXPECT_EQ(ratio_text(2523.9), "2,524");
  EXPECT_EQ(plural(1, "host"), "1 host");
}

TEST(Svg, KeepsNamesApart) {
  EXPECT_THAT(plot::moved_apart(std::vector<double>{50, 10, 52}, 0, 100, 16), ElementsAre(50, 10, 66));
  EXPECT_THAT(plot::moved_apart(std::vector<double>{98, 99}, 0, 100, 16), ElementsAre(84, 100));
  EXPECT_EQ(plot::escaped("a<b>&\"c\"\n"), "a&lt;b&gt;&amp;&quot;c&quot;");
}

TEST(Axis, HasTicksAtPowersOfTwo) {
  const plot::Axis axis = plot::Axis::powers_of_two(8, 1024, 4);
  std::vector<double> ticks;
  for (const plot::Tick& tick : axis.ticks()) ticks.push_back(tick.value);
  EXPECT_THAT(ticks, ElementsAre(8, 64, 512));
  EXPECT_DOUBLE_EQ(axis.at(8), 0);
  EXPECT_DOUBLE_EQ(axis.at(1024), 1);
}

}  // namespace
}  // namespace tutti::planning
