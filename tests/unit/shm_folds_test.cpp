// Reductions of all ranks' data by shm to one or several targets: bitwise the same for all addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "transports/shm/call.hpp"

namespace tutti::shm {
namespace {

constexpr int ranks = 3;
constexpr std::size_t margin = 128;
constexpr std::byte untouched{0x5a};

class Place {
 public:
  Place(std::size_t bytes, std::size_t shift)
      : memory_(margin + shift + bytes + margin, untouched), at_(margin + shift), bytes_(bytes) {}
  std::byte* data() { return memory_.data() + at_; }
  bool holds(const std::vector<std::byte>& expected) {
    return bytes_ == 0 || std::memcmp(data(), expected.data(), bytes_) == 0;
  }
  bool operator==(const Place&) const = default;
  bool is_alone() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < at_ || i >= at_ + bytes_) && memory_[i] != untouched) return false;
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t at_, bytes_;
};

struct Wanted {
  Write write;
  int source;  // the source that the target replaces; -1: none
};

void check(DType dtype, std::size_t count, const std::vector<Wanted>& wanted, std::size_t shift) {
  ShmCall call;
  call.kind = Kind::allreduce;
  call.size = ranks;
  call.width = size_of(dtype);
  call.fold = {dtype, Op::sum, 1.0};
  call.divisor = 3.0;
  const std::size_t bytes = count * call.width;
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<Place> given;
  ByRank<const std::byte*> sources{};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Place& place = given.emplace_back(bytes, (rank * 5 + shift) % 64 / call.width * call.width);
    for (std::size_t i = 0; i < bytes; ++i) place.data()[i] = static_cast<std::byte>(random() % 64);  // no NaNs
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) sources[rank] = given[rank].data();
  std::vector<std::byte> expected(bytes);
  Fold fold = call.fold;
  fold.divisor = call.divisor;
  fold.of(expected.data(), std::span<const std::byte* const>(sources).first(ranks), bytes);
  std::vector<Place> apart;
  apart.reserve(wanted.size());
  std::vector<Target> targets;
  std::vector<Place*> places;
  for (const auto& [write, source] : wanted) {
    places.push_back(source >= 0 ? &given[static_cast<std::size_t>(source)] : &apart.emplace_back(bytes, shift));
    targets.push_back({places.back()->data(), write});
  }
  const std::vector<Place> before = given;
  fold_in_order(call, targets, bytes, sources);
  const std::string what = std::to_string(count) + " of " + std::string(name(dtype)) + " to " +
                           std::to_string(wanted.size()) + " places, shift " + std::to_string(shift);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(places[i]->holds(expected)) << what << ", place " << i;
    EXPECT_TRUE(places[i]->is_alone()) << what << ", beside place " << i;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank)
    EXPECT_TRUE(given[rank] == before[rank] || std::ranges::find(places, &given[rank]) != places.end())
        << what << ", source " << rank;
}

TEST(ShmFolds, GoToEveryPlace) {
  constexpr Write cached = Write::cached, streaming = Write::streaming;
  const std::vector<std::vector<Wanted>> all = {
      {{cached, -1}},
      {{streaming, -1}},
      {{cached, -1}, {cached, -1}},
      {{cached, -1}, {streaming, -1}},
      {{streaming, -1}, {streaming, -1}, {streaming, -1}},
      {{streaming, -1}, {cached, -1}},
      {{streaming, 0}, {streaming, 1}, {streaming, 2}},  // zero-copy: all ranks in place, and one rank in place
      {{streaming, 0}, {streaming, -1}, {streaming, -1}},
      {{cached, 1}, {streaming, 0}},  // rounds: two ranks, in place and not, and more in place
      {{cached, 1}, {streaming, -1}},
      {{cached, -1}, {streaming, 0}},
  };
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64})
    for (const std::size_t count : {0, 1, 7, 128, 255, 256, 600, 4099, 20'001})
      for (const std::size_t shift : {0, 8, 16, 48})
        for (const auto& wanted : all) check(dtype, count, wanted, shift);
}

// Addresses need not be aligned.
TEST(ShmFolds, GoToAnyAddress) {
  for (const std::size_t shift : {1, 4, 12, 63})
    check(DType::f64, 3000, {{Write::streaming, -1}, {Write::streaming, -1}}, shift);
}

}  // namespace
}  // namespace tutti::shm
