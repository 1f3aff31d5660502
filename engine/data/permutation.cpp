#include "engine/data/permutation.hpp"

#include <bit>

namespace tutti::engine {
namespace {

/// The finaliser of SplitMix64.
constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t mask_of(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(std::uint64_t count, Random keys) noexcept : count_(count) {
  const int bits = std::bit_width(count - 1);
  low_bits_ = (bits + 1) / 2;
  low_mask_ = mask_of(low_bits_);
  high_mask_ = mask_of(bits - low_bits_);
  for (std::uint64_t& key : keys_) key = keys.next();
}

/// The halves may differ in length by one bit, so the rounds change them in turn instead of swapping them. Each round
/// can be undone, because it combines one half with a value that depends on the other half alone.
std::uint64_t Permutation::permuted(std::uint64_t number) const noexcept {
  std::uint64_t low = number & low_mask_, high = number >> low_bits_;
  for (std::size_t round = 0; round < rounds; round += 2) {
    low ^= mixed(high + keys_[round]) & low_mask_;
    high ^= mixed(low + keys_[round + 1]) & high_mask_;
  }
  return high << low_bits_ | low;
}

}  // namespace tutti::engine
