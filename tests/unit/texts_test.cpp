// Texts: the texts are unchanged, and what ranks have in common is stored once.
#include "tutti/provider/texts.hpp"

#include <gtest/gtest.h>

#include "tutti/status.hpp"

namespace tutti {
namespace {

TEST(Texts, BytesAndBack) {
  Texts first, second;
  first.add("0 0-3", "host a");
  first.add("1 4-7", "host a");
  second.add("", "host b");
  second.add(std::string(300, 'x'), "host a");
  first.append(second);
  const Texts got = Texts::parse(first.bytes());
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got.own(0), "0 0-3");
  EXPECT_EQ(got.own(1), "1 4-7");
  EXPECT_EQ(got.own(2), "");
  EXPECT_EQ(got.own(3), std::string(300, 'x'));
  EXPECT_EQ(got.shared(1), "host a");
  EXPECT_EQ(got.shared(2), "host b");
  EXPECT_EQ(got.shared(3), "host a");
  EXPECT_EQ(got.shared_texts().size(), 2u);
  EXPECT_EQ(Texts::parse(got.bytes()).bytes(), first.bytes());
}

TEST(Texts, MayBeContinuedAfterTheyWereRead) {
  Texts texts;
  texts.add("a", "s");
  Texts got = Texts::parse(texts.bytes());
  got.add("b", "s");
  EXPECT_EQ(got.shared_texts().size(), 1u);
  EXPECT_EQ(got.own(1), "b");
}

TEST(Texts, RefusesOtherBytes) {
  Texts texts;
  texts.add("own", "shared");
  const std::string good = texts.bytes();
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(static_cast<void>(Texts::parse(good.substr(0, length))), Error) << length;
  EXPECT_THROW(static_cast<void>(Texts::parse(good + "x")), Error);
  EXPECT_THROW(static_cast<void>(Texts::parse("\x01\x01s\x01\x01\x01o")), Error);  // refers to a missing shared text
  EXPECT_THROW(static_cast<void>(Texts::parse(std::string(12, '\xff'))), Error);   // a number that does not end
  EXPECT_THROW(static_cast<void>(Texts::parse("\xff\xff\xff\xff\x0f")), Error);    // a count of four billion texts
}

// A job with eight ranks per host and the texts of tcp: 22 bytes for each rank, and a text that the ranks of a host
// share.
TEST(Texts, MemoryGrowsAsTheRanks) {
  for (const int ranks : {64, 1024, 8192, 65536}) {
    Texts texts;
    for (int rank = 0; rank < ranks; ++rank)
      texts.add("0123456789abcdef 40001", "tcp 2\nnode" + std::to_string(rank / 8) +
                                              "\nboot-id-of-36-letters-and-the-netns" + std::to_string(rank / 8) +
                                              "\n=\n10.1.2.3 0 eth0\n");
    texts.settle();
    EXPECT_LE(texts.memory(), sizeof(Texts) + 40 * static_cast<std::size_t>(ranks)) << ranks;
  }
}

}  // namespace
}  // namespace tutti
