// Which bytes a rank reads from which other rank in a call: the geometry of direct collectives, without any device.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/collective.hpp"

namespace tutti::cudaipc {

/// One rank's part in a call. A rank "shows" another one the bytes that this one reads. Each rank reads what all ranks
/// show it, and writes the result to its own memory; in a large allreduce (call.hpp) also to the memory of the others.
struct Part {
  std::size_t rank = 0, size = 1;
  std::size_t width = 1;                     ///< bytes per element
  std::vector<std::size_t> shown, shown_at;  ///< by rank: bytes of this rank's input that it shows, and their offset
  std::vector<std::size_t> read, read_into;  ///< by rank: bytes that this rank reads, and their offset in `out`
  bool folds = false;                        ///< data is folded, not copied
  bool keeps = true;                         ///< this rank gets a result
  std::size_t largest = 0;                   ///< maximum of `shown`
};

/// The part of rank `rank` in a call of `size` ranks.
Part part_of(const Collective& call, int rank, int size);

/// The number of bytes that one rank shows another; equal on all ranks. SIZE_MAX if the counts may differ by rank.
std::size_t common_bytes(const Collective& call, int size);

/// Part `index` of `bytes` bytes in `parts` equal parts, with borders at multiples of 256 bytes.
struct Range {
  std::size_t begin, end;
};
Range even_part(std::size_t bytes, std::size_t parts, std::size_t index);

}  // namespace tutti::cudaipc
