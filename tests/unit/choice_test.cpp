// The choice of algorithms between hosts: by the least cost on a described network, after the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/selector.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/kept_transport.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

using testing::caught;
using ::testing::HasSubstr;

struct NobodyListens final : TransportListener {
  void failed(const Cause&) override {}
  void control(int, ConstBytes) override {}
};

/// The selector's view of 32 ranks on 8 hosts.
class World {
 public:
  World() {
    Rendezvous meeting;
    meeting.size = size;
    meeting.settings = &settings_;
    meeting.listener = &listener_;
    for (const Provider* one : providers())
      if (one->name == "inproc") wire_ = one->connect(meeting).transport;
    Group group{.id = 1};
    std::vector<int> members, host;
    for (int rank = 0; rank < size; ++rank) {
      members.push_back(rank);
      host.push_back(rank / 4);
    }
    group.members = members;
    group.table = std::make_shared<const Hosts>(host, size);
    plans_ = std::make_shared<PlannedBackend>(*wire_, group, settings_);
    backends_.push_back(plans_);
  }
  const Backends& backends() const { return backends_; }
  const Hosts& hosts() const { return plans_->hosts(); }

  static constexpr int size = 32;

 private:
  Settings settings_;
  NobodyListens listener_;
  std::unique_ptr<Transport> wire_;
  std::shared_ptr<PlannedBackend> plans_;
  Backends backends_;
};

Selector selector_of(const std::string& select, std::string_view tuned = "") {
  Settings settings;
  settings.select = select;
  return Selector(settings, tuned, {});
}

Collective allreduce_of(std::size_t bytes) {
  Collective call;
  call.kind = Kind::allreduce;
  call.in = call.out = Buffer(nullptr, bytes / 4, DType::f32);
  return call;
}

Facts facts_of(std::size_t bytes) { return {.bytes = bytes, .size = World::size, .hosts = 8}; }

TEST(BetweenHosts, TheLeastCostIsTaken) {
  const Selector selector = selector_of("");
  const World world;
  const auto choose = [&](std::size_t bytes) {
    return selector.choose(allreduce_of(bytes), facts_of(bytes), world.backends());
  };
  const auto best = [&](std::size_t bytes) {
    const Shape shape{.size = World::size, .count = bytes / 4, .hosts = &world.hosts()};
    return model::rank_algorithms(Kind::allreduce, shape, 4, selector.network()).front();
  };
  for (const std::size_t bytes : {8u, 64u << 10, 64u << 20}) {
    EXPECT_EQ(choose(bytes).algorithm, best(bytes).algorithm->name);
    EXPECT_EQ(choose(bytes).piece, best(bytes).piece);
  }
  EXPECT_NE(choose(8).algorithm, choose(64 << 20).algorithm);
  EXPECT_THAT(selector.explain(allreduce_of(8), facts_of(8), world.backends()),
              AllOf(HasSubstr(": the least cost ("), HasSubstr("; next "), HasSubstr(") by the network 'within ")));
}

TEST(BetweenHosts, RulesComeBeforeCosts) {
  const Selector selector = selector_of("allreduce: .. hosts 2..=tree");
  const World world;
  const Choice ruled = selector.choose(allreduce_of(8), facts_of(8), world.backends());
  EXPECT_EQ(ruled.algorithm, "tree");
  const Shape shape{.size = World::size, .count = 2, .hosts = &world.hosts()};
  EXPECT_EQ(ruled.piece, model::best_piece(*find_algorithm(Kind::allreduce, "tree"), shape, 4, selector.network()));
  EXPECT_FALSE(ruled.by_cost);
}

TEST(BetweenHosts, TheNetworkIsWhatSomebodySays) {
  EXPECT_EQ(selector_of("").network(), model::default_network());
  EXPECT_EQ(selector_of("network: fabric").network(), model::parse_network("fabric"));
  EXPECT_EQ(selector_of("", "network: fabric # measured\nallreduce: ..=ring").network(),
            model::parse_network("fabric"));
  EXPECT_EQ(selector_of("network: gigabit", "network: fabric").network(), model::parse_network("gigabit"));
  EXPECT_EQ(selector_of("", "network: nonsense").network(), model::default_network());
  EXPECT_THAT(caught([] { selector_of("network: nonsense"); }).what(), HasSubstr("within 0.3us 10G"));
  Settings slow;
  slow.net = "8mbit,20ms";
  const model::Network network = Selector(slow, "", {}).network();
  const model::Link& link = network[model::Level::between];
  EXPECT_GT(link.latency, 0.02);
  EXPECT_DOUBLE_EQ(link.per_byte, 1e-6);
  EXPECT_FALSE(network.tells_racks()) << "the links are of ranks";
}

// If ranks of one host are connected by tcp only, plans are chosen as between hosts, but pieces are not made smaller.
TEST(OverTheLoopback, TheLeastCostIsTaken) {
  testing::KeptTransport wire("kept", 0, 4);
  const auto over = [](const char* transport) {
    Settings settings;
    settings.transport = transport;
    return settings;
  };
  const Selector tcp(over("tcp"), "", {}), shm(over("shm,tcp"), "", {});
  const Backends backends = {
      std::make_shared<PlannedBackend>(wire, Group{.id = 1, .members = std::vector<int>{0, 1, 2, 3}}, Settings())};
  const auto choose = [&](const Selector& selector, std::size_t bytes) {
    return selector.choose(allreduce_of(bytes), {.bytes = bytes, .size = 4, .hosts = 1}, backends);
  };
  EXPECT_TRUE(choose(tcp, 8).by_cost);
  EXPECT_FALSE(choose(shm, 8).by_cost);
  EXPECT_EQ(choose(shm, 8).algorithm, "recursive_doubling");
  const Shape shape{.size = 4, .count = 1 << 20};
  const model::Limits whole{.least = std::size_t{1} << 20};
  const auto ranked = model::rank_algorithms(Kind::allreduce, shape, 4, model::parse_network("loopback"), whole);
  EXPECT_EQ(choose(tcp, 4 << 20).algorithm, ranked.front().algorithm->name);
  EXPECT_EQ(choose(tcp, 4 << 20).piece, std::size_t{1} << 20);
}

}  // namespace
}  // namespace tutti
