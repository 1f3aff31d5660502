// The choice of one address for each rank, on invented hosts.
#include "transports/addresses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/caught.hpp"
#include "tutti/status.hpp"

namespace tutti::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Placed host(const std::string& name, std::initializer_list<std::pair<const char*, int>> addresses) {
  Placed place{name, {}};
  int number = 0;
  for (const auto& [address, prefix] : addresses)
    place.interfaces.push_back({"if" + std::to_string(number++), Address::parse(address).value(), prefix});
  return place;
}

std::vector<std::string> chosen(const std::vector<Placed>& ranks) {
  std::vector<std::string> texts;
  for (const Address& address : addresses_in_common(ranks)) texts.push_back(address.text());
  return texts;
}

TEST(AddressesInCommon, LoopbackOnOneHost) {
  const Placed here = host("a", {{"127.0.0.1", 8}, {"10.0.0.1", 24}});
  EXPECT_THAT(chosen({here, here}), ElementsAre("127.0.0.1", "127.0.0.1"));
  const Placed six = host("a", {{"::1", 128}, {"10.0.0.1", 24}});
  EXPECT_THAT(chosen({six, six}), ElementsAre("::1", "::1"));
  const Placed restricted = host("a", {{"10.0.0.1", 24}});  // as TUTTI_IFACE can restrict it
  EXPECT_THAT(chosen({here, restricted}), ElementsAre("10.0.0.1", "10.0.0.1"));
}

TEST(AddressesInCommon, TheNetworkThatAllShare) {
  const Placed a = host("a", {{"127.0.0.1", 8}, {"192.168.1.5", 24}, {"10.0.0.1", 24}});
  const Placed b = host("b", {{"127.0.0.1", 8}, {"10.0.0.2", 24}, {"192.168.2.5", 24}});
  EXPECT_THAT(chosen({a, b, a}), ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.1"));
  EXPECT_THAT(chosen({b, a}), ElementsAre("10.0.0.2", "10.0.0.1"));
}

TEST(AddressesInCommon, NotThatOfTwinBridges) {
  const Placed a = host("a", {{"172.17.0.1", 16}, {"10.0.0.1", 24}});
  const Placed b = host("b", {{"172.17.0.1", 16}, {"10.0.0.2", 24}});
  EXPECT_THAT(chosen({a, b}), ElementsAre("10.0.0.1", "10.0.0.2"));
}

TEST(AddressesInCommon, ElseAFamilyThatAllHave) {
  const Placed a = host("a", {{"10.1.0.1", 24}, {"fd00::1", 64}});
  EXPECT_THAT(chosen({a, host("b", {{"10.2.0.1", 24}})}), ElementsAre("10.1.0.1", "10.2.0.1"));
  EXPECT_THAT(chosen({a, host("b", {{"fe80::1", 64}, {"fd01::1", 64}})}), ElementsAre("fd00::1", "fd01::1"));
}

TEST(AddressesInCommon, OrTheRankWithoutIsNamed) {
  const Placed four = host("a", {{"10.0.0.1", 24}}), six = host("b", {{"fd00::1", 64}});
  const Error error = caught([&] { (void)addresses_in_common({four, four, six}); });
  EXPECT_EQ(error.code(), Code::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("rank 2 of the communicator has none of IPv4 and rank 0 none"));
  EXPECT_THAT(error.what(), HasSubstr("TUTTI_IFACE"));
  const Placed twin = host("c", {{"10.0.0.1", 24}});
  EXPECT_THAT(caught([&] { (void)addresses_in_common({four, twin}); }).what(), HasSubstr("same addresses"));
}

}  // namespace
}  // namespace tutti::testing
