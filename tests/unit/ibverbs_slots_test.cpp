// The credit between two ranks over RDMA: every message finds a slot, and no rank waits for ever.
#include "transports/ibverbs/slots.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace tutti::ibverbs {
namespace {

/// One of two ranks. The device between them loses no message, but delivers at any time.
struct End {
  struct Message {
    bool data;
    std::uint32_t credit;
  };
  SlotCredit credit;
  std::deque<Message> under_way;  // messages to this end that its program has not read
  int in_slots_now = 0;           // number of these, plus those read but not consumed
  int unread = 0;                 // data messages in slots
  int read = 0;                   // slots to be offered to the sender again

  void send(End& to, bool data, std::uint32_t carried) {
    to.under_way.push_back({data, carried});
    ASSERT_LE(++to.in_slots_now, in_slots) << "a message that finds no slot";
  }
  void look(End&) {
    if (under_way.empty()) return;
    const Message message = under_way.front();
    under_way.pop_front();
    ASSERT_TRUE(credit.give(message.credit));
    if (!message.data) {
      --in_slots_now;
      return;
    }
    ASSERT_TRUE(credit.arrived());
    ++unread;
  }
  void consume(End& to) {
    if (unread == 0) return;
    --unread;
    if (++read < offered_at_once) return;
    in_slots_now -= offered_at_once;
    credit.read(offered_at_once);
    read = 0;
    if (credit.owes()) send(to, false, credit.take_owed());
  }
};

TEST(SlotCredit, AlwaysFindsASlotWhateverTheOrder) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    End a, b;
    std::mt19937 random(seed);
    for (int step = 0; step < 20'000; ++step) {
      End& one = random() % 2 ? a : b;
      End& other = &one == &a ? b : a;
      switch (random() % (1 + seed % 5 + 3)) {
        case 0: one.look(other); break;
        case 1: one.consume(other); break;
        default:
          if (one.credit.may_send()) one.send(other, true, one.credit.take());
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SlotCredit, ComesBackToASenderThatHearsNothingElse) {
  End a, b;
  for (int message = 0; message < 1000; ++message) {
    ASSERT_TRUE(a.credit.may_send()) << message;
    a.send(b, true, a.credit.take());
    b.look(a);
    b.consume(a);
    while (!a.under_way.empty()) a.look(b);
  }
}

TEST(SlotCredit, RefusesWhatNobodyHasGiven) {
  SlotCredit credit;
  EXPECT_FALSE(credit.give(1));
  credit.take();
  EXPECT_FALSE(credit.give(2));
  EXPECT_TRUE(credit.give(1));
  for (int i = 0; i < data_slots; ++i) EXPECT_TRUE(credit.arrived());
  EXPECT_FALSE(credit.arrived());
}

TEST(SlotCredit, KeepsWithinItsMemory) { EXPECT_LE(pair_bytes, std::size_t{256} << 10); }

}  // namespace
}  // namespace tutti::ibverbs
