// The choice of RDMA ports by which two ranks communicate, and what they publish about them.
#include "transports/ibverbs/endpoint.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tutti/status.hpp"

namespace tutti::ibverbs {
namespace {

Endpoint roce(const std::string& device, const std::string& address, int prefix, Fabric fabric = Fabric::roce2) {
  Endpoint one;
  one.device = device;
  one.fabric = fabric;
  one.address = *Address::parse(address);
  one.prefix = prefix;
  one.gid_index = 3;
  one.mtu = 4096;
  one.gigabits = 25;
  return one;
}

Endpoint infiniband(const std::string& gid, int lid) {
  Endpoint one = roce("mlx5_0", gid, 0, Fabric::infiniband);
  one.lid = lid;
  return one;
}

using List = std::vector<Endpoint>;

std::optional<Route> choose_route(const std::vector<Endpoint>& first, const std::vector<Endpoint>& second) {
  const auto routes = choose_routes(first, second, 1);
  return routes.empty() ? std::nullopt : std::optional(routes.front());
}

TEST(IbverbsEndpoint, FurtherRoutesTakePortsThatAreFreeAndAsGood) {
  const std::vector<Endpoint> a = {roce("r0", "10.1.0.1", 24), roce("r0", "fe80::1", 64), roce("r1", "10.1.0.2", 24),
                                   roce("r2", "10.9.0.1", 24)};
  const std::vector<Endpoint> b = {roce("m0", "10.1.0.3", 24), roce("m1", "10.1.0.4", 24), roce("m2", "10.7.0.4", 24)};
  const auto routes = choose_routes(a, b, 4);
  ASSERT_EQ(routes.size(), 2u) << "the third would have to be routed";
  EXPECT_EQ(routes[0].first, 0u);
  EXPECT_EQ(routes[0].second, 0u);
  EXPECT_EQ(routes[1].first, 2u);
  EXPECT_EQ(routes[1].second, 1u);
  EXPECT_EQ(choose_routes(a, b, 1).size(), 1u);
}

TEST(Endpoints, PreferTheSubnetThatBothAreIn) {
  const List a = {roce("r0", "10.1.0.1", 24), roce("r1", "10.2.0.1", 24)};
  const List b = {roce("r0", "10.3.0.2", 24), roce("r1", "10.2.0.2", 24)};
  const auto route = choose_route(a, b);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->first, 1u);
  EXPECT_EQ(route->second, 1u);
}

TEST(Endpoints, AreTheSameFromBothSides) {
  const List a = {roce("r0", "10.1.0.1", 24), roce("r1", "fd00::1", 64), roce("r1", "fe80::1", 64)};
  const List b = {roce("r0", "fe80::2", 64), roce("r0", "fd00::2", 64), roce("r1", "10.9.0.2", 24)};
  const auto there = choose_route(a, b), back = choose_route(b, a);
  ASSERT_TRUE(there && back);
  EXPECT_EQ(there->first, back->second);
  EXPECT_EQ(there->second, back->first);
  EXPECT_EQ(there->first, 1u);
}

TEST(Endpoints, AreRoutedWhereNoSubnetIsShared) {
  const auto route = choose_route({roce("r0", "10.1.0.1", 24)}, {roce("r0", "10.2.0.1", 24)});
  EXPECT_TRUE(route);
  EXPECT_FALSE(choose_route({roce("r0", "10.1.0.1", 24, Fabric::roce1)}, {roce("r0", "10.2.0.1", 24, Fabric::roce1)}));
}

TEST(Endpoints, ThatAreLinkLocalCanBeLeftOut) {
  const List left =
      without_link_local({roce("r0", "fe80::1", 64), roce("r0", "10.1.0.1", 24), infiniband("fe80::1", 7)});
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].address.text(), "10.1.0.1");
  EXPECT_EQ(left[1].fabric, Fabric::infiniband);
}

