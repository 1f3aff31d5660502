// Large messages by RDMA between two ends in one process: where a peer may write, and what the RDMA device refuses.
#include "transports/ibverbs/bulk.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "transports/ibverbs/devices.hpp"
#include "tutti/memory.hpp"

namespace tutti::ibverbs {
namespace {

using Block = std::vector<std::byte>;

class BulkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Survey found = survey(Settings());
    const bool guest = std::getenv("RDMA_GUEST") != nullptr;  // then devices must be there
    if (found.endpoints.empty() && guest) FAIL() << found.problem;
    if (found.endpoints.empty()) GTEST_SKIP() << found.problem;
    const Endpoint& one = found.endpoints.front();
    adapter_ = std::make_unique<Adapter>(one.device, 2);
    a_ = std::make_unique<Bulk>(*adapter_, 0, one, one);
    b_ = std::make_unique<Bulk>(*adapter_, 1, one, one);
    Hello a, b;
    a_->introduce(a);
    b_->introduce(b);
    a_->connect(b, Seconds(1));
    b_->connect(a, Seconds(1));
    ASSERT_TRUE(a_->open() && b_->open());
  }

  /// Polls until `count` puts have ended, or a queue pair has failed.
  void settle(std::size_t count) {
    std::array<ibv_wc, 8> done;
    for (const Deadline late = deadline_in(Seconds(20)); ended_.size() < count && Clock::now() < late;)
      for (const ibv_wc& one : adapter_->poll(done)) {
        const Ticket ticket = Ticket::of(one.wr_id);
        Bulk& at = ticket.peer == 0 ? *a_ : *b_;
        status_ = one.status;
        if (one.status != IBV_WC_SUCCESS)
          at.close(ended_);
        else if (ticket.what == Ticket::What::put)
          at.done(ticket.slot, ended_);
        else
          at.filled(ntohl(one.imm_data), ended_);
      }
  }
  int count(Placing::Ended::What what) const {
    return static_cast<int>(std::ranges::count(ended_, what, &Placing::Ended::what));
  }

  using What = Placing::Ended::What;
  const std::size_t bytes_ = 300'000;
  Block from_ = Block(bytes_, std::byte{7}), into_ = Block(bytes_, std::byte{1});
  const Block untouched_ = into_;
  std::unique_ptr<Adapter> adapter_;
  std::unique_ptr<Bulk> a_, b_;
  std::vector<Placing::Ended> ended_;
  ibv_wc_status status_ = IBV_WC_SUCCESS;
};

TEST_F(BulkTest, PutsIntoWhatIsOffered) {
  for (std::uint64_t i = 1; i <= 3 * most_bulk; ++i) {
    RemotePlace place;
    ended_.clear();
    into_ = untouched_;
    ASSERT_TRUE(b_->offer(i, into_, place));
    ASSERT_TRUE(a_->put(i + 100, from_, place));
    settle(2);
    ASSERT_EQ(count(What::put), 1);
    ASSERT_EQ(count(What::filled), 1);
    ASSERT_EQ(into_, from_);
  }
}

TEST_F(BulkTest, IsRefusedWhereTheOfferWasTakenBack) {
  RemotePlace place;
  ASSERT_TRUE(b_->offer(1, into_, place));
  EXPECT_TRUE(b_->revoke_offer(1));
  ASSERT_TRUE(a_->put(2, from_, place));
  settle(1);
  EXPECT_EQ(count(What::failed_put), 1);
  EXPECT_EQ(count(What::filled), 0);
  EXPECT_FALSE(a_->open());
  EXPECT_EQ(into_, untouched_);
}

TEST_F(BulkTest, ThatAnOfferIsFilledSaysNothingOfTheNext) {
  RemotePlace first, second;
  ASSERT_TRUE(b_->offer(1, into_, first));
  b_->revoke_offer(1);
  ASSERT_TRUE(b_->offer(2, into_, second));
  const auto number = [](const RemotePlace& place) {
    std::uint32_t told = 0;
    std::memcpy(&told, place.told.data() + 20, sizeof told);
    return told;
  };
  b_->filled(number(first), ended_);
  EXPECT_TRUE(ended_.empty());
  b_->filled(number(second), ended_);
  ASSERT_EQ(count(What::filled), 1);
  EXPECT_EQ(ended_.front().number, 2u);
}

TEST_F(BulkTest, IsRefusedOutsideOfWhatIsOffered) {
  for (const bool wrong_key : {false, true}) {
    Block around(3 * bytes_, std::byte{1});
    const Block before = around;
    RemotePlace place;
    ASSERT_TRUE(b_->offer(1, Bytes(around).subspan(bytes_, bytes_), place));
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::memcpy(&address, place.told.data(), sizeof address);
    std::memcpy(&key, place.told.data() + 16, sizeof key);
    address += wrong_key ? 0 : 1;
    key += wrong_key ? 1 : 0;
    std::memcpy(place.told.data(), &address, sizeof address);
    std::memcpy(place.told.data() + 16, &key, sizeof key);
    ASSERT_TRUE(a_->put(2, from_, place));
    settle(1);
    EXPECT_EQ(count(What::failed_put), 1);
    EXPECT_EQ(around, before);
    TearDown();
    b_->revoke_offer(1);
    b_.reset();
    a_.reset();
    ended_.clear();
    SetUp();
  }
}

