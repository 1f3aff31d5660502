// The memory that this program has allocated on the heap.
#pragma once

#include <cstddef>

namespace tutti::growth {

struct Heap {
  double allocations = 0;  ///< made since the program began
  double bytes = 0;        ///< not freed yet
  double taken = 0;        ///< bytes of all allocations, freed or not
};
Heap heap_now() noexcept;

}  // namespace tutti::growth
