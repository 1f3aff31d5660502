// The agreement of ranks that die meanwhile, in a simulated network: random orders of delivery, and deaths between any
// two letters.
#include "collectives/runtime/consensus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace tutti {
namespace {

using Outcome = Consensus::Outcome;

/// Ranks with channels in which letters stay in order. A death reaches each of the other ranks at a time of its own.
class Network {
 public:
  Network(int size, std::uint64_t seed, std::vector<int> members = {}) : random_(seed), members_(std::move(members)) {
    if (members_.empty()) {
      members_.resize(static_cast<std::size_t>(size));
      std::iota(members_.begin(), members_.end(), 0);
    }
    for (const int rank : members_) {
      ranks_[rank] =
          std::make_unique<Consensus>(Consensus::Name{7, 1}, members_, rank, [this, rank](int to, ConstBytes letter) {
            ++letters_;
            if (dies_after_ && rank == dies_after_->first && dies_after_->second-- == 0) kill(rank);
            if (is_alive(rank)) channels_[{rank, to}].push_back({letter.begin(), letter.end()});
          });
    }
  }

  Consensus& at(int rank) { return *ranks_.at(rank); }
  bool is_alive(int rank) const { return !dead_.contains(rank); }
  const std::vector<int>& members() const { return members_; }
  const std::set<int>& dead() const { return dead_; }
  std::size_t letters() const { return letters_; }
  std::size_t chance(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  void kill(int rank) {
    if (!dead_.insert(rank).second) return;
    for (const int one : members_)
      if (one != rank) untold_.emplace_back(one, rank);
  }
  /// The rank dies while it sends its letter number `letters` from now, which is lost with all later ones.
  void kill_after(int rank, int letters) { dies_after_ = {rank, letters}; }

  /// Delivers one letter, or one word of a death; false if there is none.
  bool step() {
    std::vector<std::pair<int, int>> full;
    for (const auto& [way, letters] : channels_)
      if (!letters.empty()) full.push_back(way);
    if (full.empty() && untold_.empty()) return false;
    if (const std::size_t which = chance(full.size() + untold_.size()); which < full.size()) {
      const auto way = full[which];
      const std::vector<std::byte> letter = std::move(channels_[way].front());
      channels_[way].pop_front();
      if (is_alive(way.second)) at(way.second).receive(way.first, letter);
    } else {
      const auto [to, about] = untold_[which - full.size()];
      untold_.erase(untold_.begin() + static_cast<std::ptrdiff_t>(which - full.size()));
      channels_[{about, to}].clear();
      if (is_alive(to)) at(to).lose(about);
    }
    return true;
  }

  void check(const std::map<int, std::uint64_t>& bits) {
    std::optional<Outcome> agreed;
    for (const int rank : members_) {
      const auto& outcome = at(rank).outcome();
      if (is_alive(rank)) {
        ASSERT_TRUE(outcome) << "rank " << rank << " has not decided";
      }
      if (!outcome) continue;
      if (!agreed) agreed = outcome;
      ASSERT_EQ(outcome->value.bits, agreed->value.bits) << "rank " << rank;
      ASSERT_EQ(outcome->lost, agreed->lost) << "rank " << rank;
    }
    if (!agreed) return;
    std::uint64_t all = ~std::uint64_t{0}, present = ~std::uint64_t{0};
    for (const auto& [rank, mine] : bits) {
      all &= mine;
      if (is_alive(rank)) present &= mine;
    }
    EXPECT_EQ(agreed->value.bits & ~present, 0u) << "a bit that a rank that is left has not set";
    EXPECT_EQ(all & ~agreed->value.bits, 0u) << "a bit is missing that all ranks have set";
    for (const int one : agreed->lost) EXPECT_FALSE(is_alive(one)) << "rank " << one << " lives";
  }

 private:
  std::mt19937_64 random_;
  std::vector<int> members_;
  std::map<int, std::unique_ptr<Consensus>> ranks_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> channels_;
  std::vector<std::pair<int, int>> untold_;
  std::set<int> dead_;
  std::optional<std::pair<int, int>> dies_after_;
  std::size_t letters_ = 0;
};

std::uint64_t bits_of(int rank) { return ~(std::uint64_t{1} << (rank % 64)); }

TEST(Consensus, OneRankDecidesAlone) {
  Network net(1, 1);
  net.at(0).vote({5});
  EXPECT_EQ(net.at(0).outcome(), (Outcome{{5}, {}}));
}

TEST(Consensus, TakesFourLettersPerOtherRankIfNobodyDies) {
  for (const int size : {2, 3, 8, 33}) {
    Network net(size, 2);
    for (int rank = 0; rank < size; ++rank) net.at(rank).vote({bits_of(rank)});
    while (net.step()) {
    }
    EXPECT_EQ(net.letters(), 4u * static_cast<std::size_t>(size - 1));
    std::uint64_t all = ~std::uint64_t{0};
    for (int rank = 0; rank < size; ++rank) all &= bits_of(rank);
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(net.at(rank).outcome(), (Outcome{{all}, {}}));
  }
}

TEST(Consensus, NamesWhomTheLeaderWaitsFor) {
  Network net(4, 3);
  net.at(0).vote({1});
  net.at(2).vote({1});
  while (net.step()) {
  }
  EXPECT_EQ(net.at(0).awaited(), (std::vector{1, 3}));
  EXPECT_EQ(net.at(2).awaited(), (std::vector{0}));
}

// Each leader dies at each of its letters, one after the other.
TEST(Consensus, OutlivesALeaderThatDiesAtAnyLetter) {
  for (int size = 2; size <= 6; ++size)
    for (int letter = 0; letter < 3 * size; ++letter)
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Network net(size, seed);
        net.kill_after(0, letter);
        std::map<int, std::uint64_t> bits;
        for (int rank = 0; rank < size; ++rank) net.at(rank).vote({bits[rank] = bits_of(rank)});
        while (net.step()) {
        }
        net.check(bits);
      }
}

TEST(Consensus, AgreesWhereSeveralRanksDieAtAnyTime) {
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    std::mt19937_64 random(seed);
    const auto chance = [&](std::size_t below) { return static_cast<int>(random() % below); };
    const int size = 2 + chance(7);
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    for (int& one : members) one *= 3;
    if (chance(2) == 0) std::ranges::shuffle(members, random);
    Network net(size, seed, members);
    std::map<int, std::uint64_t> bits;
    std::vector<int> to_vote = members;
    int deaths = chance(static_cast<std::size_t>(size));
    for (int idle = 0; idle < 2;) {
      bool moved = false;
      if (deaths > 0 && chance(6) == 0) {
        const int victim = members[static_cast<std::size_t>(chance(members.size()))];
        if (net.dead().size() + 1 < members.size()) net.kill(victim);
        --deaths;
        moved = true;
      }
      if (!to_vote.empty() && chance(3) == 0) {
        const int rank = to_vote.back();
        to_vote.pop_back();
        if (net.is_alive(rank)) net.at(rank).vote({bits[rank] = bits_of(rank)});
        moved = true;
      }
      moved |= net.step();
      idle = moved || !to_vote.empty() ? 0 : idle + 1;
    }
    net.check(bits);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Consensus, TellsThatPurposesDiffer) {
  Network net(3, 4);
  for (int rank = 0; rank < 3; ++rank) net.at(rank).vote({7, rank == 1 ? 2U : 1U});
  while (net.step()) {
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(net.at(rank).outcome(), (Outcome{{7, 0}, {}}));
}

// A rank that others hold for lost does not decide, and does not take part either.
TEST(Consensus, ExcludesARankThatIsHeldForLost) {
  Network net(3, 5);
  for (int rank = 0; rank < 2; ++rank) net.at(rank).lose(2);
  for (int rank = 0; rank < 3; ++rank) net.at(rank).vote({1});
  while (net.step()) {
  }
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(net.at(rank).outcome(), (Outcome{{1}, {2}}));
  EXPECT_FALSE(net.at(2).outcome());
}

TEST(Consensus, SendsALongListOfLostRanksInParts) {
  constexpr int size = 1000;
  std::vector<int> members(size);
  std::iota(members.begin(), members.end(), 0);
  std::deque<std::vector<std::byte>> to_0, to_7;
  const auto keep = [](std::deque<std::vector<std::byte>>& letters) {
    return [&letters](int to, ConstBytes letter) {
      EXPECT_LE(letter.size(), Consensus::longest);
      if (to == 0 || to == 7) letters.push_back({letter.begin(), letter.end()});
    };
  };
  Consensus zero({7, 1}, members, 0, keep(to_7)), seven({7, 1}, members, 7, keep(to_0));
  for (int rank = 1; rank < size; ++rank)  // in an order that makes no long runs
    if (const int one = rank * 389 % size; one != 7) zero.lose(one);
  for (int rank = 1; rank < size; ++rank)
    if (rank != 7 && rank * rank % 11 < 5) seven.lose(rank);
  seven.vote({3});
  zero.vote({1});
  std::size_t letters = 0;
  for (; !to_0.empty() || !to_7.empty(); ++letters) {
    auto& from = to_0.empty() ? to_7 : to_0;
    (&from == &to_0 ? zero : seven).receive(&from == &to_0 ? 7 : 0, std::exchange(from.front(), {}));
    from.pop_front();
  }
  EXPECT_GT(letters, 4u);
  ASSERT_TRUE(zero.outcome() && seven.outcome());
  EXPECT_EQ(zero.outcome()->value.bits, 1u);
  EXPECT_EQ(zero.outcome()->lost.size(), static_cast<std::size_t>(size - 2));
  EXPECT_EQ(*zero.outcome(), *seven.outcome());
}

TEST(Consensus, IgnoresWhatIsNoLetter) {
  Network net(2, 6);
  std::mt19937_64 random(1);
  net.at(0).vote({1});
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> letter(random() % 200);
    for (std::byte& one : letter) one = static_cast<std::byte>(random());
    // In half of them the head is right.
    const std::uint32_t head[] = {0x31435554, 1, 7, 0};
    if (letter.size() >= sizeof head && i % 2 == 0) std::memcpy(letter.data(), head, sizeof head);
    net.at(0).receive(i % 3, letter);
  }
  SUCCEED();
}

}  // namespace
}  // namespace tutti
