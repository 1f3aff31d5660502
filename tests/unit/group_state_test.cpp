// A communicator's record of the other ranks' answers to the watchdog.
#include <gtest/gtest.h>

#include <chrono>

#include "collectives/runtime/operation.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(GroupState, RemembersWhichCallsAnotherRankHasMade) {
  GroupState group(Group{7, 0, {4, 2, 9}, {}});
  const Clock::time_point before = Clock::now();
  EXPECT_EQ(group.answer_of(2, before), nullptr);
  group.note_answer(9, 4, {3, Signature{33}});
  EXPECT_EQ(group.answer_of(2, before), nullptr) << "another rank has answered";
  const GroupState::Answer* const answer = group.answer_of(9, before);
  ASSERT_NE(answer, nullptr);
  EXPECT_TRUE(answer->has_made(4));
  EXPECT_FALSE(answer->has_made(5));
  EXPECT_EQ(answer->completed.sequence, 3u);
  group.note_answer(9, 6, {5, Signature{55}});
  EXPECT_TRUE(answer->has_made(6));
  EXPECT_FALSE(answer->has_made(7));
  EXPECT_EQ(answer->completed.call.bits, 55u);
  EXPECT_EQ(group.answer_of(9, Clock::now() + 1h), nullptr) << "it has not answered since";
  group.note_answer(1, 5, {});  // rank 1 is not a member
  EXPECT_EQ(group.answer_of(1, before), nullptr);
}

TEST(GroupState, CountsCallsBeyondTheLargestNumber) {
  GroupState group(Group{7, 0, {0, 1}, {}});
  const Clock::time_point before = Clock::now();
  group.note_answer(1, 0xffffffff, {});
  EXPECT_TRUE(group.answer_of(1, before)->has_made(0xffffffff));
  EXPECT_FALSE(group.answer_of(1, before)->has_made(1)) << "the call after the one with the largest number";
  group.note_answer(1, 0, {});
  EXPECT_FALSE(group.answer_of(1, before)->has_made(0x80000002)) << "none is no number";
  group.note_answer(1, 1, {});
  EXPECT_TRUE(group.answer_of(1, before)->has_made(0xffffffff));
}

TEST(GroupState, KeepsWhatOthersSaidUntilTheySayOtherwise) {
  GroupState group(Group{7, 0, {0, 1, 2}, {}});
  const Clock::time_point before = Clock::now();
  group.note_hearsay({1, 2, Clock::now(), 3, false, {3, Signature{33}}});
  const GroupState::Answer* const answer = group.answer_of(2, before);
  ASSERT_NE(answer, nullptr);
  EXPECT_FALSE(answer->has_made(4)) << "it had made three calls, whichever later call the word was about";
  group.note_hearsay({1, -1, Clock::now(), 0, false, {}});
  EXPECT_EQ(group.answer_of(2, before), nullptr) << "rank 1 waits for it no longer";
  group.note_answer(2, 3, {3, Signature{33}});
  ASSERT_NE(group.answer_of(2, before), nullptr);
  EXPECT_FALSE(group.answer_of(2, before)->has_made(4)) << "an answer does not depend on the call asked about";
  EXPECT_EQ(group.end_of_chain(4, before, Clock::now()).rank, 2);
}

}  // namespace
}  // namespace tutti
