// Numbers and texts of many ranks in little memory: the contents are unchanged, and regular patterns take almost none.
#include "tutti/provider/packed.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tutti {
namespace {

RunList list_of(const std::vector<std::uint32_t>& numbers) {
  RunList list;
  for (const std::uint32_t number : numbers) list.push_back(number);
  list.shrink_to_fit();
  return list;
}

void expect_holds(const RunList& list, const std::vector<std::uint32_t>& numbers) {
  ASSERT_EQ(list.size(), numbers.size());
  RunList::Reader reader(list);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(list[i], numbers[i]) << i;
    EXPECT_EQ(reader[i], numbers[i]) << i;
  }
  for (std::size_t i = numbers.size(); i-- > 0;) EXPECT_EQ(reader[i], numbers[i]) << i << ", backwards";
}

TEST(RunList, GivesBackWhatItWasGiven) {
  expect_holds(list_of({}), {});
  expect_holds(list_of({7}), {7});
  for (const auto& numbers : std::vector<std::vector<std::uint32_t>>{
           {0, 0, 0, 1, 1, 1, 2}, {5, 4, 3, 2}, {0, 0xffffffff, 0xfffffffe}, {0xffffffff, 1, 0xffffffff, 9, 9, 10}})
    expect_holds(list_of(numbers), numbers);
}

TEST(RunList, HoldsAnyNumbersInSixBytesEach) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> any, few;
  for (int i = 0; i < 5000; ++i) {
    any.push_back(static_cast<std::uint32_t>(random()));
    few.push_back(static_cast<std::uint32_t>(random() % 3));
  }
  for (const auto& numbers : {any, few}) {
    const RunList list = list_of(numbers);
    expect_holds(list, numbers);
    EXPECT_LE(list.memory(), 6 * numbers.size() + 12);
  }
}

TEST(RunList, TakesTwelveBytesForARun) {
  std::vector<std::uint32_t> hosts, ends;
  for (std::uint32_t rank = 0; rank < 8192; ++rank) {
    hosts.push_back(rank / 8);
    ends.push_back(14 * (rank + 1));
  }
  EXPECT_EQ(list_of(hosts).memory(), 12u * 1024);
  EXPECT_EQ(list_of(ends).memory(), 12u);
}

TEST(RunList, RefusesAPlaceThatIsNotThere) {
  EXPECT_THROW(static_cast<void>(list_of({1, 2}).at(2)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(list_of({}).at(0)), std::out_of_range);
}

TEST(PackedTexts, GivesBackWhatItWasGiven) {
  PackedTexts texts;
  const std::vector<std::string> given{"a", "", "bb", std::string(300, 'x'), "", std::string("nul\0inside", 10)};
  for (const std::string& text : given) texts.push_back(text);
  texts.shrink_to_fit();
  ASSERT_EQ(texts.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) EXPECT_EQ(texts[i], given[i]) << i;
  EXPECT_THROW(static_cast<void>(texts[given.size()]), std::out_of_range);
}

}  // namespace
}  // namespace tutti
