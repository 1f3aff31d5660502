// The table of the TCP store's server: requests that its own client never sends, but other clients may.
#include "collectives/bootstrap/store_table.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace {

using namespace store_wire;

TEST(StoreTable, AWaitThatItsOwnKeyEndsIsAnsweredOnce) {
  std::vector<std::string> told;
  StoreTable table(
      "the store", [&](StoreTable::Client, const Answer& answer) { told.push_back(answer.value); },
      [](StoreTable::Client) { return std::string_view(); });
  EXPECT_FALSE(table.answer(1, {Op::wait, "key", "key"}));
  EXPECT_TRUE(table.waits(1));
  EXPECT_TRUE(table.answer(2, {Op::set, "key", "value"}));
  EXPECT_FALSE(table.waits(1));
  EXPECT_EQ(told, std::vector<std::string>{"value"});
  table.leave(1);
}

}  // namespace
}  // namespace tutti
