// Counts at each rank's transport what hierarchical algorithms send between hosts, and compares it with their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "tests/support/meetings.hpp"
#include "tests/support/recorded_messages.hpp"
#include "transports/core/layout.hpp"
#include "transports/decorators/recorded.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {
namespace {

using Layout = std::vector<int>;

const Provider* provider(std::string_view name) {
  const auto found = std::ranges::find_if(providers(), [&](const Provider* one) { return one->name == name; });
  return found == providers().end() ? nullptr : *found;
}

/// A call that records how it ended.
struct Ending final : Call {
  void trouble(const Status& why) override { status = why; }
  void ended(const Status& how) override {
    status = how;
    done = true;
  }
  Status status;
  bool done = false;
};

class Crossing : public ::testing::TestWithParam<std::tuple<const char*, Layout>> {
 protected:
  void SetUp() override {
    settings_.job = "crossing";
    settings_.secret = "a secret";
    way_ = {provider("shm"), provider("tcp"), false, hosts()};
    if (const std::string reason = not_viable(way_, settings_); !reason.empty()) GTEST_SKIP() << reason;
  }
  static const Layout& hosts() { return std::get<1>(GetParam()); }
  static int size() { return static_cast<int>(hosts().size()); }

  /// Bytes that each rank sends to ranks of other hosts while all play `algorithm` once.
  std::vector<std::size_t> count_crossing(const Algorithm& algorithm, std::size_t count) {
    std::vector<std::size_t> bytes(hosts().size());
    std::vector<std::unique_ptr<Recorder>> recorders;
    for (int rank = 0; rank < size(); ++rank) recorders.push_back(testing::make_recorder(rank, size()));
    const auto store = make_local_store();
    run_ranks(
        size(),
        [&](Rank& rank) {
          return make_recorded(connect(way_, rank, store, settings_),
                               *recorders[static_cast<std::size_t>(rank.rank())]);
        },
        [&](Rank& rank) { play(rank, algorithm, count); });
    for (std::size_t me = 0; me < bytes.size(); ++me)
      for (const doctor::RecordedCall& message : testing::messages_of(*recorders[me]))
        if (message.what == Record::What::sent && hosts()[static_cast<std::size_t>(message.peer)] != hosts()[me])
          bytes[me] += message.bytes;
    return bytes;
  }

  void play(Rank& rank, const Algorithm& algorithm, std::size_t count) {
    Group group{1, rank.rank(), {}, std::make_shared<const Hosts>(hosts(), size())};
    std::vector<int> members;
    for (int member = 0; member < size(); ++member) members.push_back(member);
    group.members = members;
    std::vector<float> in(blocks_in(algorithm.kind, size()) * count, 1.0f);
    std::vector<float> out(blocks_out(algorithm.kind, size()) * count, 1.0f);
    Ending call;
    call.what.kind = algorithm.kind;
    call.what.in = in;
    call.what.out = out;
    call.what.root = size() / 2;
    call.algorithm = algorithm.name;
    call.piece = piece_;
    PlannedBackend backend(*rank.transport, group, settings_);
    ASSERT_TRUE(backend.supports(call.what, algorithm.name).ok());
    backend.start(call);
    rank.until([&] { return call.done; }, std::string(algorithm.name));
    EXPECT_TRUE(call.status.ok()) << call.status.text();
    rank.meet("the end");
  }

  /// Computes the same bytes from the schedules of all lanes; the lanes take different paths (shape.way).
  std::vector<std::size_t> planned_crossing(const Algorithm& algorithm, Shape shape) const {
    const std::size_t piece = piece_ == 0 ? static_cast<std::size_t>(settings_.lane_bytes) : piece_;
    const Lanes lanes = lanes_of(algorithm, shape, sizeof(float), piece);
    const std::size_t whole = shape.count;
    std::vector<std::size_t> bytes(hosts().size());
    for (shape.rank = 0; shape.rank < size(); ++shape.rank)
      for (std::size_t lane = 0; lane < lanes.number; ++lane) {
        const auto me = static_cast<std::size_t>(shape.rank);
        shape.way = static_cast<int>(lane) % ways_of(algorithm, shape);
        shape.count = std::min(lanes.count, whole - lane * lanes.count);
        for (const auto& round : all_rounds(algorithm.plan(shape)))
          for (const Step& step : round)
            if (step.verb == Step::Verb::send && hosts()[static_cast<std::size_t>(step.peer)] != hosts()[me])
              bytes[me] += step.slice.count * sizeof(float);
      }
    return bytes;
  }

  void compare(const Algorithm& algorithm, std::size_t count, bool one_lane) {
    SCOPED_TRACE(std::string(name(algorithm.kind)) + " " + std::string(algorithm.name) + ", " + std::to_string(count) +
                 " elements");
    const Hosts table(hosts(), size());
    const Shape shape{.size = size(), .count = count, .root = size() / 2, .hosts = &table};
    if (algorithm.fits && !algorithm.fits(shape)) return;
    const std::uint64_t visited = Hosts::visited();
    const std::vector<std::size_t> bytes = count_crossing(algorithm, count);
    const auto ranks = static_cast<std::uint64_t>(size());
    EXPECT_EQ(Hosts::visited() - visited, ranks * ranks) << "each rank's backend makes one table, and no call another";
    EXPECT_EQ(bytes, planned_crossing(algorithm, shape));
    std::map<int, std::size_t> by_host;
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < bytes.size(); ++rank) {
      by_host[hosts()[rank]] += bytes[rank];
      total += bytes[rank];
    }
    const auto formula = crossing_of(algorithm, shape);
    EXPECT_EQ(total, formula.total * sizeof(float));
    if (!one_lane) return;  // the formula for one host is rounded in each lane
    EXPECT_EQ(std::ranges::max_element(by_host, {}, &std::pair<const int, std::size_t>::second)->second,
              formula.most * sizeof(float));
  }

  Settings settings_;
  std::size_t piece_ = 0;  // see Call::piece
  Way way_;
};

TEST_P(Crossing, IsWhatTheFormulasSay) {
  for (const Algorithm* algorithm : catalog()) {
    if (algorithm->crossing == nullptr) continue;
    settings_.lane_bytes = 1 << 20;
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}}) compare(*algorithm, count, true);
    settings_.lane_bytes = 4 << 10;
    compare(*algorithm, 9001, false);
    settings_.lane_bytes = 1 << 20;  // with short pieces, more lanes than max_lanes run at a time
    piece_ = 2 << 10;
    compare(*algorithm, 9001, false);
    piece_ = 0;
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, Crossing,
                         ::testing::Values(std::tuple("even_and_odd", Layout{0, 1, 0, 1, 0, 1}),
                                           std::tuple("four_of_two", Layout{0, 0, 1, 1, 2, 2, 3, 3}),
                                           std::tuple("three_in_turns", Layout{0, 1, 2, 0, 1, 2, 0}),
                                           std::tuple("lopsided", Layout{0, 0, 0, 0, 1}),
                                           std::tuple("all_alone", Layout{0, 1, 2, 3})),
                         [](const auto& param) { return std::string(std::get<0>(param.param)); });

}  // namespace
}  // namespace tutti::testing
