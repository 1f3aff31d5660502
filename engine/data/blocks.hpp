// Blocks: the parts of a data set that are best read as a whole, and a random order that reads each block once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/data/range.hpp"

namespace tutti::engine {

/// How a data set is read in blocks: consecutive samples that cost little more to read than one of them, such as the
/// samples in a compressed chunk of a file. If `files` is empty, samples cost the same in any order.
struct Blocks {
  /// for each file, in the data set's order: the number of samples in each of its blocks
  std::vector<std::vector<std::size_t>> files = {};
  std::size_t window = 1;  ///< number of blocks whose samples are shuffled together; the reader must hold as many
  std::size_t open = 1;    ///< number of files whose blocks are shuffled together

  bool empty() const noexcept { return files.empty(); }
  std::size_t count() const noexcept;    ///< number of blocks
  std::size_t samples() const noexcept;  ///< number of samples in all blocks
  /// A hash of the sizes of all blocks in all files.
  std::uint64_t digest() const noexcept;
};

/// Blocks whose samples are shuffled together.
struct BlockWindow {
  std::size_t turn = 0;  ///< number of the group of files that are open together, from 0
  std::vector<Range> blocks = {};
};

/// All blocks, each once, in windows. Files are taken in a random order, in groups of up to `open`. The blocks of a
/// group are in a random order, and each `window` consecutive ones are a window. So a reader that holds `window` blocks
/// reads each block once. The result depends on the arguments only, and is the same on every platform.
std::vector<BlockWindow> windows_of(const Blocks& blocks, std::uint64_t seed, std::size_t epoch);

}  // namespace tutti::engine
