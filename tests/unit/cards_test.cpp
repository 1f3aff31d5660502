// Cards (what ranks publish before they connect): all ranks draw the same conclusions from them.
#include "collectives/api/cards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> order = {"shm", "ibverbs", "tcp"};

Cards cards_of(const std::vector<std::string>& shared) {
  Texts texts;
  for (const std::string& one : shared) texts.add("0 0-3", one);
  return Cards(std::move(texts));
}

TEST(Cards, AllExchangeByAProviderOnlyIfNoneHasAnEarlierOne) {
  const std::string plain = "\nshm=b\ntcp=\n", rdma = "\nshm=a\nibverbs=\ntcp=\n",
                    without = "\nshm=b\nibverbs!there is no device\ntcp=\n";
  EXPECT_TRUE(cards_of({"a\nnode a\n" + plain, "b\nnode b\n" + plain}).all_connect_by("tcp", order));
  EXPECT_TRUE(cards_of({"a\nnode a\n" + plain, "b\nnode b\n" + without}).all_connect_by("tcp", order));
  EXPECT_TRUE(cards_of({"a\nnode a\n" + rdma, "b\nnode b\n" + rdma}).all_connect_by("ibverbs", order));
  // If one host has no device, the hosts with a device may connect by it, so not all pairs exchange by tcp.
  for (const std::string& other : {plain, without}) {
    const Cards mixed = cards_of({"a\nnode a\n" + rdma, "b\nnode b\n" + other, "c\nnode c\n" + rdma});
    EXPECT_FALSE(mixed.all_connect_by("ibverbs", order));
    EXPECT_FALSE(mixed.all_connect_by("tcp", order));
  }
  EXPECT_FALSE(cards_of({"a\nnode a\n" + plain, "a\nnode a\n" + plain}).all_connect_by("tcp", order));  // one host
}

TEST(Cards, TellOfARackWhereThereIsOne) {
  Settings settings;
  settings.host_id = "a";
  const std::string without = write_card({}, settings).shared;
  settings.rack = "pod1/rack7";
  const std::string with = write_card({}, settings).shared;
  EXPECT_EQ(with, without + "/pod1/rack7\n");
  const Cards cards = cards_of({with, "b\nnode b\n\n/pod1/rack8\nshm=2\n", "c\nnode c\n\n/pod1/rack7\n"});
  EXPECT_EQ(cards.topology()[0].rack, "pod1/rack7");
  ASSERT_NE(cards.topology().hosts().above(), nullptr);
  EXPECT_EQ(cards.topology().hosts().above()->host_of(1), 1);
  EXPECT_EQ(cards.topology().hosts().above()->host_of(2), 0);
  EXPECT_EQ(cards[1].domains.at("shm"), "2");
}

TEST(Cards, TellWhoMayTryAndWhere) {
  const Cards cards =
      cards_of({"a\nnode a\n\nshm=1\ntcp=\n", "a\nnode a\n\nshm=1\ntcp!no sockets\n", "b\nnode b\n\nshm=2\ntcp=\n"});
  EXPECT_THAT(cards.may_try(0, "shm"), ElementsAre(true, true, false));
  EXPECT_THAT(cards.may_try(0, "tcp"), ElementsAre(true, false, true));
  EXPECT_THAT(cards.may_try(1, "tcp"), ElementsAre(false, false, false));
  EXPECT_EQ(cards[1].reasons.at("tcp"), "no sockets");
  EXPECT_EQ(cards.topology().hosts().count(), 2);
  EXPECT_EQ(cards.topology()[2].host_name, "node b");
  EXPECT_EQ(cards.cores(2), "0-3");
}

}  // namespace
}  // namespace tutti