TEST_F(BulkTest, EndsWithAPutThatIsTakenBack) {
  RemotePlace first, second;
  ASSERT_TRUE(b_->offer(1, into_, first));
  Block other = untouched_;
  ASSERT_TRUE(b_->offer(2, other, second));
  ASSERT_TRUE(a_->put(11, from_, first));
  ASSERT_TRUE(a_->put(12, from_, second));
  EXPECT_TRUE(a_->putting(11));
  a_->close(ended_);
  EXPECT_EQ(count(What::failed_put), 2);
  EXPECT_FALSE(a_->putting(11) || a_->putting(12));
  EXPECT_FALSE(a_->put(13, from_, second));
}

TEST_F(BulkTest, GivesBackAllThatItHasWhenItStops) {
  RemotePlace first, second;
  Block other = untouched_;
  ASSERT_TRUE(b_->offer(1, into_, first));
  ASSERT_TRUE(b_->offer(2, other, second));
  ASSERT_TRUE(a_->put(11, from_, first));
  std::array<ibv_wc, 8> done;
  std::vector<ibv_wc> seen;
  const auto until = [&](auto enough) {
    for (const Deadline late = deadline_in(Seconds(20)); !enough() && Clock::now() < late;)
      for (const ibv_wc& one : adapter_->poll(done)) {
        seen.push_back(one);
        const Ticket ticket = Ticket::of(one.wr_id);
        Bulk& at = ticket.peer == 0 ? *a_ : *b_;
        if (one.status != IBV_WC_SUCCESS)
          at.undone(ticket, ended_);
        else if (ticket.what == Ticket::What::put)
          at.done(ticket.slot, ended_);
      }
  };
  until([&] { return count(What::put) == 1; });
  ASSERT_EQ(count(What::put), 1);  // the peer has the data, even if its end fails now
  b_->stop();
  until([&] { return seen.size() == 3; });
  ASSERT_EQ(seen.size(), 3u);
  for (const ibv_wc& one : seen)
    if (one.status == IBV_WC_SUCCESS && Ticket::of(one.wr_id).peer == 1) b_->filled(ntohl(one.imm_data), ended_);
  EXPECT_EQ(count(What::filled), 1);
  EXPECT_TRUE(b_->idle());
  EXPECT_EQ(into_, from_);
  EXPECT_FALSE(b_->offer(3, into_, first)) << "nothing new begins";
}

TEST_F(BulkTest, KeepsAllocatedMemoryRegisteredUntilItIsGone) {
  const std::size_t size = 1 << 20;
  std::shared_ptr<void> from = adapter_->memories().keep(allocate_shared(size), size);
  std::shared_ptr<void> into = adapter_->memories().keep(allocate_shared(size), size);
  const Bytes source(static_cast<std::byte*>(from.get()), size), target(static_cast<std::byte*>(into.get()), size);
  const ibv_mr* const region = adapter_->memories().find(target);
  ASSERT_NE(region, nullptr);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    std::memset(source.data(), static_cast<int>(i), size);
    const std::size_t offset = i * 4096;
    RemotePlace place;
    ended_.clear();
    ASSERT_TRUE(b_->offer(i, target.subspan(offset, bytes_), place));
    std::uint32_t key = 0;
    std::memcpy(&key, place.told.data() + 16, sizeof key);
    EXPECT_EQ(key, region->rkey) << "no other registration";
    ASSERT_TRUE(a_->put(i, source.subspan(offset, bytes_), place));
    settle(2);
    ASSERT_EQ(count(What::filled), 1);
    EXPECT_EQ(std::memcmp(target.data() + offset, source.data() + offset, bytes_), 0);
  }
  RemotePlace place;
  ASSERT_TRUE(b_->offer(9, target, place));
  EXPECT_FALSE(b_->revoke_offer(9)) << "only the end of the queue pair keeps the peer from it";
  EXPECT_EQ(adapter_->memories().find({source.data() + 1, size}), nullptr) << "not all of it";
  from.reset();
  EXPECT_EQ(adapter_->memories().find(source), nullptr);
  EXPECT_EQ(adapter_->memories().find(target), region);
  b_.reset();
  a_.reset();
  adapter_.reset();
  into.reset();  // memory may be freed after the device
}

TEST_F(BulkTest, StaysClosedWhereItsPortWasLostBeforeItOpened) {
  const Endpoint one = survey(Settings()).endpoints.front();
  Bulk early(*adapter_, 2, one, one);
  Hello its, mine;
  a_->introduce(its);
  EXPECT_FALSE(early.closed());
  early.stop();
  EXPECT_TRUE(early.idle());
  early.close(ended_);
  EXPECT_TRUE(early.closed());
  early.connect(its, Seconds(1));
  EXPECT_FALSE(early.open());
  early.introduce(mine);
  EXPECT_EQ(mine.bulk_queue_pair[0], 0u);
}

TEST_F(BulkTest, OffersWithinItsLimits) {
  RemotePlace place;
  EXPECT_FALSE(b_->offer(1, Bytes(into_).first(least_put - 1), place));
  std::vector<Block> blocks(most_bulk, Block(least_put));
  for (std::size_t i = 0; i < most_bulk; ++i) EXPECT_TRUE(b_->offer(i + 1, blocks[i], place));
  EXPECT_FALSE(b_->offer(99, into_, place));
  b_->revoke_offer(3);
  EXPECT_TRUE(b_->offer(99, into_, place));
  EXPECT_FALSE(a_->put(1, Bytes(from_).first(least_put), place)) << "another size than was offered";
}

}  // namespace
}  // namespace tutti::ibverbs
