#include "benchmarks/growth/heap.hpp"

#include "tests/support/counted_heap.hpp"

namespace tutti::growth {

Heap heap_now() noexcept {
  const testing::HeapUse use = testing::heap_use();
  return {static_cast<double>(use.allocations), static_cast<double>(use.bytes), static_cast<double>(use.taken)};
}

}  // namespace tutti::growth