TEST(Endpoints, OfDifferentFabricsDoNotMeet) {
  EXPECT_FALSE(choose_route({roce("r0", "10.1.0.1", 24)}, {roce("r0", "10.1.0.2", 24, Fabric::roce1)}));
  EXPECT_FALSE(choose_route({roce("r0", "10.1.0.1", 24)}, {roce("r0", "fe80::2", 64)}));
  EXPECT_FALSE(choose_route({infiniband("fe80::1", 1)}, {roce("r0", "fe80::2", 64)}));
  EXPECT_FALSE(choose_route({}, {roce("r0", "fe80::2", 64)}));
}

TEST(Endpoints, OfInfiniBandMeetWithinOneSubnetOnly) {
  EXPECT_TRUE(choose_route({infiniband("fe80::1", 1)}, {infiniband("fe80::2", 2)}));
  EXPECT_FALSE(choose_route({infiniband("fe80::1", 1)}, {infiniband("fec0:0:0:1::2", 2)}));
}

TEST(Endpoints, ComeThroughTheCard) {
  const Card card{7, "host7", {roce("rxe0", "10.1.0.1", 24), infiniband("fe80::12:ff:fe34:1", 17)}};
  const Card read = Card::parse(card.text());
  EXPECT_EQ(read.rank, 7);
  EXPECT_EQ(read.host, "host7");
  ASSERT_EQ(read.endpoints.size(), 2u);
  EXPECT_EQ(read.endpoints[0].text(), "rxe0 port 1, RoCE v2 at 10.1.0.1");
  EXPECT_EQ(read.endpoints[1].text(), "mlx5_0 port 1, InfiniBand at LID 17");
  EXPECT_EQ(read.endpoints[1].address, card.endpoints[1].address);
  EXPECT_EQ(read.endpoints[0].prefix, 24);
  EXPECT_EQ(read.endpoints[0].gid_index, 3);
  EXPECT_EQ(read.endpoints[0].mtu, 4096);
  for (const char* wrong :
       {"", "ibverbs 2\n1 host\n", "ibverbs 1\n", "ibverbs 1\n1 host\nrxe0 1 9 0 1 10.0.0.1 24 1024 1\n",
        "ibverbs 1\n1 host\nrxe0 1 2 0 1 ten 24 1024 1\n", "ibverbs 1\n1 host\nrxe0\n",
        "ibverbs 1\n1 host\nrxe0 1 2 0 1 10.0.0.1 999 1024 1\n", "ibverbs 1\n1 host\nrxe0 1 2 0 1 10.0.0.1 -9 1024 1\n",
        "ibverbs 1\n1 host\nrxe0 256 2 0 1 10.0.0.1 24 1024 1\n"}) {
    EXPECT_THROW(Card::parse(wrong), Error) << wrong;
  }
}

TEST(Endpoints, TranslateAddresses) {
  for (const char* text : {"10.77.0.1", "fe80::1", "2001:db8::17"}) {
    const Address address = *Address::parse(text);
    std::uint8_t gid[16];
    gid_of(address, gid);
    EXPECT_EQ(address_of(gid), address) << text;
  }
}

// The RDMA device waits 4.096 us times 2^exponent for an acknowledgement, and retries `ack_retries` times.
TEST(AckTime, EndsWithinTheSilenceThatIsAllowed) {
  for (const double silence : {0.02, 0.5, 2.0, 15.0, 60.0}) {
    const double spent = 4.096e-6 * (1 << ack_exponent(Seconds(silence))) * (ack_retries + 1);
    EXPECT_LE(spent, silence) << silence;
    EXPECT_GT(spent, silence / 2 - 1e-9) << silence;
  }
  EXPECT_EQ(ack_exponent(Seconds(0)), 8);
  EXPECT_EQ(ack_exponent(Seconds(1e9)), 21);
}

}  // namespace
}  // namespace tutti::ibverbs
