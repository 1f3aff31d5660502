// EpochOrder: the order in which an epoch takes the samples of a data set, before they are dealt out to ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/data/blocks.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// How a shuffled order is made.
enum class Shuffle : std::uint8_t {
  listed,  ///< a list of all samples, shuffled (Fisher and Yates): 4 bytes a sample on each rank, at most 2^32 samples
  keyed,   ///< a permutation computed place by place (Permutation), in memory that does not depend on samples
};

/// The default: a list for less than 2^20 samples, else a computed permutation.
constexpr Shuffle default_shuffle(std::size_t samples) noexcept {
  return samples < std::size_t{1} << 20 ? Shuffle::listed : Shuffle::keyed;
}

/// The order of one epoch. It depends on the arguments alone, so it is the same on all ranks and platforms.
struct EpochOrder {
  std::size_t size = 0;
  std::function<SampleId(std::size_t place)> at = {};  ///< the sample at a place; any thread may call it
  /// With files: how many consecutive places belong to the same file, in the order of the places.
  std::vector<std::size_t> stretches = {};
};

/// The parameters that determine the order of an epoch.
struct OrderWish {
  std::size_t samples = 0;
  std::uint64_t seed = 0;
  std::size_t epoch = 0;
  Shuffle shuffle = Shuffle::listed;
  /// If not empty: the number of samples in each file. Files are in a random order, and a file's samples stay together.
  std::span<const std::size_t> files = {};
  /// If not null: samples are shuffled within windows of blocks (windows_of()); with `files`, one file at a time.
  const Blocks* blocks = nullptr;
};

/// The order without shuffling; with the stretches of `files` if there are any.
EpochOrder order_as_it_is(std::size_t samples, std::span<const std::size_t> files);

/// The shuffled order. Its memory with Shuffle::keyed depends on the numbers of files and blocks, not of samples.
EpochOrder shuffled_order(const OrderWish& wish);

}  // namespace tutti::engine
