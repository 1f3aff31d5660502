// What of whose memory a rank reads in a call, in bytes: the geometry of the direct collectives, apart from any device.
#pragma once

#include <cstddef>
#include <vector>

#include "transports/core/collective.hpp"

namespace tutti::cudaipc {

/// A rank's part in a call. Every rank reads what the others show; what it makes of that goes to its own memory, and in
/// a large allreduce that folds in parts (call.hpp) to the others' too.
struct Part {
  std::size_t rank = 0, size = 1;
  std::size_t width = 1;                     ///< of an element
  std::vector<std::size_t> shown, shown_at;  ///< by rank: what it is shown of this rank's `in`, bytes and where
  std::vector<std::size_t> read, read_into;  ///< by rank: what is read of it, bytes and where in `out`
  bool folds = false;                        ///< what is read of all is folded, else it is copied
  bool keeps = true;                         ///< this rank gets a result
  std::size_t largest = 0;                   ///< of `shown`
};

/// Of a call on a group of `size` ranks, as made by `rank`.
Part part_of(const Collective& call, int rank, int size);

/// Of what one rank shows one other, as all ranks know it alike; SIZE_MAX where counts may differ.
std::size_t common_bytes(const Collective& call, int size);

/// [begin, end) of the `index`-th of `parts` even parts of `bytes`, cut at multiples of 256 bytes.
struct Range {
  std::size_t begin, end;
};
Range even_part(std::size_t bytes, std::size_t parts, std::size_t index);

}  // namespace tutti::cudaipc
